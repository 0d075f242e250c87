// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention's mask relation and score regions as code, the same on every target.
#pragma once

#include "mlir/IR/IntegerSet.h"
#include "sluice/Dialect/Dispatch/DistanceTerms.h"
#include "sluice/Target/Common/Emitter.h"

namespace sluice::target {

/// How a block of queries and keys lies to the mask.
struct BlockClass {
  mlir::Value
      some; ///< i1: the relation may hold somewhere in the block (never false where it does)
  mlir::Value full; ///< i1: the relation holds for all valid queries of the block, and all its keys
                    ///< are valid
};

/// Valid lengths, of type index.
struct Lengths {
  mlir::Value queries, keys;
};

/// Queries [p0, p0 + queries), keys [q0, q0 + keys); all values of type index. Each constraint's
/// range over the block comes from interval arithmetic: exact where each dimension occurs once.
BlockClass classifyBlock(Emitter &e, mlir::IntegerSet mask, mlir::Value p0, int64_t queries,
                         mlir::Value q0, int64_t keys, Lengths lengths);

/// The relation and, where `bounded`, q < length, the keys', of i32 each a scalar or a vector: i1
/// or a vector of it.
mlir::Value emitRelation(Emitter &e, mlir::IntegerSet mask, mlir::Value p, mlir::Value q,
                         mlir::Value length, bool bounded = true);

/// The distance of a query and a key, scalars or vectors of one type, index or i32.
mlir::Value emitDistance(Emitter &e, const dispatch::Distance &distance, mlir::Value p,
                         mlir::Value q);

/// The row of so many (at least 1) that a distance has: itself, 0 below 0, the last beyond.
mlir::Value emitDistanceRow(Emitter &e, mlir::Value distance, mlir::Value rows);

/// The factor of a step of distance: of the domain of rows by distance.
template <typename Op> int64_t distanceStep(Op op) {
  return op.getDomain().getFactor() / op.getTerms().distance.query;
}

/// Fails with a diagnostic where a region holds what cannot become straight-line code.
mlir::LogicalResult checkRegion(mlir::Region &region);

/// A scalar region as code. Arguments are scalars (the same for all lanes) or vectors; what depends
/// on scalars alone stays scalar.
mlir::Value emitRegion(Emitter &e, mlir::Region &region, mlir::ValueRange arguments);
/// All that it yields. With `sum` its `sumOfProducts` is not made: it is `sum`.
Emitter::Values emitAll(Emitter &e, mlir::Region &region, mlir::ValueRange arguments,
                        mlir::Value sum = {});

/// The addition of a query's products with its key and with its row by distance, where a score
/// region that has both reads them there alone: a kernel may then sum the two as one. Null
/// elsewhere.
mlir::Operation *sumOfProducts(mlir::Region &region);

/// A score region's arguments with those of its terms behind them; null ones are not there.
inline Emitter::Values withTerms(mlir::ValueRange place, mlir::ValueRange others) {
  Emitter::Values arguments(place);
  llvm::copy_if(others, std::back_inserter(arguments),
                [](mlir::Value other) { return bool(other); });
  return arguments;
}

/// Pairs (p, q) of the relation at full length, counted on a grid of at most 64 x 64 samples: a
/// figure for plans.
double countPairs(int64_t queries, int64_t keys, mlir::IntegerSet mask);

} // namespace sluice::target
