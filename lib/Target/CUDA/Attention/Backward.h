// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention backward in two launches. Blocks of 64 queries first compute dQ over streamed keys and
// store two numbers per query in the workspace. Blocks of 64 keys then compute dK and dV over
// streamed queries, one query head of the group after another. Both recompute P from the
// log-sum-exps: seven products in total, while a single kernel would need five. In exchange nothing
// is summed across blocks, so the order of every sum is fixed.
//
// With relative position terms a third launch computes dR and the gradients of the biases: its
// blocks own 64 distances and stream queries together with bands of keys and values.
#pragma once

#include "Terms.h"

namespace sluice::cuda::attention {

constexpr int64_t widestKept = 64; ///< widest head whose fixed factors stay in registers

enum GradientOperand : unsigned { Query, Key, ValueRows, Output, Lse, OutputGradient };

/// Base of the launches.
class BackwardStage {
public:
  BackwardStage(dispatch::AttentionBackwardOp op, const AttentionShape &shape,
                mlir::ModuleOp module, llvm::StringRef name);

protected:
  /// Returns the columns of one head of an operand whose heads start at `column`.
  Source source(unsigned operand, mlir::Value headIndex, int64_t column);
  /// Returns the gradient of query, key or value; rows of the first two are rotated back.
  Source getOperandGradient(unsigned operand, mlir::Value headIndex, int64_t column);
  /// Returns the gradient of term `term`, in the columns of its head.
  Source gradientOfTerm(unsigned term, mlir::Value headIndex);
  mlir::Value biasTable() { return f.frame.buffer(shape.firstTerm + (shape.hasRows ? 2 : 0)); }
  /// Workspace [2 to 4 B heads][queries rounded up]. First log-sum-exps times log2(e), or times 2
  /// if they are extreme; then deltas; with biases, the contribution of each query to the gradient
  /// of the last bias; then its contribution to the last row by distance, if that serves farther
  /// distances.
  mlir::Value statistics();
  mlir::Value statisticsRow(int64_t which, mlir::Value head);
  mlir::Value computeSlot(mlir::Value position); ///< column of a query there: class by class
  mlir::Value loadStatistic(mlir::Value logSum); ///< log-sum-exp in the form described above
  mlir::Value isExtreme(mlir::Value statistic);  ///< i1
  /// Computes P from raw scores at the given positions. `extreme`: a statistic of the tile may be
  /// extreme. Invalid keys get zeros if `bounded` or if the mask excludes them; invalid queries
  /// always get zeros.
  using Positions = llvm::function_ref<std::pair<mlir::Value, mlir::Value>(const ElementPlace &)>;
  using ElementFunction = llvm::function_ref<mlir::Value(const ElementPlace &)>;
  Values probabilities(const Products &products, int64_t columns, mlir::Value head,
                       mlir::Value full, mlir::Value extreme, bool bounded, Positions positions,
                       ElementFunction logSum, ElementFunction bias);
  /// Gradients with respect to raw scores, before the multiplication by `gradientFactor`; to
  /// products by distance, equal to the former if `addsRows`, else final; and to biases.
  struct Gradients {
    Values scores, byDistance, biases;
  };
  /// With dropout P is marked (see `marked`).
  Gradients scoreGradients(const Products &products, const Values &probability,
                           const Values &change, int64_t columns, mlir::Value head,
                           Positions positions, ElementFunction delta, ElementFunction bias);
  Values scale(float factor); ///< one factor per result row of the thread; empty if it is 1
  KernelStage finish(int64_t blocks, int64_t sharedBytes);

  dispatch::AttentionBackwardOp op;
  const AttentionShape shape;
  AttentionFrame f;
  Emitter &e;
  mlir::ImplicitLocOpBuilder &b;
  const int64_t roundedPositions;
};

/// Base of stages that stream queries with their log-sum-exps and deltas.
class StreamedQueries : protected BackwardStage {
protected:
  StreamedQueries(dispatch::AttentionBackwardOp op, const AttentionShape &shape,
                  mlir::ModuleOp module, llvm::StringRef name, int64_t queries)
      : BackwardStage(op, shape, module, name), queries(queries),
        queryTiles(shape.queryTiles(queries)) {}
  int64_t numberBytes() const { return 2 * queries * 4; }
  /// Starts copying the statistics of queries from `p0`.
  void loadStatistics(mlir::Value offset, mlir::Value head, mlir::Value p0);
  Values readStatistics(int64_t which, mlir::Value offset); ///< one per column of the thread
  mlir::Value anyExtreme(mlir::Value offset);

  const int64_t queries, queryTiles; ///< queries per tile; number of tiles
  int64_t numbersByte = 0;           ///< shared memory of the statistics
};

/// Returns a number of streamed rows that leaves registers for `sums` accumulators in addition to
/// the two products of the scores.
int64_t chooseRows(const AttentionShape &shape, int64_t sums);

} // namespace sluice::cuda::attention
