// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Scalars that the losses of a batch are divided by. The host computes them from the inputs.
#pragma once

#include "sluice/Runtime/Execute/InputView.h"

namespace sluice::runtime {

/// Numbers of scored rows of the batches of an update, by scalar: padding for all rows, padding.F
/// for rows from F on.
class ScoredRows {
public:
  /// Counts the rows of a batch that are not padding. With `isMore`, adds to the previous counts.
  void add(InputView &view, bool isMore);
  /// Sets the scalars such that `batches` batches of the current size have the counted rows without
  /// padding. Batches of an update that have other sizes may make them negative.
  void store(InputView &view, int64_t batches) const;

private:
  std::map<std::string, int64_t> rows;
};

/// Sums of weights over the batches of an update, by scalar.
class WeightSums {
public:
  /// Computes the scalars weights.NAME.F: the sum of a weight's numbers over rows from F on, or 1
  /// if the sum is 0, since no row counts then. With `isMore`, adds to the previous values.
  void add(InputView &view, bool isMore);

private:
  std::map<std::string, double> sums;
};

/// Numbers of rows that the model counts, over the batches of an update.
class CountedRows {
public:
  /// Reads the numbers of a batch, after the entry `count` ran. With `isMore`, adds them to the
  /// previous ones.
  void add(InputView &view, bool isMore);
  /// Sets the scalars that the losses of all batches are divided by.
  void store(InputView &view) const;

private:
  std::map<std::string, double> sums;
};

} // namespace sluice::runtime
