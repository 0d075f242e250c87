// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Helpers for the facts of several ops.
#pragma once

#include "sluice/Dialect/Sluice/Sluice.h"

namespace sluice::facts {

/// The coarse scale's factor must be `factor` times the fine one's, and columns must fit: a coarse
/// row holds the columns of `rows` fine ones.
mlir::LogicalResult verifyScales(mlir::Operation *op, SequenceType fine, SequenceType coarse,
                                 int64_t factor, int64_t rows = 1);
/// A window and a step of 1 row or more.
mlir::LogicalResult verifyWindow(mlir::Operation *op, RowGroup group);

/// (p, q) for every row q of group p.
mlir::IntegerSet buildRelation(mlir::MLIRContext *context, RowGroup group);
/// `sequence` with nothing past its last row: itself, or of a lazy one a map that repeats it.
mlir::Value withinLength(mlir::OpBuilder &b, mlir::Location loc, mlir::Value sequence);
/// The adjoint of `fold`: rows of `type` from windows side by side, or, with as many columns as
/// `type` has, from one row for all of a window.
mlir::Value unfoldWindows(mlir::OpBuilder &b, mlir::Location loc, SequenceType type,
                          mlir::Value windows, RowGroup group);

/// Elements of a sequence at capacity, or of a tensor.
double elements(mlir::Operation *op, mlir::Value value);
/// Everything that `op` takes and gives; `saved` are the inputs of its backward op.
Cost cost(mlir::Operation *op, double flops, mlir::ValueRange saved = {});

} // namespace sluice::facts
