// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Changes an imported module such that its entry `predict` returns every row.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace sluice::driver {

/// Changes `predict` of a module with one row per batch to return the logits of every row or, if
/// `stage` is not empty, the f32 rows of the result of the stage with that name
/// ("stages.1.inside.4"). Fails if no op belongs to that stage.
mlir::LogicalResult keepEveryRow(mlir::ModuleOp module, llvm::StringRef stage);

/// Changes `predict` to return `rows`, a value of its body, as f32, and removes the ops that do not
/// contribute.
void returnRows(mlir::func::FuncOp predict, mlir::Value rows);

} // namespace sluice::driver
