// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels to the LLVM dialect.
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace sluice::cpu {

/// Loads what `lowerToLLVMDialect` and the translation after it make use of. Once a context, before
/// any thread: a context's dialects cannot change while several threads lower.
void loadLoweringDialects(mlir::MLIRContext &context);

/// Takes a module of kernels (arith, math, scf, memref, vector; bare pointers as arguments) to the
/// LLVM dialect, in place. Several modules of a context may be lowered at once.
mlir::LogicalResult lowerToLLVMDialect(mlir::ModuleOp module);

} // namespace sluice::cpu
