// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs every checker on a module in memory.
#pragma once

#include "Checkers.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace sluice::fuzz {

CheckerResults runCheckers(mlir::ModuleOp module, bool replay);
/// Imports a spec. Throws std::runtime_error if the reader rejects it.
mlir::OwningOpRef<mlir::ModuleOp> importText(mlir::MLIRContext &context, const std::string &text,
                                             const std::string &file);
/// Parses model IR. Returns null, with MLIR's diagnostics, if it does not parse.
mlir::OwningOpRef<mlir::ModuleOp> parseModel(mlir::MLIRContext &context, const std::string &text,
                                             const std::string &file);

} // namespace sluice::fuzz
