// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reverse-mode differentiation of straight-line scalar code: the regions of sluice.map and of
// attention's score.
#pragma once

#include "mlir/IR/Block.h"
#include "mlir/IR/Builders.h"

namespace sluice {

/// Appends to `builder` a copy of `body` applied to `arguments` (one per block argument) and the
/// code of the products `gradient * d yield / d argument`. Returns one value per argument: null if
/// the yield does not depend on it through differentiable ops. `body` ends in a terminator with one
/// f32 operand. Fails, naming the op, on an op without a rule.
///
/// Integers, comparisons, constants and random draws carry no gradient; a draw is repeated, not
/// differentiated.
mlir::FailureOr<llvm::SmallVector<mlir::Value>> differentiateScalar(mlir::OpBuilder &builder,
                                                                    mlir::Block &body,
                                                                    mlir::ValueRange arguments,
                                                                    mlir::Value gradient);

/// Erases ops of `block` whose results have no users, last first.
void eraseDeadOps(mlir::Block &block);

} // namespace sluice
