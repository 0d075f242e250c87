// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// GPU properties that decide how kernels split their work among blocks. A module of kernels names
// its target GPU, so the same dispatch may have different kernels for different chips.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "sluice/Target/CUDA/Kernel.h"

namespace sluice::cuda {

/// Sets the target of the kernels in `module`. A module without a target is for sm_80.
void setTarget(mlir::ModuleOp module, const Target &target);

/// Returns the number of multiprocessors of the module's target: 108 for an A100, 132 for an H100
/// or H200 (SXM). Other chips run the same code, with idle multiprocessors or one more wave.
int64_t getMultiprocessorCount(mlir::ModuleOp module);

/// Returns true if the module's target has the products of warpgroups (wgmma): sm_90a.
bool hasWarpgroups(mlir::ModuleOp module);

/// Returns true if the kernel of a dispatch depends on the module's target: weight gradients split
/// rows by the number of multiprocessors, and large contractions use wgmma where it exists.
bool dependsOnTarget(mlir::Operation *dispatch);

} // namespace sluice::cuda
