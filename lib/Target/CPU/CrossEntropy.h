// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the two kernels of head and cross-entropy share.
//
// Both hold a block of one factor still and stream the other past it: rows' kernel a block of rows
// and all of W, weights' kernel a block of tokens and all rows. The block is packed transposed,
// [d][block], so the lanes of every vector run along it, and the streamed factor is read where it
// lies, a scalar at a time: nothing of it is packed, though bf16 is extended to scratch, a block at
// a time. Scores are [streamed row][block], and the gradient of the block is summed transposed,
// [d][block], from the same scalars. Both matmuls are then of attention's form, and the maximum and
// the sum of a row's logits are elementwise.
#pragma once

#include "Attention.h"

namespace sluice::cpu::cross_entropy {

/// Sizes of the problem and of the blocks.
struct Shape {
  int64_t batch, positions, width, vocabulary;
  int64_t vectors;  ///< of the block that is held
  int64_t block;    ///< vectors * lanes
  int64_t tileRows; ///< streamed rows a register tile
  int64_t steps;    ///< streamed rows whose scores are in use at a time, a multiple of tileRows

  int64_t rows() const { return batch * positions; }

  /// `held`: how many rows (or tokens) blocks are cut from.
  Shape(mlir::Value input, mlir::Value weight, int64_t held, const Target &target);

  int64_t factorBytes; ///< of one element of rows or weights
};

/// Which rows are scored, against what, and what their losses count.
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
  /// Whether the incoming gradient differs by row.
  bool differsByRow() const { return hasRowGradient || first > 0; }
};

/// Buffers and steps of either kernel.
class Generator {
public:
  Generator(mlir::Operation *op, mlir::Value input, mlir::Value weight, mlir::Value tokens,
            const Scoring &scoring, int64_t held, mlir::ModuleOp module, llvm::StringRef name,
            const Target &target);

protected:
  using Value = mlir::Value;

  mlir::MemRefType numbers(llvm::ArrayRef<int64_t> shape) {
    return mlir::MemRefType::get(shape, e.b.getF32Type());
  }
  /// i1: whether global row `row` is valid.
  Value isValid(Value row);
  /// i1: whether global row `row` is valid and scored.
  Value isScored(Value row);
  /// f32: the incoming gradient of global row `row`, which is valid.
  Value incoming(Value row);
  /// index: the target of global row `row`, which lies in the batch.
  Value targetOf(Value row);
  /// index: element `i` of a memory of i32.
  Value loadIndex(Value memory, Value i);
  /// f32: factor / (scored rows).
  Value share();

  /// held[c][i] = source[row(i)][c]; `row` gives a row that may be read. Columns of a source
  /// without padding are masked.
  void packHeld(Value source, bool isPadded, llvm::function_ref<Value(Value)> row);
  /// Rows of the streamed factor as f32: a memory, and the number of the first of them in it.
  struct Stream {
    Value memory, first;
  };
  /// Rows [first, first + count) of `source`, count <= steps: where they lie, or, of bf16, extended
  /// to scratch, which the next call fills anew. Sources without padding are read masked.
  Stream stream(Value source, bool isPadded, Value first, Value count);
  /// Scores of `count` rows of a stream against the held block; `finish` is given the row within
  /// them, the first column and the tile.
  using Finish = std::function<void(Value row, Value column, attention::Accumulators &tile)>;
  void emitScores(const Stream &rows, Value count, const Finish &finish);
  void emitScores(Value source, int64_t count, const Finish &finish);
  /// sums[c][i] += sum over k < count of rows[k][c] * scores[scoreRow + k][i].
  void emitProducts(const Stream &rows, Value count, Value scores, Value scoreRow);
  /// staging[i][c] = sums[c][i] * scale(first lane)[i], the block's gradient as rows.
  void unpackSums(llvm::function_ref<Value(Value)> scale);
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
  /// Elements of `memory` from `column` on below `limit`, zeros beyond; and their store.
  Value loadBelow(Value memory, mlir::ValueRange indices, Value column, Value limit);
  void storeBelow(Value value, Value memory, mlir::ValueRange indices, Value column, Value limit);

  const Target &target;
  const Shape shape;
  const Scoring scoring;
  Frame frame;
  Emitter e;
  Value input, weight, tokens; ///< tensors
  Value rowGradient;           ///< tensor, where the op has one
  Value held, sums, staging;   ///< scratch
  Value streamed;              ///< scratch: a block of a bf16 factor's rows as f32
  Lengths lengths;
  Value validLength, validRows; ///< index
};

} // namespace sluice::cpu::cross_entropy
