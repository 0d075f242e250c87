// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Generators of contractions and of weight gradients.
//
// Kernels over scheduled domains have few rows with all weights or keys. The result of a row
// depends neither on the other rows nor on their number. Blocks load the schedule of due rows from
// memory, and exit early if none is due.
#pragma once

#include "sluice/Target/CUDA/Kernel.h"

namespace sluice::cuda {

/// Factors are bf16. Sums and the epilogue are f32. Extra operands and results are f32 or bf16.
mlir::FailureOr<Kernel> generateContract(dispatch::ContractOp op, mlir::ModuleOp module,
                                         llvm::StringRef name);

/// Returns true if the kernel for sm_90a multiplies by warpgroups, and so differs from the kernel
/// for sm_80.
bool multipliesByWarpgroup(dispatch::ContractOp op);

/// Reads each weight once per four due rows. Warps own columns, and move along the inner dimension
/// by 16 bytes per lane.
mlir::FailureOr<Kernel> generateStepContract(dispatch::ContractOp op, mlir::ModuleOp module,
                                             llvm::StringRef name);

/// Factors are bf16; sums, inits and results are f32. Rows are split among blocks if there are few
/// tiles; the last block of a tile to finish adds the partial sums in order.
mlir::FailureOr<Kernel> generateWeightGradient(dispatch::WeightGradientOp op, mlir::ModuleOp module,
                                               llvm::StringRef name);

} // namespace sluice::cuda
