// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rows that the ends and counts of segments find, for ops of every level.
#pragma once

#include "sluice/Dialect/Sluice/Sluice.h"

namespace sluice {

/// A read whose relation, if it is one, has symbols after n: symbol 1 + i is the number that term
/// i's row of counts or of ends holds.
struct SegmentRead {
  struct Term {
    mlir::Value of;      ///< counts or ends
    mlir::AffineExpr at; ///< the row, of d0 = p and of the terms before
  };
  dispatch::RowRead read;
  llvm::SmallVector<Term, 2> terms = {};
};

/// The rows that row p of a result reads, where segments select some of them; none of any other op.
/// A row may read another and then leave it out, as the gradient of a selected row does. With
/// `exact` that is not said.
std::optional<llvm::SmallVector<SegmentRead>> collectSegmentReads(mlir::Operation *op,
                                                                  unsigned result, bool exact);

} // namespace sluice
