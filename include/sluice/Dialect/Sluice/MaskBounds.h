// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// Bounds of the keys q of one row p, from a relation over (p, q).
#pragma once

#include "sluice/Dialect/Sluice/Sluice.h"

#include "mlir/IR/AffineExpr.h"
#include "mlir/IR/IntegerSet.h"

namespace sluice {

/// Factors of the scales of queries and of keys, in lowest terms: query p represents tokens from a
/// p, key q tokens from b q, in common units.
struct ScaleRatio {
  int64_t query = 1, key = 1;
};
ScaleRatio scaleRatio(int64_t queryFactor, int64_t keyFactor);
ScaleRatio getScaleRatio(AttentionOp op);

/// Returns b q <= a p: keys that begin no later than the query. On one scale, q <= p.
mlir::IntegerSet causalMask(mlir::MLIRContext *context, ScaleRatio scales);
/// Returns b (q + 1) <= a (p + 1): keys that end no later than the query. On one scale, q <= p.
mlir::IntegerSet completeMask(mlir::MLIRContext *context, ScaleRatio scales);
/// Returns m - end < q <= m - begin, where m = a p div b is the latest causal key.
mlir::IntegerSet windowMask(mlir::MLIRContext *context, ScaleRatio scales, int64_t begin,
                            int64_t end);
/// Returns a (p + 1) - end < b (q + 1) <= a (p + 1) - begin: keys whose last token is in a window
/// before the query's last token, in common units.
mlir::IntegerSet tokenMask(mlir::MLIRContext *context, ScaleRatio scales, int64_t begin,
                           int64_t end);
/// Returns, for one scale, q <= p in the block of p. Blocks have `rows` rows, and one starts at row
/// `start`.
mlir::IntegerSet blockMask(mlir::MLIRContext *context, int64_t start, int64_t rows);
mlir::IntegerSet everyKey(mlir::MLIRContext *context);
/// Returns the keys of `mask` from row `first`; `mask` itself if `first` is 0.
mlir::IntegerSet withFirstKey(mlir::IntegerSet mask, int64_t first);
/// Inverse of withFirstKey; 0 for other masks.
std::pair<mlir::IntegerSet, int64_t> splitFirstKey(mlir::IntegerSet mask);
/// Returns the keys p - begin - stride j of a mask on one scale; `mask` itself if `stride` is 1.
mlir::IntegerSet withStride(mlir::IntegerSet mask, int64_t begin, int64_t stride);
/// Inverse of withStride; 1 for other masks.
std::pair<mlir::IntegerSet, int64_t> splitStride(mlir::IntegerSet mask);

/// A mask in a spec's words. A window in tokens that equals a window in keys is named "window".
struct MaskWords {
  enum Kind { Causal, Complete, Window, Tokens, Block, Bidirectional, Other } kind = Other;
  int64_t begin = 0, end = 0; ///< for a window; for a block its start and its rows
  int64_t first = 0;          ///< first visible key
  int64_t stride = 1;         ///< for a window: only keys p - begin - stride j
};
MaskWords describeMask(mlir::IntegerSet mask, ScaleRatio scales);

/// A relation solved for q: row p of valid length n has the q with every lower <= q <= every upper,
/// if every condition (an expression that must be >= 0) holds. Expressions are over d0 = p and s0 =
/// n.
struct MaskBounds {
  llvm::SmallVector<mlir::AffineExpr> lower, upper, conditions;
  /// True if every constraint was solved, so that the bounds are the relation and not an
  /// over-approximation.
  bool exact = true;

  /// Returns the first and last q of row p within [0, n), last < first if there is none. An
  /// over-approximation unless `exact`.
  std::pair<int64_t, int64_t> getRange(int64_t p, int64_t n) const;
};

/// Solves each constraint for q = d1. Skips constraints that contain q in more than one term, or
/// under mod.
MaskBounds solveMask(mlir::IntegerSet mask);

/// Returns true if a relation uses its operand's length other than as the bound n - 1 - q >= 0.
bool mentionsLength(mlir::IntegerSet relation);

/// Counts the pairs (p, q) of `mask` with p in [0, rows) and q in [0, n).
int64_t countMask(mlir::IntegerSet mask, int64_t rows, int64_t n);

/// Returns true if `expression` is non-decreasing in d0: a sum of rising terms, without symbols.
/// (Sufficient, not necessary.)
bool isNonDecreasing(mlir::AffineExpr expression);

} // namespace sluice
