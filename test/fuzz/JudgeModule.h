// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The same for modules in memory.
#pragma once

#include "Judge.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace sluice::fuzz {

Judgement judgeModule(mlir::ModuleOp module, bool replay);
/// Imports a spec. Throws std::runtime_error where the reader rejects it.
mlir::OwningOpRef<mlir::ModuleOp> importText(mlir::MLIRContext &context, const std::string &text,
                                             const std::string &file);
/// Model IR; null, with MLIR's diagnostics, where it does not parse.
mlir::OwningOpRef<mlir::ModuleOp> parseModel(mlir::MLIRContext &context, const std::string &text,
                                             const std::string &file);

} // namespace sluice::fuzz
