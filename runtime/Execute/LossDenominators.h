// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Scalars that the losses of a batch are divided by. The host computes them from the inputs.
#pragma once

#include "sluice/Runtime/Execute/InputView.h"

namespace sluice::runtime {

/// Computes the scalars padding and padding.F: the number of padded rows among the valid ones, for
/// all rows or for rows from F on. With `isMore`, adds to the previous values.
void countPadding(InputView &view, bool isMore);

/// Sums of weights over the batches of an update, by scalar.
class WeightSums {
public:
  /// Computes the scalars weights.NAME.F: the sum of a weight's numbers over rows from F on, or 1
  /// if the sum is 0, since no row counts then. With `isMore`, adds to the previous values.
  void add(InputView &view, bool isMore);

private:
  std::map<std::string, double> sums;
};

} // namespace sluice::runtime
