// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Scores in the layout of mma.sync accumulators: region, mask and dropout.
#pragma once

#include "AttentionFrame.h"

#include "sluice/Target/Common/Score.h"

namespace sluice::cuda::attention {

/// Position in the accumulators of a warp, [fragment][8 columns][4] in the layout of mma.sync.
struct ElementPlace {
  int64_t fragment, column, part;
  int64_t row() const { return 2 * fragment + part / 2; }          ///< among the thread's rows
  int64_t getFirstColumn() const { return 2 * column + part % 2; } ///< among the thread's columns
};

/// Returns `count` f32 values from one of two branches.
Values emitEither(AttentionFrame &f, mlir::Value condition, size_t count,
                  llvm::function_ref<Values()> where, llvm::function_ref<Values()> elsewhere);
/// Applies `map` to every element of the scores of a warp.
Values mapScores(const Values &scores, int64_t columns,
                 llvm::function_ref<mlir::Value(mlir::Value, const ElementPlace &)> map);
/// Replaces elements outside the mask by `otherwise`. Tests nothing if `full` holds.
Values maskScores(AttentionFrame &f, const Values &scores, int64_t columns, mlir::Value full,
                  float otherwise, llvm::function_ref<mlir::Value(const ElementPlace &)> holds);
/// i1, from i32 positions: the mask holds and, if `bounded`, the key is valid. Undefined for
/// invalid queries.
mlir::Value emitMaskAt(AttentionFrame &f, mlir::Value p, mlir::Value q, bool bounded);
/// Classifies the block of `rows` queries from p0 and `columns` keys from q0, each with its step.
BlockClass classifyTile(AttentionFrame &f, mlir::Value p0, int64_t rows, mlir::Value q0,
                        int64_t columns);

/// Dimension of the scores that runs along keys: columns, rows, or neither.
enum class KeyDimension { Columns, Rows, Neither };
/// Flips the sign of nonnegative values that dropout drops, so one register holds both the value
/// and the decision.
Values markDropped(AttentionFrame &f, Values values, int64_t columns, KeyDimension keys,
                   llvm::function_ref<mlir::Value(const ElementPlace &)> elementOf);
Values clearDropped(AttentionFrame &f, Values values); ///< zeros for dropped values
/// i64: ((b heads + h) T + p) T' + q, of i32 positions, T queries and T' keys.
mlir::Value computeElementNumber(AttentionFrame &f, mlir::Value head, mlir::Value p, mlir::Value q);

/// Computes the score region, or returns the raw score if `scoreFactor` is set.
mlir::Value emitScore(AttentionFrame &f, mlir::Region &region, mlir::ValueRange arguments);
/// Returns the result of `score` as the region would compute it, with the same rounding.
mlir::Value emitExactScore(AttentionFrame &f, mlir::Value score);
mlir::Value isLarger(AttentionFrame &f, mlir::Value x, float bound); ///< i1: |x| > bound

mlir::Value emitMax(AttentionFrame &f, mlir::Value x, mlir::Value y);
mlir::Value emitExp2(AttentionFrame &f, mlir::Value x);
/// Reduces over the four threads that share a row.
mlir::Value reduceAcrossQuad(AttentionFrame &f, mlir::Value x,
                             llvm::function_ref<mlir::Value(mlir::Value, mlir::Value)>);
/// Returns i32 positions of the thread's fixed rows, which start at `first`, or of its columns.
Values computeRowNumbers(AttentionFrame &f, mlir::Value first, int64_t fragments, int64_t step);
Values computeColumnNumbers(AttentionFrame &f, mlir::Value first, int64_t columns, int64_t step);

} // namespace sluice::cuda::attention
