// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the split of work among blocks takes from the GPU that a kernel is made for. A module of
// kernels says which that is; the same dispatch may have another kernel for another chip.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "sluice/Target/CUDA/Kernel.h"

namespace sluice::cuda {

/// Says that `module` is to hold kernels for `target`; one that does not say is for sm_80.
void setTarget(mlir::ModuleOp module, const Target &target);

/// Of the GPU that the module's target is made for: 108 of an A100, 132 of an H100 or H200 (SXM).
/// Other chips run the same code, with some multiprocessors idle or with a wave more.
int64_t multiprocessorsOf(mlir::ModuleOp module);

/// Whether the kernel of a dispatch depends on the module's target: a weight gradient's, whose rows
/// are split by the number of multiprocessors. All others are the same for every target.
bool dependsOnTarget(mlir::Operation *dispatch);

} // namespace sluice::cuda
