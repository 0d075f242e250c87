// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels over scheduled domains: few rows with all weights or keys. The result of a row depends
// neither on the other rows nor on their number. Blocks read from memory which rows are due, and
// exit early if none is.
#pragma once

#include "Frame.h"

namespace sluice::cuda {

/// Reads each weight once per four due rows. Warps own columns, and move along the inner dimension
/// by 16 bytes per lane.
mlir::FailureOr<Kernel> generateStepContract(dispatch::ContractOp op, mlir::ModuleOp module,
                                             llvm::StringRef name);

/// One block per query and head, or several if rings are long; the last block of these merges the
/// results. Keys and values are in ring buffers, at absolute positions. Teams of lanes take turns
/// at keys, each with its own sums, which are merged in team order.
mlir::FailureOr<Kernel> generateStepAttention(dispatch::AttentionOp op, mlir::ModuleOp module,
                                              llvm::StringRef name);

/// Sums `value` over `lanes` adjacent lanes, a power of two, as a tree; every lane gets the sum.
/// All lanes of the warp must call it.
mlir::Value sumOfLanes(Frame &frame, mlir::Value value, int64_t lanes);

/// Loads elements [column, column + `vector`) of a row as f32 each. The byte offset of the first
/// must be a multiple of the vector's bytes.
Values loadElements(Frame &frame, mlir::Value memory, mlir::Value row, mlir::Value column,
                    int64_t vector);

/// Returns the largest number of elements, at most 16 bytes, that divides all of `multiples`.
int64_t vectorOf(mlir::Type element, llvm::ArrayRef<int64_t> multiples);

} // namespace sluice::cuda
