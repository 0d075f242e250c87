// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Inputs of weight gradients that are made again instead of kept.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace sluice {

/// Maps that are made again, by the contraction whose dispatch makes them, in program order.
using RepeatedMaps = llvm::DenseMap<mlir::Operation *, llvm::SmallVector<mlir::Operation *>>;

/// Finds forward maps that weight gradients alone read in the backward pass, and whose operands its
/// maps read anyway, as those of an activation. Copies them for these readers, behind the
/// contraction that makes the gradient of their result: its epilogue reads the same operands for
/// the derivative. So the forward maps' results need not be kept.
RepeatedMaps repeatMaps(mlir::func::FuncOp func);

} // namespace sluice
