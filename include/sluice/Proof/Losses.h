// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Losses of a function.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "sluice/Dialect/Sluice/Sluice.h"

namespace sluice {

/// The losses of a function.
llvm::SmallVector<CrossEntropyOp> lossesOf(mlir::func::FuncOp function);
/// The loss that is returned first, whose prediction is sampled; the others only train. The
/// function has one.
CrossEntropyOp mainLossOf(mlir::func::FuncOp function);

/// Row p of what a loss scores may need tokens up to p + this: never its target p + offset, and
/// never one past itself, which need not stand in the sequence yet.
int64_t latestAllowed(CrossEntropyOp loss);

} // namespace sluice
