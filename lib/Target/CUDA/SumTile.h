// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A block's sums on their way from fragments to rows; partial sums of several blocks, and how the
// last of these adds them up.
#pragma once

#include "Pipeline.h"

namespace sluice::cuda {

/// A block's sums in shared memory, from its first byte on. There every thread finds four columns
/// of a row, and a warp whole stretches of rows: what it loads and stores in global memory lies
/// side by side.
class SumTile {
public:
  using Value = mlir::Value;

  SumTile(Frame &frame, TensorCore &core, WarpGrid grid);

  int64_t bytes() const { return grid.blockRows() * stride * int64_t(sizeof(float)); }
  /// A thread's sums, in the order of `Pipeline`. Barriers before and after are the caller's.
  void store(const Values &sums, Value warpRow, Value warpColumn);
  /// vector<4xf32>: this thread's columns of a row of the tile.
  Value load(Value line);
  Value column() { return firstColumn; } ///< index: the first of this thread's, within the tile
  /// Runs `body` for all rows of this thread, `atOnce` a turn.
  void eachLines(int64_t atOnce, llvm::function_ref<void(llvm::ArrayRef<Value> lines)> body);

private:
  Frame &frame;
  TensorCore &core;
  Emitter &e;
  const WarpGrid grid;
  const int64_t stride; ///< floats from row to row
  const int64_t threadsPerRow;
  Value firstColumn, firstLine;
};

/// Sums of a matrix and, behind it, of a vector of its height, made by `splits` blocks each.
struct PartialSums {
  int64_t splits = 1, height = 0, width = 0; ///< width 0: the vector alone

  int64_t stride() const { return (width + 3) / 4 * 4; }
  int64_t matrixBytes() const { return splits * height * stride() * int64_t(sizeof(float)); }
  int64_t bytes() const { return matrixBytes() + splits * height * int64_t(sizeof(float)); }
  mlir::Value matrix(Frame &frame) const; ///< [splits * height, stride]
  mlir::Value vector(Frame &frame) const; ///< [splits * height]
};

/// Where sums end: positions of operands and results as `Frame::buffer` counts them, -1 where there
/// is none.
struct SumTargets {
  int initMatrix = -1, matrix = -1, initVector = -1, vector = -1;
};

/// The tile of a sum that several blocks make parts of.
struct TilePlace {
  mlir::Value number;                ///< index: which tile, and so which counter
  mlir::Value firstRow, firstColumn; ///< index
  mlir::Value ownsVector;            ///< i1: whether the vector's rows are this tile's too
};

/// At the end of a block that has left its parts: the last of the tile's blocks adds the parts in
/// their order, and the inits to that.
void addPartsInOrder(Frame &frame, TensorCore &core, WarpGrid grid, const PartialSums &parts,
                     const SumTargets &targets, const TilePlace &place);

} // namespace sluice::cuda
