// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Batches of lines of similar lengths (docs/running.md, "Batches of lines by length").
#pragma once

#include "sluice/Runtime/Data/Data.h"
#include "sluice/Runtime/Plan/Plan.h"

namespace sluice::runtime {

/// Cuts the lines of each epoch into batches. Batches are a pure function of the lengths, the
/// shapes and the seed. Not thread-safe: it caches the batches of one window.
class LineBatches {
public:
  /// Tokens of every line on one axis, at most its capacity.
  using LineLengths = std::vector<int32_t>;

  /// `axes` has the predicted tokens first, then the named inputs of the shapes in their order.
  LineBatches(const Plan &plan, std::vector<LineLengths> axes, uint64_t seed);

  struct Batch {
    BatchSize size;
    int64_t first = 0;            ///< lines of the epoch in earlier batches
    std::vector<int64_t> indices; ///< indices of its lines in the epoch
  };
  /// Returns the batch at a position; null if none begins there.
  const Batch *find(DataPosition position) const;
  /// Returns the number of batches from a position to the end of epoch `epochs` - 1.
  int64_t count(DataPosition from, int64_t epochs) const;
  /// Returns the line with this index in the epoch.
  int64_t getLine(int64_t epoch, int64_t index) const;
  int64_t countLines() const { return static_cast<int64_t>(axes.front().size()); }

private:
  /// Returns the batches of the window that begins at index `first` of an epoch, in their order.
  std::vector<Batch> cutWindow(int64_t epoch, int64_t first, int64_t last, int64_t number) const;
  /// Returns the index after the last line of the window that begins at `first`.
  int64_t findWindowEnd(int64_t epoch, int64_t first) const;
  int64_t getLength(int64_t line) const;
  void select(DataPosition position) const;

  std::vector<BatchShape> shapes;
  int64_t windowTokens;
  std::vector<LineLengths> axes;
  uint64_t seed;
  mutable struct {
    int64_t epoch = -1, first = 0, last = 0, number = 0; ///< window of `batches`
    std::vector<Batch> batches;
  } window;
};

} // namespace sluice::runtime
