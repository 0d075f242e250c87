// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Common parts of the two kernels of output head and cross-entropy.
//
// Both keep a block of one factor resident and stream the other: the kernel of rows keeps a block
// of rows and streams all of W, the kernel of weights keeps a block of tokens and streams all rows.
// The block is packed transposed, [d][block], so the lanes of every vector run along it. The
// streamed factor is read in place, a scalar at a time, without packing, except that bf16 is
// extended to scratch, a block at a time. Scores are [streamed row][block], and the gradient of the
// block is summed transposed, [d][block], from the same scalars. Both matmuls then have the form of
// attention's, and the maximum and the sum of a row's logits are elementwise.
#pragma once

#include "../Attention/Attention.h"

namespace sluice::cpu {

mlir::FailureOr<Kernel> generateCrossEntropy(dispatch::CrossEntropyOp op, mlir::ModuleOp module,
                                             llvm::StringRef name, const Target &target);
mlir::FailureOr<Kernel>
generateCrossEntropyWeightGradient(dispatch::CrossEntropyWeightGradientOp op, mlir::ModuleOp module,
                                   llvm::StringRef name, const Target &target);

} // namespace sluice::cpu

namespace sluice::cpu::cross_entropy {

/// Sizes of the problem and of the blocks.
struct LossShape {
  int64_t batch, positions, width, vocabulary;
  int64_t vectors;  ///< width of the resident block, in vectors
  int64_t block;    ///< vectors * lanes
  int64_t tileRows; ///< streamed rows per register tile
  int64_t steps;    ///< streamed rows whose scores are in use at a time, a multiple of tileRows

  int64_t rows() const { return batch * positions; }

  /// `held`: number of rows (or tokens) that are divided into blocks.
  LossShape(mlir::Value input, mlir::Value weight, dispatch::DomainAttr domain, int64_t held,
            const Target &target);

  int64_t factorBytes; ///< element size of rows and weights
};

/// Rows with a loss, their targets, and the scale of their losses.
struct Scoring {
  template <typename Op>
  explicit Scoring(Op op)
      : domain(op.getDomain()), offset(static_cast<int64_t>(op.getOffset())),
        first(static_cast<int64_t>(op.getFirst())), smoothing(op.getSmoothing().convertToFloat()),
        factor(op.getFactor().convertToFloat()), hasRowGradient(op.getRowGradient() != nullptr) {}

  dispatch::DomainAttr domain;
  int64_t offset, first;
  float smoothing, factor;
  bool hasRowGradient;
  /// True if the incoming gradient differs by row.
  bool differsByRow() const { return hasRowGradient || first > 0; }
};

/// Buffers and steps common to both kernels.
class LossGenerator {
public:
  LossGenerator(mlir::Operation *op, mlir::Value input, mlir::Value weight, mlir::Value tokens,
                const Scoring &scoring, int64_t held, mlir::ModuleOp module, llvm::StringRef name,
                const Target &target);

protected:
  mlir::MemRefType numbers(llvm::ArrayRef<int64_t> shape) {
    return mlir::MemRefType::get(shape, e.b.getF32Type());
  }
  /// i1: global row `row` is valid.
  Value isValid(Value row);
  /// i1: global row `row` is valid and has a loss.
  Value isScored(Value row);
  /// f32: the incoming gradient of the valid global row `row`.
  Value incoming(Value row);
  /// index: the target of global row `row`, which is in the batch.
  Value getTargetToken(Value row);
  /// index: element `i` of an i32 memory.
  Value loadIndex(Value memory, Value i);
  /// f32: factor / (number of rows with a loss).
  Value share();

  /// Computes held[c][i] = source[row(i)][c]; `row` must return a readable row.
  void packHeld(Value source, llvm::function_ref<Value(Value)> row);
  /// Rows of the streamed factor as f32: a memory, and the index of the first row in it.
  struct RowStream {
    Value memory, first;
  };
  /// Returns rows [first, first + count) of `source`, count <= steps: in place or, for bf16,
  /// extended to scratch that the next call overwrites. Sources without padding are read with a
  /// mask.
  RowStream stream(Value source, bool isPadded, Value first, Value count);
  /// Computes the scores of `count` streamed rows with the held block. `finish` gets the row within
  /// the stream, the first column and the tile.
  using Finish = std::function<void(Value row, Value column, attention::Accumulators &tile)>;
  void emitScores(const RowStream &rows, Value count, const Finish &finish);
  void emitScores(Value source, int64_t count, const Finish &finish);
  /// Computes sums[c][i] += sum over k < count of rows[k][c] * scores[scoreRow + k][i].
  void emitProducts(const RowStream &rows, Value count, Value scores, Value scoreRow);
  /// Computes staging[i][c] = sums[c][i], times `scale` if it is not null: the block's gradient as
  /// rows. `scale` has the same number in every lane.
  void unpackSums(Value scale = {});
  /// Runs `body` for each vector of the block.
  void eachVector(llvm::function_ref<void(Value offset)> body) {
    for (int64_t j = 0; j < shape.vectors; ++j) {
      body(e.index(j * e.lanes));
    }
  }
  /// Runs `body` for the first column of every vector of a row of d.
  void eachColumn(llvm::function_ref<void(Value column)> body) {
    e.loop(e.index(0), e.index(shape.width), e.lanes, body);
  }
  /// Loads elements of `memory` from `column` up to `limit`, then zeros; and the matching store.
  Value loadBelow(Value memory, mlir::ValueRange indices, Value column, Value limit);
  void storeBelow(Value value, Value memory, mlir::ValueRange indices, Value column, Value limit);

  const Target &target;
  const LossShape shape;
  const Scoring scoring;
  Frame frame;
  Emitter e;
  Value input, weight, tokens; ///< tensors
  Value rowGradient;           ///< tensor; null if the op has none
  Value held, sums, staging;   ///< scratch
  Value streamed;              ///< scratch: a block of rows of a bf16 factor as f32
  Lengths lengths;
  Value validLength, validRows; ///< index; `validLength` is null if it differs by text
};

} // namespace sluice::cpu::cross_entropy
