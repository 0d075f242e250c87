// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Elements of a matrix product in float64.
#pragma once

#include <cstdint>
#include <vector>

namespace sluice::test {

/// The sum of an element's terms, and of their magnitudes.
struct ProductSum {
  double value = 0, magnitude = 0;
};

/// Returns element (row, column) of x W, for x [rows, inner]. W is [inner, columns] if `byInput`,
/// else [columns, inner]. Every row and column must exist.
ProductSum computeProduct(const std::vector<float> &x, const std::vector<float> &weight,
                          int64_t inner, int64_t columns, bool byInput, int64_t row,
                          int64_t column);

} // namespace sluice::test
