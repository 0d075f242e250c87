// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A block's product of two factors: tiles in shared memory, filled by asynchronous copies some
// steps ahead, swizzled so that neither copies nor matrix loads meet in a bank.
#pragma once

#include "Tensor.h"

#include <functional>

namespace sluice::cuda {

/// One factor of a product, seen as outer (rows of the product, or its columns) by inner (the sum).
struct Factor {
  mlir::Value memory;         ///< [lines, stride] of bf16
  int64_t lines = 0;          ///< that exist
  int64_t width = 0;          ///< elements of a line that count; what lies behind them is not read
  bool linesAreInner = false; ///< element (outer o, inner k) is memory[k, o], else memory[o, k]
  int64_t extent = 0;         ///< of the tile, along outer: a power of two
  /// Whether a line (index, below `lines`) counts; its elements are zeros otherwise. Null: all do.
  std::function<mlir::Value(mlir::Value)> isValid = nullptr;
};

/// A factor's tile in shared memory, `extent` outer by `step` inner.
class Tile {
public:
  using Value = mlir::Value;

  Tile(Frame &frame, TensorCore &core, Factor factor, int64_t step);

  int64_t bytes() const { return tileLines * lineBytes; }
  const Factor &source() const { return factor; }
  /// Starts copying the elements from (outer, inner) on to byte `to`, every thread its share.
  /// Elements beyond the factor's edges become zeros.
  void copy(Value to, Value outer, Value inner);
  /// Registers of 16 outer from `outer` (index) + `offset` on by 16 inner from `inner` on, as the
  /// left factor of a product: one fragment of four registers.
  Values left(Value tile, Value outer, int64_t offset, Value inner);
  /// The same as the right factor: two fragments of two registers, 8 outer each.
  Values right(Value tile, Value outer, int64_t offset, Value inner);

private:
  Values load(Value tile, Value outer, Value inner);
  void copyPiece(Value to, Value line, Value element, Value outer, Value inner);
  void copyElement(Value to, Value line, Value element);
  Value sourceBytes(Value line, Value element);
  bool linesAreWhole() const;
  bool widthIsWhole() const;

  Frame &frame;
  TensorCore &core;
  cpu::Emitter &e;
  Factor factor;
  int64_t tileLines, lineElements, lineBytes;
  int64_t grain; ///< elements a copy: as many as every line's start is aligned to, at most 8
};

/// How the warps of a block divide a product.
struct WarpGrid {
  int64_t rows = 2, columns = 2;           ///< warps
  int64_t tileRows = 64, tileColumns = 64; ///< of a warp
  int64_t threads() const { return rows * columns * threadsPerWarp; }
  int64_t blockRows() const { return rows * tileRows; }
  int64_t blockColumns() const { return columns * tileColumns; }
  int64_t rowFragments() const { return tileRows / fragmentRows; }
  int64_t columnFragments() const { return tileColumns / fragmentColumns; }
  int64_t sums() const {
    return rowFragments() * columnFragments() * sumsPerFragment;
  } ///< a thread
};

/// Where a block's product starts.
struct Origin {
  mlir::Value row, column, inner; ///< index; inner a multiple of the step
};

class Pipeline {
public:
  using Value = mlir::Value;

  /// `firstByte`: of shared memory. The left factor's extent is the grid's rows, the right one's
  /// its columns. Without `right` (memory null) tiles of the left alone go by.
  Pipeline(Frame &frame, TensorCore &core, WarpGrid grid, Factor left, Factor right, int64_t step,
           int64_t stages, int64_t firstByte = 0);

  int64_t sharedBytes() const { return stages * stageBytes(); }
  /// Starts the first copies of `steps` (index) steps. Nothing may use the stages any more.
  void fill(const Origin &origin, Value steps);
  /// What else a step does with the left factor's tile (a byte of shared memory): `carried` are
  /// values of its own, behind the sums.
  using Each = llvm::function_ref<Values(Value number, Value leftTile, mlir::ValueRange carried)>;
  /// sums += the product over `steps` steps, that `fill` was given. All threads must still meet
  /// before the stages are filled again.
  Values run(const Origin &origin, Value steps, mlir::ValueRange sums, Each each = nullptr);

  Tile &leftTile() { return left; }
  Value warpRow() const { return firstRow; }       ///< index: of the warp, within the block
  Value warpColumn() const { return firstColumn; } ///< index
  const WarpGrid grid;

private:
  int64_t stageBytes() const { return left.bytes() + (hasRight ? right.bytes() : 0); }
  Value stageOf(Value number);
  void copyStage(const Origin &origin, Value number);
  Values multiply(Value stage, mlir::ValueRange sums);

  TensorCore &core;
  cpu::Emitter &e;
  Tile left, right;
  const bool hasRight;
  const int64_t step, stages, firstByte;
  Value firstRow, firstColumn;
};

/// sums[i, j] += left[i] * right[j], fragment by fragment.
Values multiplyFragments(TensorCore &core, llvm::ArrayRef<Values> left,
                         llvm::ArrayRef<Values> right, mlir::ValueRange sums);

/// Registers of the right factor's next `columnFragments` fragments from `outer` on.
llvm::SmallVector<Values> rightFragments(Tile &tile, mlir::Value at, mlir::Value outer,
                                         int64_t columnFragments, mlir::Value inner);

} // namespace sluice::cuda
