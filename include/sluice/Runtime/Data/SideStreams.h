// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tokens on the axis of a named input, one for each of its tokens: from a file, or derived from its
// words. docs/running.md#tokens-on-an-inputs-axis defines the files and the rules.
#pragma once

#include "sluice/Runtime/Data/Lines.h"
#include "sluice/Runtime/Plan/Plan.h"

#include <memory>

namespace sluice::runtime {

/// Returns true if a stream takes no file: its bits follow from the tokens of its axis.
bool isComputed(const GivenInput &stream);

/// Returns the key of random numbers for a line: a hash of the seed and of the line's tokens, so
/// that it depends neither on the line's file nor on its place there.
uint64_t computeLineKey(uint64_t seed, std::span<const int32_t> tokens);

/// A stream on the axis of an input whose lines are `axis`.
class SideStream {
public:
  /// Reads and checks `files`, empty if the stream is computed. Throws UserError, with the place,
  /// if a line does not have a token for each token of the line of the input, or has others. The
  /// seed and a line's tokens determine the order of lengths that are shuffled. `axis` must outlive
  /// the stream.
  SideStream(const std::string &name, const GivenInput &stream, const Lines &axis,
             const std::vector<Path> &files, const ReadingOptions &reading, int64_t seed);

  /// Returns a token for each token of `line`, the beginning of line `index` of the input. With
  /// `hasEnd` the line's last token is the added line end.
  std::vector<int32_t> at(int64_t index, std::span<const int32_t> line, bool hasEnd) const;
  /// Returns the lines of its files; null if it has none.
  const Lines *lines() const { return file.get(); }

private:
  std::vector<int32_t> parse(int64_t index) const;
  std::vector<int32_t> findEnds(int64_t index, std::span<const int32_t> line) const;

  std::string name;
  GivenInput stream;
  const Lines *axis;
  std::shared_ptr<const TextEncoder> encoder;
  std::unique_ptr<Lines> file;
  uint64_t seed;
};

} // namespace sluice::runtime
