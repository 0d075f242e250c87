// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rows of an operand that a row of a result reads.
#pragma once

#include "mlir/IR/AffineMap.h"
#include "mlir/IR/IntegerSet.h"
#include "llvm/ADT/SmallVector.h"
#include <optional>

namespace sluice::dispatch {

/// Rows q of operand `operand` that row p of a result reads.
struct RowRead {
  enum class Kind {
    Map,      ///< q = map(p, i)[n] for i < group
    Relation, ///< (p, q) in `relation`, symbol n
    Whole     ///< all of it
  };
  unsigned operand = 0;
  Kind kind = Kind::Whole;
  mlir::AffineMap map;
  int64_t group = 1;
  /// Rows p, dim 0, at which a map reads this operand; null: every row.
  mlir::IntegerSet relation;
  /// A row outside [0, n), n = ceil(length / factor), is read as null; 0: every row in memory is
  /// read; none: n is the number of rows that the operand has.
  std::optional<int64_t> factor;

  static RowRead whole(unsigned operand) {
    RowRead read;
    read.operand = operand;
    return read;
  }
  static RowRead through(unsigned operand, mlir::AffineMap map) {
    RowRead read = whole(operand);
    read.kind = Kind::Map;
    read.map = map;
    return read;
  }
  /// q = p.
  static RowRead itself(unsigned operand, mlir::MLIRContext *context) {
    return through(operand, mlir::AffineMap::get(2, 1, mlir::getAffineDimExpr(0, context)));
  }
  static RowRead related(unsigned operand, mlir::IntegerSet relation) {
    RowRead read = whole(operand);
    read.kind = Kind::Relation;
    read.relation = relation;
    return read;
  }
};

/// Rows q of an operand that the rows of one launch read together: those that `relation`, over (p,
/// q) with symbol n, gives to row p.
struct SharedRead {
  mlir::IntegerSet relation;
  int64_t factor;  ///< tokens a row q; 0: all rows are there, and all are read
  int64_t columns; ///< of a row
};

/// The reads of an attention's rows. Forward, operands (query, key, value, terms, rotary): its own
/// query and the keys and values that `mask` (over (p, q), symbol n) gives it; of rows by distance
/// those up to the greatest that its position has.
llvm::SmallVector<RowRead> attentionReads(mlir::IntegerSet mask, unsigned operands,
                                          const DistanceTerms &terms);
/// Backward, operands (query, key, value, output, lse, gradient of output, terms, rotary), of
/// gradient `result` of `gradients` of queries, keys and values; behind them Qv's is as a query's,
/// and those of other terms are of no position: none. A query's reads the row itself, and keys and
/// values as forward does. A key's reads the row itself and what belongs to the queries that see
/// it, so the transposed mask. One of all three reads as both, and keys and values by all of those
/// rows' masks, which is not told apart from all.
std::optional<llvm::SmallVector<RowRead>> attentionBackwardReads(mlir::IntegerSet mask,
                                                                 unsigned operands, unsigned result,
                                                                 size_t gradients,
                                                                 const DistanceTerms &terms);

} // namespace sluice::dispatch
