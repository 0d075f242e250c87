// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Scales and the windows of groups of rows: checks, relations and sequences.
#pragma once

#include "sluice/Dialect/Sluice/Sluice.h"

namespace sluice::facts {

/// Checks that the coarse scale's factor is `factor` times the factor of the fine one, and that a
/// coarse row holds the columns of `rows` fine rows.
mlir::LogicalResult verifyScales(mlir::Operation *op, SequenceType fine, SequenceType coarse,
                                 int64_t factor, int64_t rows = 1);
/// Checks for a window and a step of 1 row or more.
mlir::LogicalResult verifyWindow(mlir::Operation *op, RowGroup group);

/// (p, q) for every row q of group p.
mlir::IntegerSet buildRelation(mlir::MLIRContext *context, RowGroup group);
/// `sequence` with nothing past its last row: itself, or of a lazy one a map that repeats it.
mlir::Value withinLength(mlir::OpBuilder &b, mlir::Location loc, mlir::Value sequence);
/// The adjoint of `fold`: rows of `type` from windows side by side, or, with as many columns as
/// `type` has, from one row for all of a window.
mlir::Value unfoldWindows(mlir::OpBuilder &b, mlir::Location loc, SequenceType type,
                          mlir::Value windows, RowGroup group);

} // namespace sluice::facts
