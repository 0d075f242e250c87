// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// Bounds, by a relation over (p, q), of the q's of one row p.
#pragma once

#include "sluice/Dialect/Sluice/Sluice.h"

#include "mlir/IR/AffineExpr.h"
#include "mlir/IR/IntegerSet.h"

namespace sluice {

/// Factors of the scales of queries and of keys, in lowest terms: query p stands for tokens from a
/// p on, key q for those from b q on, counted in common tokens.
struct ScaleRatio {
  int64_t query = 1, key = 1;
};
ScaleRatio scaleRatio(int64_t queryFactor, int64_t keyFactor);
ScaleRatio getScaleRatio(AttentionOp op);

/// b q <= a p: keys that begin where the query does, or before. Of one scale, q <= p.
mlir::IntegerSet causalMask(mlir::MLIRContext *context, ScaleRatio scales);
/// b (q + 1) <= a (p + 1): keys that end where the query does, or before. Of one scale, q <= p.
mlir::IntegerSet completeMask(mlir::MLIRContext *context, ScaleRatio scales);
/// m - end < q <= m - begin, where m = a p div b is the latest causal key.
mlir::IntegerSet windowMask(mlir::MLIRContext *context, ScaleRatio scales, int64_t begin,
                            int64_t end);
/// a (p + 1) - end < b (q + 1) <= a (p + 1) - begin: keys whose last token lies so far behind the
/// query's, counted in common tokens.
mlir::IntegerSet tokenMask(mlir::MLIRContext *context, ScaleRatio scales, int64_t begin,
                           int64_t end);
/// For one scale: q <= p in the block of p. Blocks have `rows` rows, and one starts at row `start`.
mlir::IntegerSet blockMask(mlir::MLIRContext *context, int64_t start, int64_t rows);
mlir::IntegerSet everyKey(mlir::MLIRContext *context);
/// The keys of `mask` from row `first` on; `mask` itself where that is 0.
mlir::IntegerSet withFirstKey(mlir::IntegerSet mask, int64_t first);
/// Inverse of withFirstKey; 0 for other masks.
std::pair<mlir::IntegerSet, int64_t> splitFirstKey(mlir::IntegerSet mask);
/// The keys p - begin - stride j of a mask on one scale; `mask` itself where that is 1.
mlir::IntegerSet withStride(mlir::IntegerSet mask, int64_t begin, int64_t stride);
/// Inverse of withStride; 1 for other masks.
std::pair<mlir::IntegerSet, int64_t> splitStride(mlir::IntegerSet mask);

/// A mask in a spec's words. A window in tokens that is one in keys is called that.
struct MaskWords {
  enum Kind { Causal, Complete, Window, Tokens, Block, Bidirectional, Other } kind = Other;
  int64_t begin = 0, end = 0; ///< of a window; of a block its start and its rows
  int64_t first = 0;          ///< keys before this row are left out
  int64_t stride = 1;         ///< of a window: keys p - begin - stride j alone
};
MaskWords describeMask(mlir::IntegerSet mask, ScaleRatio scales);

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

/// Returns true if a relation mentions its operand's length, other than to end there (n - 1 - q >=
/// 0).
bool mentionsLength(mlir::IntegerSet relation);

/// Pairs (p, q) of `mask` with p in [0, rows) and q in [0, n).
int64_t countMask(mlir::IntegerSet mask, int64_t rows, int64_t n);

/// Returns true if `expression` never falls as d0 grows: a sum of rising terms, without symbols.
/// (Sufficient, not necessary.)
bool isNonDecreasing(mlir::AffineExpr expression);

} // namespace sluice
