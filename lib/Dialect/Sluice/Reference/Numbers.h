// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Defines numbers in the reference for values that come from data.
#pragma once

#include "sluice/Dialect/Sluice/Reference.h"

namespace sluice::reference {

/// Returns a weight, 0, 1/2 or 1, by row and position.
template <typename T> T weightAt(int64_t b, int64_t p) { return static_cast<T>((b + p) % 3) / 2; }

/// Returns a distribution that depends on every token of row b: shares of 1 to 7.
template <typename T>
std::vector<T> getTargetToken(Evaluator<T> &evaluator, mlir::Value tokens, int64_t b, int64_t p,
                              size_t columns) {
  int64_t start = p;
  for (int64_t q = 0; q < evaluator.getPositions(tokens); ++q) {
    start += evaluator.tokenAt(tokens, b, q);
  }
  std::vector<T> shares(columns);
  T sum = 0;
  for (size_t v = 0; v < columns; ++v) {
    shares[v] = static_cast<T>(1 + (start + static_cast<int64_t>(v)) % 7);
    sum += shares[v];
  }
  for (T &share : shares) {
    share /= sum;
  }
  return shares;
}

} // namespace sluice::reference
