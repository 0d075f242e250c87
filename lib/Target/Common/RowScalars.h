// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Scalars of a row kernel's body, for one row.
#pragma once

#include "RowSchedule.h"

namespace sluice::target {

/// Scalars of the current row, and vectors that broadcast one, by body value.
using BodyScalars = llvm::DenseMap<mlir::Value, mlir::Value>;

/// Returns the value of the argument that finds a row or an element (AccessAttr, `index` and
/// `last`); null if there is none.
mlir::Value getIndexValue(dispatch::RowsOp op, const BodyScalars &scalars, int64_t argument);

/// Emits the elements of one level (AccessAttr::getLevel) with `load`.
void emitElements(dispatch::RowsOp op, unsigned level, BodyScalars &scalars,
                  llvm::function_ref<mlir::Value(mlir::BlockArgument)> load);

/// Inputs of `emitScalars`.
struct ScalarInputs {
  int64_t lanes;        ///< of vectors that broadcast a scalar
  mlir::Value position; ///< index: position of the row
  llvm::function_ref<mlir::Value(dispatch::RandomOp)> drawElement;
};

/// Emits the scalars (and broadcasts of scalars to rows) that are available after `depth`
/// reductions.
void emitScalars(mlir::ImplicitLocOpBuilder &b, dispatch::RowsOp op, const Schedule &schedule,
                 int64_t depth, const ScalarInputs &inputs, BodyScalars &scalars);

} // namespace sluice::target
