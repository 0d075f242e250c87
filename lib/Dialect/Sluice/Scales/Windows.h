// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Scales and the windows of groups of rows: checks, relations and sequences.
#pragma once

#include "sluice/Dialect/Sluice/Sluice.h"

namespace sluice::facts {

/// Verifies that the coarse scale's factor is `factor` times the fine one, and that a coarse row
/// has the columns of `rows` fine rows.
mlir::LogicalResult verifyScales(mlir::Operation *op, SequenceType fine, SequenceType coarse,
                                 int64_t factor, int64_t rows = 1);
mlir::LogicalResult verifyWindow(mlir::Operation *op, RowGroup group);

/// Returns the relation (p, q) for every row q of group p.
mlir::IntegerSet buildRelation(mlir::MLIRContext *context, RowGroup group);
/// Returns `sequence` without rows past its last valid one: itself, or a map that copies a lazy
/// sequence.
mlir::Value withinLength(mlir::OpBuilder &b, mlir::Location loc, mlir::Value sequence);
/// Builds the adjoint of `fold`: rows of `type` from concatenated windows or, if windows have as
/// many columns as `type`, from one row per window.
mlir::Value unfoldWindows(mlir::OpBuilder &b, mlir::Location loc, SequenceType type,
                          mlir::Value windows, RowGroup group);

} // namespace sluice::facts
