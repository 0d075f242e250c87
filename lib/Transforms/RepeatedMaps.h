// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Inputs of weight gradients that are rematerialized instead of stored.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"

namespace sluice {

/// Maps to rematerialize, by the contraction whose dispatch computes them, in program order.
using RepeatedMaps = llvm::DenseMap<mlir::Operation *, llvm::SmallVector<mlir::Operation *>>;

/// Finds forward maps, such as activations, whose results only weight gradients read in the
/// backward pass and whose operands the derivatives of these maps read anyway. Copies them for
/// these readers, after the contraction that computes the gradient of their result: its epilogue
/// reads the same operands for the derivative. The results of the forward maps then need not be
/// stored.
RepeatedMaps repeatMaps(mlir::func::FuncOp func);

/// Returns the ops of the backward pass: the ops after `sluice.begin_backward`, except for the
/// objective, which only reports losses.
llvm::DenseSet<mlir::Operation *> findBackward(mlir::func::FuncOp func);

} // namespace sluice
