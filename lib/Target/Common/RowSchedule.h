// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Division of a row kernel's body into loops over columns, and its reductions.
#pragma once

#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "sluice/Dialect/Dispatch/Dispatch.h"

namespace sluice::target {

/// One loop over the columns of rows of the same width.
struct RowStage {
  int64_t depth = 0;
  int64_t width = 0;
  llvm::SmallVector<dispatch::ReduceOp> reductions; ///< reductions that this loop computes
  llvm::SmallVector<unsigned> stores;               ///< results (by number) that this loop stores
  llvm::SmallVector<mlir::Value> keeps; ///< expensive values that this loop stores for later loops
};

/// Assigns values to loops. The depth of a value is the length of the longest chain of reductions
/// before it. The loops of maximum depth store all rows, because a result may alias an operand.
class Schedule {
public:
  /// Fails with a diagnostic on an op that row kernels do not support.
  static mlir::FailureOr<Schedule> of(dispatch::RowsOp op);

  llvm::ArrayRef<RowStage> stages() const { return stages_; }
  int64_t depth(mlir::Value value) const { return depth_.lookup(value); }
  /// Returns the stage that stores `value` in scratch, if any.
  std::optional<unsigned> keeper(mlir::Value value) const;

private:
  void assignDepths(mlir::Block &body);
  void makeStages(dispatch::RowsOp op);
  void chooseKept(dispatch::YieldOp yield);
  void visit(mlir::Value value, unsigned stage, llvm::DenseMap<mlir::Value, unsigned> &seen);
  double cost(mlir::Value value, unsigned stage, llvm::DenseMap<mlir::Value, double> &known) const;

  llvm::DenseMap<mlir::Value, int64_t> depth_;
  llvm::DenseMap<mlir::Value, unsigned> keeper_;
  llvm::SmallVector<RowStage> stages_;
};

/// Returns the width of a row value (tensor<d>) or of the rows of a group (tensor<k x d>).
int64_t getRowWidth(mlir::Value value);
/// Returns the rows of a group value; 0 for a row or a scalar.
int64_t getGroupSize(mlir::Value value);
bool isRow(mlir::Value value);

/// Returns the neutral element of a reduction (zero, or the minimum number) as a scalar or vector.
mlir::Value emitIdentity(mlir::ImplicitLocOpBuilder &b, dispatch::ReduceKind kind, mlir::Type type);
/// Returns a constant as a scalar or vector; zero if it is null.
mlir::Value emitConstant(mlir::ImplicitLocOpBuilder &b, mlir::TypedAttr number, mlir::Type type);
/// Combines the rows so far with a later one, as `dispatch.reduce_group` does; a null op sums them.
/// Loops start with its identity.
mlir::Value combineRows(mlir::ImplicitLocOpBuilder &b, dispatch::ReduceGroupOp op, mlir::Value rows,
                        mlir::Value later);
mlir::Value emitIdentity(mlir::ImplicitLocOpBuilder &b, dispatch::ReduceGroupOp op,
                         mlir::Type type);
/// The same for a combiner that has a name.
mlir::Value combineRows(mlir::ImplicitLocOpBuilder &b, dispatch::ReduceKind kind, mlir::Value rows,
                        mlir::Value later);
/// Returns a row of a range, or an element, times `weight` if that is not null, or zeros where
/// `isDrawn` (i1) is not null and false.
mlir::Value scaleRangeRow(mlir::ImplicitLocOpBuilder &b, mlir::Value row, mlir::Value weight,
                          mlir::Value isDrawn);

} // namespace sluice::target
