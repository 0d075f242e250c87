// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which rows of a body use an argument: those for which a select by the row's position takes it.
#pragma once

#include "mlir/IR/IntegerSet.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/SmallVector.h"
#include <optional>

namespace sluice::dispatch {

/// Rows p with (p + ahead) mod every = 0, or with `isOff` all others.
struct RowCondition {
  int64_t ahead = 0; ///< at least 0, so that no dividend of a row is negative
  int64_t every = 2; ///< at least 2
  bool isOff = false;
};

/// The rows for which an i1 of a body holds; none where it is no comparison of the row's position
/// alone.
std::optional<RowCondition> findRowCondition(mlir::Value condition);

/// Constraints that say that d0 is such a row: one.
mlir::IntegerSet getRows(mlir::MLIRContext *context, const RowCondition &condition);

/// One use of a body's argument.
struct ArgumentUse {
  unsigned argument = 0;
  mlir::IntegerSet rows; ///< rows d0 that use it; null: every row
};

/// Arguments that `yielded` is computed from, in their order. An argument that several rows use for
/// different reasons has several entries. Selects nested deeper than a few levels count as uses of
/// both operands.
llvm::SmallVector<ArgumentUse> findArgumentUses(mlir::Value yielded);

} // namespace sluice::dispatch
