// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sums of a block on their way from fragments to rows; partial sums of several blocks, which the
// last block adds.
#pragma once

#include "Pipeline.h"

namespace sluice::cuda {

/// Sums of a block in shared memory, from its first byte. There every thread gets four columns of a
/// row, and a warp gets whole runs of rows, so its accesses to global memory are contiguous.
class SumTile {
public:
  SumTile(Frame &frame, TensorCore &core, WarpGrid grid);

  int64_t bytes() const { return grid.blockRows() * stride * int64_t(sizeof(float)); }
  /// Stores the sums of a thread, in the order of `Pipeline`. The caller emits barriers before and
  /// after.
  void store(const Values &sums, Value warpRow, Value warpColumn);
  /// vector<4xf32>: this thread's columns of a row of the tile.
  Value load(Value line);
  Value column() { return firstColumn; } ///< index: first of this thread's columns, within the tile
  /// Runs `body` for all rows of this thread, `atOnce` at a time.
  void eachLines(int64_t atOnce, llvm::function_ref<void(llvm::ArrayRef<Value> lines)> body);

private:
  Frame &frame;
  TensorCore &core;
  Emitter &e;
  const WarpGrid grid;
  const int64_t stride; ///< floats between consecutive rows
  const int64_t threadsPerRow;
  Value firstColumn, firstLine;
};

/// Partial sums of a matrix, then of a vector of the same height, from `splits` blocks
/// each.
struct PartialSums {
  int64_t splits = 1, height = 0, width = 0; ///< width 0: only the vector

  int64_t stride() const { return (width + 3) / 4 * 4; }
  int64_t matrixBytes() const { return splits * height * stride() * int64_t(sizeof(float)); }
  int64_t bytes() const { return matrixBytes() + splits * height * int64_t(sizeof(float)); }
  mlir::Value matrix(Frame &frame) const; ///< [splits * height, stride]
  mlir::Value vector(Frame &frame) const; ///< [splits * height]
};

/// Destinations of sums: indices of operands and results for `Frame::buffer`, -1 if absent.
struct SumTargets {
  int initMatrix = -1, matrix = -1, initVector = -1, vector = -1;
};

/// Tile of a sum to which several blocks contribute.
struct TilePlace {
  mlir::Value number;                ///< index: number of the tile, and of its counter
  mlir::Value firstRow, firstColumn; ///< index
  mlir::Value ownsVector;            ///< i1: this tile also has the rows of the vector
};

/// Emitted at the end of a block that has stored its partial sums: the last block of the tile adds
/// the partial sums in order, and then the inits.
void addPartsInOrder(Frame &frame, TensorCore &core, WarpGrid grid, const PartialSums &parts,
                     const SumTargets &targets, const TilePlace &place);

} // namespace sluice::cuda
