// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Collects the rows that are selected by ends and counts of segments, for ops of every level.
#pragma once

#include "sluice/Dialect/Sluice/Sluice.h"

namespace sluice {

/// A read whose relation, if it has one, has symbols after n: symbol 1 + i is the number in the row
/// of counts or ends that term i selects.
struct SegmentRead {
  struct Term {
    mlir::Value of;      ///< counts or ends
    mlir::AffineExpr at; ///< the row, an expression of d0 = p and of the preceding terms
  };
  dispatch::RowRead read;
  llvm::SmallVector<Term, 2> terms = {};
};

/// Returns the rows that row p of a result reads, if segments select some of them; none for any
/// other op. A row may read another one and then ignore it, like the gradient of a selected row;
/// `exact` omits such reads.
std::optional<llvm::SmallVector<SegmentRead>> collectSegmentReads(mlir::Operation *op,
                                                                  unsigned result, bool exact);

} // namespace sluice
