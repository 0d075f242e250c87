// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Vectors of a row per lane, and sums over lanes.
#pragma once

#include "Frame.h"

namespace sluice::cuda {

/// Sums `value` over `lanes` adjacent lanes, a power of two, as a tree; every lane gets the sum.
/// All lanes of the warp must call it.
mlir::Value sumOfLanes(Frame &frame, mlir::Value value, int64_t lanes);

/// Loads elements [column, column + `vector`) of a row as f32 each. The byte offset of the first
/// must be a multiple of the vector's bytes.
Values loadElements(Frame &frame, mlir::Value memory, mlir::Value row, mlir::Value column,
                    int64_t vector);

/// Returns the largest number of elements, at most 16 bytes, that divides all of `multiples`.
int64_t getVectorElements(mlir::Type element, llvm::ArrayRef<int64_t> multiples);

} // namespace sluice::cuda
