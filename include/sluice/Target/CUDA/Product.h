// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Contractions that are exactly a matrix product, which a library could do in a kernel's place.
#pragma once

#include "mlir/IR/Operation.h"

#include <cstdint>
#include <optional>

namespace sluice::cuda {

/// result[r, n] = sum over k of input[r, k] * W(k, n), summed in f32 and rounded once.
struct Product {
  int64_t rows = 0, columns = 0, depth = 0;
  bool byInput = false; ///< the weight is [depth, columns], else [columns, depth]
  bool isF32 = false;   ///< the result; else bf16
  int64_t inputStride = 0, weightStride = 0, resultStride = 0; ///< elements from row to row

  bool isSameShape(const Product &other) const {
    return rows == other.rows && columns == other.columns && depth == other.depth &&
           byInput == other.byInput && isF32 == other.isF32;
  }
};

/// The product that a dispatch is when `length` tokens are valid in each of `batch` rows; none
/// where it is anything else: another family, an epilogue (a bias among them: cuBLASLt wants biases
/// in the result's type, and they are f32), factors that are not bf16, rows that are not all valid
/// then.
std::optional<Product> findProduct(mlir::Operation *dispatch, int64_t length, int64_t batch);

} // namespace sluice::cuda
