// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention backward, two launches. First blocks of 64 queries sum dQ over keys that pass by, and
// leave two numbers of each query in the workspace. Then blocks of 64 keys sum dK and dV over
// queries, those of all query heads of a group one after another. Both recompute P from the
// log-sum-exps, seven products in all where one kernel would do five: nothing is summed across
// blocks, so that the order of every sum is fixed.
//
// With terms by distance a third launch sums dR and the biases' gradients: there blocks keep 64
// distances, and queries pass by with bands of keys and values.
#pragma once

#include "AttentionTerms.h"

namespace sluice::cuda::attention {

constexpr int64_t widestKept = 64; ///< heads whose fixed factors stay in registers

enum Operand : unsigned { Query, Key, ValueRows, Output, Lse, OutputGradient };

/// What the launches share.
class BackwardStage {
public:
  BackwardStage(dispatch::AttentionBackwardOp op, const Shape &shape, mlir::ModuleOp module,
                llvm::StringRef name);

protected:
  /// One head's columns of an operand that holds its rows from `column` on.
  Source source(unsigned operand, mlir::Value headIndex, int64_t column);
  /// Of the gradient of query, key or value: rows of the first two are rotated back.
  Source gradientOf(unsigned operand, mlir::Value headIndex, int64_t column);
  /// Of the gradient of term `term`, in its head's columns.
  Source gradientOfTerm(unsigned term, mlir::Value headIndex);
  mlir::Value biasTable() { return f.frame.buffer(shape.firstTerm + (shape.hasRows ? 2 : 0)); }
  /// [2 to 4 B heads][queries rounded up]: log-sum-exps times log2(e), doubled instead where they
  /// are extreme; then deltas; with biases then each query's share in the gradient of the last;
  /// then that in the gradient of the last row by distance, where that stands for farther ones.
  mlir::Value statistics();
  mlir::Value statisticsRow(int64_t which, mlir::Value head);
  mlir::Value slotOf(mlir::Value position);     ///< a query's column there: class by class
  mlir::Value statisticOf(mlir::Value logSum);  ///< as above
  mlir::Value isExtreme(mlir::Value statistic); ///< i1
  /// P from raw scores; positions by place. `extreme` where a statistic of the tile may be. Keys
  /// that are not valid have zeros where `bounded` or the mask says so; queries that are not always
  /// do.
  using Positions = llvm::function_ref<std::pair<mlir::Value, mlir::Value>(const Place &)>;
  using Numbers = llvm::function_ref<mlir::Value(const Place &)>;
  Values probabilities(const Products &products, int64_t columns, mlir::Value head,
                       mlir::Value full, mlir::Value extreme, bool bounded, Positions positions,
                       Numbers logSum, Numbers bias);
  /// The gradients of raw scores from those of P, yet to be multiplied by `gradientFactor`; of
  /// products by distance, the same where `addsRows`, else as they are; and of biases.
  struct Gradients {
    Values scores, byDistance, biases;
  };
  /// With dropout P is marked.
  Gradients scoreGradients(const Products &products, const Values &probability,
                           const Values &change, int64_t columns, mlir::Value head,
                           Positions positions, Numbers delta, Numbers bias);
  Values scale(float factor); ///< of the thread's two rows of results; none where it is 1
  Stage finish(int64_t blocks, int64_t sharedBytes);

  dispatch::AttentionBackwardOp op;
  const Shape shape;
  AttentionFrame f;
  Emitter &e;
  mlir::ImplicitLocOpBuilder &b;
  const int64_t roundedPositions;
};

/// A stage that streams queries with their log-sum-exps and deltas.
class StreamedQueries : protected BackwardStage {
protected:
  StreamedQueries(dispatch::AttentionBackwardOp op, const Shape &shape, mlir::ModuleOp module,
                  llvm::StringRef name, int64_t queries)
      : BackwardStage(op, shape, module, name), queries(queries),
        queryTiles(shape.queryTiles(queries)) {}
  int64_t numberBytes() const { return 2 * queries * 4; }
  /// Starts copying the numbers of queries from `p0` on.
  void loadStatistics(mlir::Value offset, mlir::Value head, mlir::Value p0);
  Values readStatistics(int64_t which, mlir::Value offset); ///< of the thread's columns
  mlir::Value anyExtreme(mlir::Value offset);

  const int64_t queries, queryTiles; ///< of a tile; tiles
  int64_t numbersByte = 0;           ///< where the numbers are
};

/// Streamed rows that leave registers for `sums` sums beside the scores' two products.
int64_t chooseRows(const Shape &shape, int64_t sums);

/// dQ, and each query's log-sum-exp and delta, which every block of queries leaves in the
/// workspace, valid or not.
Stage makeQueryStage(dispatch::AttentionBackwardOp op, const Shape &shape, mlir::ModuleOp module,
                     llvm::StringRef name);
/// dK and dV. Runs after the queries.
Stage makeKeyStage(dispatch::AttentionBackwardOp op, const Shape &shape, mlir::ModuleOp module,
                   llvm::StringRef name);

/// dR, and the gradients of biases. Runs after the queries.
Stage makeDistanceStage(dispatch::AttentionBackwardOp op, const Shape &shape, mlir::ModuleOp module,
                        llvm::StringRef name);

} // namespace sluice::cuda::attention
