// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// IR levels of passes, and their invariants.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace sluice {

/// Functions consist of model dialect ops, or of dispatches over named memory.
enum class ModuleLevel { Model, Dispatches };

/// Rejects a module on another level, or without functions to build entries from; a pass would
/// silently drop such code.
mlir::LogicalResult verifyLevel(mlir::ModuleOp module, ModuleLevel level);

/// Verifies the requirements of memory planning on an entry of dispatches: it communicates only
/// through named memory, its guards follow the rules of the dispatch dialect, and in an update of
/// several batches ops draw random numbers by the rows of the update.
mlir::LogicalResult verifyEntry(mlir::func::FuncOp func);

} // namespace sluice
