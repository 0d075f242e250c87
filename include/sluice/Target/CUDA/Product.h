// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Contractions that are plain matrix products, for which a library can replace the kernel.
#pragma once

#include "mlir/IR/Operation.h"

#include <cstdint>
#include <optional>

namespace sluice::cuda {

/// result[r, n] = sum over k of input[r, k] * W(k, n), summed in f32 and rounded once.
struct Product {
  int64_t rows = 0, columns = 0, depth = 0;
  bool byInput = false; ///< weight is [depth, columns] if set, else [columns, depth]
  bool isF32 = false;   ///< result is f32 if set, else bf16
  int64_t inputStride = 0, weightStride = 0, resultStride = 0; ///< elements between consecutive
                                                               ///< rows

  bool isSameShape(const Product &other) const {
    return rows == other.rows && columns == other.columns && depth == other.depth &&
           byInput == other.byInput && isF32 == other.isF32;
  }
};

/// Returns the product that a dispatch computes when `length` tokens are valid in each of `batch`
/// rows. Returns none for another family, for an epilogue (including a bias: cuBLASLt requires
/// biases in the type of the result, and ours are f32), for factors that are not bf16, and where
/// some rows would be invalid.
std::optional<Product> findProduct(mlir::Operation *dispatch, int64_t length, int64_t batch);

} // namespace sluice::cuda
