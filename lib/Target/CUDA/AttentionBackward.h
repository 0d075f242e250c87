// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention backward, two launches. First blocks of 64 queries sum dQ over keys that pass by, and
// leave two numbers of each query in the workspace. Then blocks of 64 keys sum dK and dV over
// queries, those of all query heads of a group one after another. Both recompute P from the
// log-sum-exps, seven products in all where one kernel would do five: nothing is summed across
// blocks, so that the order of every sum is fixed.
#pragma once

#include "Attention.h"

namespace sluice::cuda::attention {

constexpr int64_t fixedRows = fragmentRows * warps; ///< of a block
constexpr int64_t widestKept = 64;                  ///< heads whose fixed factors stay in registers

enum Operand : unsigned { Query, Key, ValueRows, Output, Lse, OutputGradient, Rotary };

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
  /// [2 B heads][queries rounded up]: log-sum-exps times log2(e), doubled instead where they are
  /// extreme; then deltas.
  mlir::Value statistics();
  mlir::Value statisticsRow(int64_t which, mlir::Value head);
  mlir::Value statisticOf(mlir::Value logSum);  ///< as above
  mlir::Value isExtreme(mlir::Value statistic); ///< i1
  /// P from raw scores; positions by place. `extreme` where a statistic of the tile may be. Keys
  /// that are not valid have zeros where `bounded` or the mask says so; queries that are not always
  /// do.
  using Positions = llvm::function_ref<std::pair<mlir::Value, mlir::Value>(const Place &)>;
  using Numbers = llvm::function_ref<mlir::Value(const Place &)>;
  Values probabilities(const Values &raw, int64_t columns, mlir::Value head, mlir::Value full,
                       mlir::Value extreme, bool bounded, Positions positions, Numbers logSum);
  /// The gradients of raw scores from those of P, yet to be multiplied by `gradientFactor`. With
  /// dropout P is marked.
  Values scoreGradients(const Values &raw, const Values &probability, const Values &change,
                        int64_t columns, mlir::Value head, Positions positions, Numbers delta);
  Values scale(float factor); ///< of the thread's two rows of results; none where it is 1
  Stage finish(int64_t blocks, int64_t sharedBytes);

  dispatch::AttentionBackwardOp op;
  const Shape shape;
  AttentionFrame f;
  Emitter &e;
  mlir::ImplicitLocOpBuilder &b;
  const int64_t roundedPositions;
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

} // namespace sluice::cuda::attention
