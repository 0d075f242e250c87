// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An imported module whose entry `predict` gives every row.
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace sluice::driver {

/// Changes `predict` of a module for one row of a batch. It gives the logits of every row or, where
/// `stage` is not empty, the f32 rows of what the stage of that name ("stages.1.inside.4") makes.
/// Fails where no op is of that stage.
mlir::LogicalResult keepEveryRow(mlir::ModuleOp module, llvm::StringRef stage);

} // namespace sluice::driver
