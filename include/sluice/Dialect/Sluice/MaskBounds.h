// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// What a relation over (p, q) says of the q's of one row p.
#pragma once

#include "mlir/IR/AffineExpr.h"
#include "mlir/IR/IntegerSet.h"
#include "llvm/ADT/SmallVector.h"

namespace sluice {

/// A relation solved for q: row p of valid length n holds the q with every lower <= q <= every
/// upper, where every condition (an expression that must be >= 0) holds. Expressions are over d0 =
/// p and s0 = n.
struct MaskBounds {
  llvm::SmallVector<mlir::AffineExpr> lower, upper, conditions;
  /// Every constraint was solved, so the bounds are the relation and not only around it.
  bool exact = true;

  /// First and last q of row p within [0, n), last < first where there is none. Around the row
  /// unless `exact`.
  std::pair<int64_t, int64_t> getRange(int64_t p, int64_t n) const;
};

/// Solves each constraint for q = d1. Constraints that mention q in more than one term, or under
/// mod, are left out.
MaskBounds solveMask(mlir::IntegerSet mask);

/// Pairs (p, q) of `mask` with p and q in [0, n).
int64_t countMask(mlir::IntegerSet mask, int64_t n);

/// Whether `expression` never falls as d0 grows: a sum of rising terms, without symbols.
/// (Sufficient, not necessary.)
bool isNonDecreasing(mlir::AffineExpr expression);

} // namespace sluice
