// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Frame of an attention kernel: its block, and the rows of its queries and keys.
#pragma once

#include "../TensorCore/TensorCore.h"
#include "Attention.h"

namespace sluice::cuda::attention {

/// The rows of queries or of keys in one row of the batch.
struct AttentionSide {
  int64_t positions = 0;
  mlir::Value base, length; ///< index: the first row in memory; number of valid rows
  int64_t step = 1;         ///< between the rows of consecutive lines
  bool isPartial = false;   ///< invalid rows must not be written
  bool isShort = false;     ///< invalid rows may have undefined contents
};

/// Frame of a kernel with the operations of attention. The builder is inside the function.
class AttentionFrame {
public:
  AttentionFrame(mlir::Operation *op, dispatch::DomainAttr domain, const AttentionShape &shape,
                 mlir::ModuleOp module, llvm::StringRef name);

  /// Sets `batchRow`, `queries` and `keys`, with length 0 if the row of the batch is invalid.
  void enterRow(mlir::Value batchRow);
  /// Splits the block number into a row of the batch, one of `heads`, one of `tiles` and a part of
  /// the head's columns; enters the row and sets `part`. Returns the head and the tile.
  std::pair<mlir::Value, mlir::Value> place(int64_t heads, int64_t tiles);
  /// Returns the quotient and the remainder of `number` by `divisor`.
  std::pair<mlir::Value, mlir::Value> split(mlir::Value number, int64_t divisor);

  /// Returns the first position of tile `tile`, for tiles of `rows` rows that are `step` apart.
  mlir::Value getFirstRow(mlir::Value tile, int64_t rows, int64_t step);

  /// Factor that turns the result of `score` into a base-2 exponent.
  float exponentFactor() const { return log2e * shape.scoreFactor.value_or(1); }
  mlir::Value f32(float value);
  /// Returns `step` times a line number.
  mlir::Value scaled(mlir::Value line, int64_t step);

  /// Returns `position` as an index, or a readable row if the position is out of range.
  mlir::Value existingRow(const AttentionSide &rows, mlir::Value position);

  Frame frame;
  Emitter &e;
  mlir::ImplicitLocOpBuilder &b;
  TensorCore core;
  const AttentionShape shape;
  const bool isPartial; ///< domain with an axis: a tensor may have no memory for invalid rows
  mlir::Value thread, group, quad; ///< index; lane = 4 group + quad
  mlir::Value batchRow;            ///< index
  AttentionSide queries, keys, distances;
  mlir::Value validKeys; ///< i32: length of the keys
  mlir::Value part;      ///< index: first column of the head that the block sums

private:
  AttentionSide buildSide(int64_t positions, int64_t factor);
};

} // namespace sluice::cuda::attention
