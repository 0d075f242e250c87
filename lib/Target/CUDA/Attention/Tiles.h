// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tiles in shared memory: copies of rows into them, products with them, and the loop over streamed
// tiles.
#pragma once

#include "AttentionFrame.h"

#include <functional>

namespace sluice::cuda::attention {

/// Rows of `columns` bf16 (a multiple of 16), starting at byte `byte` of shared memory. Lines of 32
/// * 2^n bytes are swizzled; other lines are padded to an odd number of chunks. Either way the
/// eight lines of a matrix are in different banks.
struct Tile {
  int64_t rows = 0, columns = 0, byte = 0;
  int64_t chunks() const { return columns / chunkElements; }
  bool swizzled() const { return (chunks() & (chunks() - 1)) == 0; }
  int64_t lineBytes() const { return chunkBytes * (swizzled() ? chunks() : chunks() | 1); }
  int64_t bytes() const { return rows * lineBytes(); }
  int64_t end() const { return byte + bytes(); }
};

/// The columns of one head in the rows of one sequence.
struct Source {
  AttentionSide rows;
  mlir::Value memory;  ///< [B * T][padded width]
  mlir::Value column;  ///< index: first column of the head
  mlir::Value columns; ///< index: number of columns; later ones read as zeros
  bool aligned;        ///< chunks of 8 columns start at multiples of 16 bytes
  /// For results: the table [positions][head] for the inverse rotation; null without rotary
  /// embedding.
  mlir::Value rotary = nullptr;
  /// For results: the number of columns (4, 2 or 1) that one aligned store can write at every
  /// multiple of this number in the head.
  int64_t together = 1;
  /// True if rows before the first may be loaded, which read as zeros.
  bool before = false;
  /// True if rows after the last valid one read as the last valid one; requires `before`.
  bool repeatsLast = false;
  /// If set, the rows are a table's, and positions are distances: the one of its first row.
  std::optional<int64_t> firstDistance = std::nullopt;
};
/// The fixed factor: matrices of a tile, in registers or loaded from shared memory for each use.
struct Fixed {
  Tile tile;
  Values registers;
  mlir::Value offset = nullptr; ///< offset of the warp's first line in `tile`, if not the default
};

/// Starts an asynchronous copy of rows first, first + step, ... of the sequence to `tile` plus
/// `offset` bytes; invalid rows become zeros. Each thread copies its own chunks.
void loadTile(AttentionFrame &f, const Tile &tile, mlir::Value offset, const Source &source,
              mlir::Value first);

/// Returns the byte offset in `tile` of the warp's first fixed line, for `fragments` per warp.
mlir::Value computeWarpOffset(AttentionFrame &f, const Tile &tile, int64_t fragments);
/// Keeps the fixed factor in registers if it has at most `widest` columns.
Fixed keepFixed(AttentionFrame &f, const Tile &tile, int64_t fragments, int64_t widest);

/// Computes fixed x streamed^T over all columns.
Values multiplyByRows(AttentionFrame &f, const Fixed &fixed, int64_t fragments,
                      const Tile &streamed, mlir::Value offset);
/// Computes sums + weights x streamed. Weights have the layout of scores; streamed rows start at
/// chunk `offset`.
Values accumulateProduct(AttentionFrame &f, const Values &weights, int64_t fragments,
                         const Tile &streamed, mlir::Value offset, int64_t columns, Values sums);

/// Loop over tiles 0 ... count - 1 except for the ones that `some` excludes.
struct TileStream {
  mlir::Value count;
  int64_t bytes;   ///< bytes per buffer
  int64_t buffers; ///< two, or one if shared memory has no room for two
  std::function<mlir::Value(mlir::Value number)> some;
  std::function<void(mlir::Value number, mlir::Value offset)> load;
  std::function<Values(mlir::Value number, mlir::Value offset, mlir::ValueRange carried)> body;
};
/// Runs the loop. `prepare` runs once, while the first tile is being copied, and returns the
/// initial loop-carried values.
Values streamTiles(AttentionFrame &f, const TileStream &stream,
                   llvm::function_ref<Values()> prepare);

} // namespace sluice::cuda::attention
