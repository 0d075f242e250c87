// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds the losses of a function.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "sluice/Dialect/Sluice/Sluice.h"

namespace sluice {

/// Returns the losses of a function.
llvm::SmallVector<CrossEntropyOp> getLossOps(mlir::func::FuncOp function);
/// Returns the loss of the prediction that generation samples: the first one that the function
/// returns. Other losses only train. The function must have a loss.
CrossEntropyOp getMainLoss(mlir::func::FuncOp function);

/// Returns the maximum k such that row p of a loss may depend on tokens up to p + k: never its
/// target p + offset, and never a token after p, which need not exist yet.
int64_t latestAllowed(CrossEntropyOp loss);

} // namespace sluice
