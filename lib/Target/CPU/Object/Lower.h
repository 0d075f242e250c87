// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lowers kernels to the LLVM dialect.
#pragma once

#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Rewrite/FrozenRewritePatternSet.h"

namespace sluice::cpu {

/// Loads the dialects that `LLVMDialectLowering` and the translation after it use. Must be called
/// once per context before any thread lowers, because the dialects of a context must not change
/// then.
void loadLoweringDialects(mlir::MLIRContext &context);

/// Lowers kernels to the LLVM dialect. Building the patterns takes longer than lowering a small
/// kernel, so one object serves many modules of its context, on any number of threads.
class LLVMDialectLowering {
public:
  explicit LLVMDialectLowering(mlir::MLIRContext &context);
  LLVMDialectLowering(const LLVMDialectLowering &) = delete; // patterns refer to `types`
  LLVMDialectLowering &operator=(const LLVMDialectLowering &) = delete;

  /// Lowers a module of kernels (arith, math, scf, memref, vector; bare pointers as arguments) in
  /// place.
  mlir::LogicalResult run(mlir::ModuleOp module) const;

private:
  mlir::LLVMTypeConverter types;
  mlir::FrozenRewritePatternSet expansions, conversions;
};

} // namespace sluice::cpu
