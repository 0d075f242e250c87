// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rows of memory that the operands of a row kernel read, and the work of its dispatch.
#pragma once

#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "sluice/Dialect/Dispatch/Dispatch.h"

namespace sluice::target {

/// Work of a row kernel at full length: operations, a lower bound on the bytes moved, and its kind.
struct Work {
  double flops = 0, bytes = 0;
  llvm::StringRef kind; ///< row, or stream for rows without a sequence
};
Work computeWork(dispatch::RowsOp op);

/// Returns the memory row of a ring [B, extent, ...] that holds `position` of batch row `batch`.
mlir::Value ringRow(mlir::ImplicitLocOpBuilder &b, int64_t extent, mlir::Value batch,
                    mlir::Value position);

/// Returns the row in the memory of a tensor [B, extent, ...] that holds `position` of batch row
/// `batch`; the tensor of a scheduled domain is a ring.
mlir::Value sequenceRow(mlir::ImplicitLocOpBuilder &b, dispatch::DomainAttr domain, int64_t extent,
                        mlir::Value batch, mlir::Value position);

/// Returns access and type of a tensor of a row kernel: operands first, then results.
dispatch::AccessAttr getTensorAccess(dispatch::RowsOp op, unsigned tensor);
mlir::RankedTensorType getTensorType(dispatch::RowsOp op, unsigned tensor);

/// Returns how result `i` is stored.
dispatch::AccessKind getResultKind(dispatch::RowsOp op, unsigned i);
dispatch::YieldOp getYield(dispatch::RowsOp op);

/// Returns the number of partial sums of results with access `columns`; 0 without such results.
mlir::FailureOr<int64_t> computeSumParts(dispatch::RowsOp op);

/// Applies the map of an access to `value` (the row's own position or a gathered one) and `member`,
/// for a source of `valid` rows; all of type index.
mlir::Value emitMappedPosition(mlir::ImplicitLocOpBuilder &b, dispatch::AccessAttr access,
                               mlir::Value value, mlir::Value member, mlir::Value valid);

/// Returns true if an operand with access `row` or `table` (or a group of `flat`) reads rows within
/// its source for every valid row of the domain. `extent` is the number of rows of the source.
bool alwaysInside(dispatch::RowsOp op, dispatch::AccessAttr access, int64_t extent);
/// Returns true if no length bounds the source sequence: with segments, the rings of a decode step
/// hold every row that is read, at any position.
bool isEndless(dispatch::RowsOp op, dispatch::AccessAttr access);
/// Returns true if operand `i` is gathered from the row's own sequence, not from a table.
bool isOfSequence(dispatch::RowsOp op, unsigned i);
/// Returns the value outside an ascending sequence (AccessAttr, `extended`): i32, for a position
/// outside its range.
mlir::Value goesOn(mlir::ImplicitLocOpBuilder &b, mlir::Value position);
/// Returns true if the first column of an operand may be negative; zeros are read there.
bool mayPrecedeColumns(dispatch::RowsOp op, dispatch::AccessAttr access);
/// Returns true if operand `i` reads columns that its source does not have, as the number
/// `outside`. Its first column is then a constant.
bool readsOutsideColumns(dispatch::RowsOp op, unsigned i);

} // namespace sluice::target
