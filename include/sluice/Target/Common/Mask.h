// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Code generation for attention's mask and distances, the same on every target.
#pragma once

#include "mlir/IR/IntegerSet.h"
#include "sluice/Dialect/Dispatch/DistanceTerms.h"
#include "sluice/Target/Common/Emitter.h"

namespace sluice::target {

/// Relation of a block of queries and keys to the mask.
struct BlockClass {
  mlir::Value some; ///< i1: the mask may hold somewhere in the block (an over-approximation)
  mlir::Value full; ///< i1: the mask holds for all valid queries and all keys of the block
                    ///< are valid
};

/// Valid lengths, of type index.
struct Lengths {
  mlir::Value queries, keys;
};

/// Classifies the block of queries [p0, p0 + queries) and keys [q0, q0 + keys); all values are of
/// type index. Computes the range of each constraint over the block by interval arithmetic, which
/// is exact if each dimension occurs once.
BlockClass classifyBlock(Emitter &e, mlir::IntegerSet mask, mlir::Value p0, int64_t queries,
                         mlir::Value q0, int64_t keys, Lengths lengths);

/// Computes the mask and, if `bounded`, q < length, the number of keys. Operands are i32, each a
/// scalar or a vector; the result is i1 or a vector of i1.
mlir::Value emitRelation(Emitter &e, mlir::IntegerSet mask, mlir::Value p, mlir::Value q,
                         mlir::Value length, bool bounded = true);

/// Computes the distance of a query and a key, scalars or vectors of the same type, index or i32.
mlir::Value emitDistance(Emitter &e, const dispatch::Distance &distance, mlir::Value p,
                         mlir::Value q);

/// Clamps a distance to a row index in [0, rows), for at least 1 row.
mlir::Value emitDistanceRow(Emitter &e, mlir::Value distance, mlir::Value rows);

/// Returns the factor of the domain of rows by distance: tokens per unit of distance.
template <typename Op> int64_t distanceStep(Op op) {
  return op.getDomain().getFactor() / op.getTerms().distance.query;
}

/// Estimates the number of pairs (p, q) in the mask at full length, from a grid of at most 64 x 64
/// samples; for statistics in plans.
double countPairs(int64_t queries, int64_t keys, mlir::IntegerSet mask);

} // namespace sluice::target
