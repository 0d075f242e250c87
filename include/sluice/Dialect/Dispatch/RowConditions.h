// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rows of a body that use an argument: rows for which a select on the row's position chooses it.
#pragma once

#include "mlir/IR/IntegerSet.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/SmallVector.h"
#include <optional>

namespace sluice::dispatch {

/// Rows p with (p + ahead) mod every = 0, or with `isOff` all other rows.
struct RowCondition {
  int64_t ahead = 0; ///< at least 0, so that no dividend of a row is negative
  int64_t every = 2; ///< at least 2
  bool isOff = false;
};

/// Returns the rows for which an i1 of a body is true; std::nullopt unless it is a comparison of
/// the row's position only.
std::optional<RowCondition> findRowCondition(mlir::Value condition);

/// Returns the constraint on d0 that selects these rows.
mlir::IntegerSet getRows(mlir::MLIRContext *context, const RowCondition &condition);

/// One use of a body's argument.
struct ArgumentUse {
  unsigned argument = 0;
  mlir::IntegerSet rows; ///< rows d0 that use it; null: every row
};

/// Returns the arguments that `yielded` is computed from, in order. An argument with several row
/// conditions has several entries. Selects nested deeper than a few levels count as uses of both
/// operands.
llvm::SmallVector<ArgumentUse> findArgumentUses(mlir::Value yielded);

} // namespace sluice::dispatch
