// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiles kernels to native object code.
#pragma once

#include "sluice/Target/CPU/Kernel.h"
#include "sluice/Target/Cache/KernelCache.h"

namespace sluice::cpu {

/// Registers LLVM's code generators, once per process.
void initializeBackend();

/// Lowers a module of kernels (arith, math, scf, memref, vector with the kernel ABI) to native
/// object code for `target`; functions keep their names. Elementary functions become arithmetic
/// (see Common/Math.h, for f32 and f64); a vector reduction becomes a tree of halves. Multiplies
/// and adds are fused only for math.fma and vector.fma. Fails with a diagnostic, also if a library
/// call would remain; `object` is unchanged then.
mlir::LogicalResult lowerToObject(mlir::ModuleOp module, const Target &target, std::string &object);

/// A module of kernels and its target.
struct ObjectRequest {
  mlir::ModuleOp module;
  const Target *target;
};

/// Lowers the kernels of several modules of one context, each to its own object, on the threads of
/// the context. Takes cached objects from `cache`, and stores the others there. Appends to
/// `objects` in the order of `requests` and of their kernels. The bytes depend neither on the
/// contents of the cache nor on the number of threads. `report`, if any, is called after each
/// lowered kernel, with the number of kernels so far and in total.
mlir::LogicalResult
lowerToObjects(llvm::ArrayRef<ObjectRequest> requests, std::vector<std::string> &objects,
               KernelCache &cache,
               llvm::function_ref<void(size_t done, size_t count)> report = nullptr);

} // namespace sluice::cpu
