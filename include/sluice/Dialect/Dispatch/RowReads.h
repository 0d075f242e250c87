// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rows of an operand that a row of a result depends on.
#pragma once

#include "mlir/IR/AffineMap.h"
#include "mlir/IR/IntegerSet.h"
#include "llvm/ADT/SmallVector.h"
#include <optional>

namespace sluice::dispatch {

/// Rows q of operand `operand` that row p of a result depends on.
struct RowRead {
  enum class Kind {
    Map,      ///< q = map(p, i)[n] for i < group
    Relation, ///< (p, q) in `relation`, symbol n
    Whole     ///< all rows
  };
  unsigned operand = 0;
  Kind kind = Kind::Whole;
  mlir::AffineMap map;
  int64_t group = 1;
  /// Rows p, dim 0, at which a map accesses this operand; null: every row.
  mlir::IntegerSet relation;
  /// Rows outside [0, n), n = ceil(length / factor), are null. 0: every row in memory is accessed.
  /// std::nullopt: n is the number of rows of the operand.
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
  /// Returns the access q = p.
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
using RowReadList = llvm::SmallVector<RowRead>;

/// Rows q of an operand that all rows of one launch access together: those that satisfy `relation`,
/// over (p, q) with symbol n, for row p.
struct SharedRead {
  mlir::IntegerSet relation;
  int64_t factor;  ///< tokens per row q; 0: all rows are valid and accessed
  int64_t columns; ///< per row
};

/// Returns the reads of attention's rows, of the operands query, key, value, terms and rotary: the
/// row's own query, the keys and values that `mask`, over (p, q) with symbol n, gives it, and rows
/// by distance up to the maximum distance of its position.
llvm::SmallVector<RowRead> attentionReads(mlir::IntegerSet mask, unsigned operands,
                                          const DistanceTerms &terms);
/// Returns the reads of result `result` of the backward attention, of the operands query, key,
/// value, output, lse, gradient of the output, terms and rotary. The first `gradients` results are
/// gradients of queries, keys and values. After them, Qv's gradient reads as a query's gradient,
/// and gradients of other terms have no position: none. A query's gradient reads the row itself,
/// and keys and values as the forward op does. A key's gradient reads the row itself and the rows
/// of the queries that see it, by the transposed mask. One gradient of all three reads as both; its
/// keys and values by the masks of all of those rows, which counts as all rows.
std::optional<llvm::SmallVector<RowRead>> attentionBackwardReads(mlir::IntegerSet mask,
                                                                 unsigned operands, unsigned result,
                                                                 size_t gradients,
                                                                 const DistanceTerms &terms);

} // namespace sluice::dispatch
