// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels over scheduled domains: few rows, and all of the weights or keys. What a row gets depends
// neither on the other rows nor on their number. Blocks read from memory which rows are due, and
// return at once where none is.
#pragma once

#include "Frame.h"

namespace sluice::cuda {

/// Each weight is read once for all rows that are due, up to four; again for every four more. Warps
/// own columns, and go along the inner dimension by 16 bytes a lane.
mlir::FailureOr<Kernel> generateStepContract(dispatch::ContractOp op, mlir::ModuleOp module,
                                             llvm::StringRef name);

/// A block a query and head, several where rings are long: the last of them adds up what all left.
/// Keys and values lie in rings, at absolute positions. Teams of lanes take keys in turn, each with
/// sums of its own, which meet in the teams' order.
mlir::FailureOr<Kernel> generateStepAttention(dispatch::AttentionOp op, mlir::ModuleOp module,
                                              llvm::StringRef name);

/// `value` summed over `lanes` neighbouring lanes, a power of two: a tree, every one of them holds
/// the sum. All lanes of the warp must be there.
mlir::Value sumOfLanes(Frame &frame, mlir::Value value, int64_t lanes);

/// Elements [column, column + `vector`) of a row, as f32 each. The first is a multiple of the
/// vector's bytes away from the memory's start.
Values loadElements(Frame &frame, mlir::Value memory, mlir::Value row, mlir::Value column,
                    int64_t vector);

/// The most elements of 16 bytes that divides all of `multiples`.
int64_t vectorOf(mlir::Type element, llvm::ArrayRef<int64_t> multiples);

} // namespace sluice::cuda
