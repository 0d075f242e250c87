// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which level of IR a pass reads, and what must hold of it there.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace sluice {

/// Functions hold ops of the model dialect alone, or dispatches over named memory alone.
enum class Level { Model, Dispatches };

/// Refuses a module that stands on another level, or that has no functions to make entries of: what
/// a pass does not look for there, it would drop without a word.
mlir::LogicalResult verifyLevel(mlir::ModuleOp module, Level level);

/// What memory planning needs of an entry of dispatches: nothing comes or goes but by named memory.
/// What guards protect and allow is as the dispatch dialect says, and what draws random numbers in
/// an update of several batches draws by its rows.
mlir::LogicalResult verifyEntry(mlir::func::FuncOp func);

} // namespace sluice
