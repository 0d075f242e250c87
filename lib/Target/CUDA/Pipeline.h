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
  /// Whether a line (index) counts; its elements are zeros otherwise. False where there is no such
  /// line. Null: all do.
  std::function<mlir::Value(mlir::Value)> isValid = nullptr;
  /// The same for the lines of a step that starts at line `first` (linesAreInner): those below the
  /// result (i32) count. Cheaper, where a step's lines that count always come first.
  std::function<mlir::Value(mlir::Value first)> validEnd = nullptr;
  /// Whether lines that do not count may be no memory of the factor's, so that nothing of them may
  /// be read.
  bool isPartial = false;
};

/// What a thread copies of a tile: its first piece. The others lie at constant distances.
struct Share {
  mlir::Value thread, line, element;     ///< index; the piece's place within the tile
  mlir::Value sourceLine, sourceElement; ///< index; where it comes from at step 0
  mlir::Value from;                      ///< pointer to that; null where elements go one by one
  mlir::Value inner;                     ///< index; of the tile's first element at step 0
};

/// A factor's tile in shared memory, `extent` outer by `step` inner.
class Tile {
public:
  using Value = mlir::Value;

  Tile(Frame &frame, TensorCore &core, Factor factor, int64_t step);

  int64_t bytes() const { return tileLines * lineBytes; }
  const Factor &source() const { return factor; }
  /// The thread's share of a tile whose first element at step 0 is (outer, inner).
  Share share(Value outer, Value inner);
  /// Starts copying the share of step `number` (index), `step` inner a step, to the tile at byte
  /// `to`. Elements beyond the factor's edges become zeros.
  void copy(const Share &share, Value to, Value number, int64_t step);
  /// Registers of 16 outer from `outer` (index) + `offset` on by 16 inner from `inner` on, as the
  /// left factor of a product: one fragment of four registers.
  Values left(Value tile, Value outer, int64_t offset, Value inner);
  /// The same as the right factor: two fragments of two registers, 8 outer each.
  Values right(Value tile, Value outer, int64_t offset, Value inner);

private:
  Values load(Value tile, Value outer, Value inner);
  /// A step's tile: where it goes, how far inner it lies from step 0's, and its validEnd or null.
  struct Target {
    Value to, ahead, validEnd;
  };
  void copyPiece(const Share &share, const Target &target, int64_t first);
  void copyElements(const Share &share, const Target &target);
  void copyElement(Value to, Value line, Value element, Value validEnd);
  Value placeOf(Value line, Value element);
  Value lineCounts(Value line, Value validEnd);
  Value sourceBytes(Value element, Value lineCounts);
  int64_t piecesOfLine() const { return lineElements / grain; }
  bool linesAreWhole() const;
  bool widthIsWhole() const;

  Frame &frame;
  TensorCore &core;
  Emitter &e;
  Factor factor;
  int64_t tileLines, lineElements, lineBytes;
  int64_t grain; ///< elements a copy: as many as every line's start is aligned to, at most 8
};

/// How the warps of a block divide a product.
struct WarpGrid {
  int64_t rows = 2, columns = 2;           ///< warps
  int64_t tileRows = 64, tileColumns = 64; ///< of a warp
  constexpr int64_t threads() const { return rows * columns * threadsPerWarp; }
  constexpr int64_t blockRows() const { return rows * tileRows; }
  constexpr int64_t blockColumns() const { return columns * tileColumns; }
  constexpr int64_t rowFragments() const { return tileRows / fragmentRows; }
  constexpr int64_t columnFragments() const { return tileColumns / fragmentColumns; }
  constexpr int64_t sums() const {
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
  /// its columns. Without `right` (memory null) tiles of the left alone go by. `unrolls`: as many
  /// steps as there are stages follow one another, so that the stages' addresses are constants;
  /// not for kernels that keep much else in registers.
  Pipeline(Frame &frame, TensorCore &core, WarpGrid grid, Factor left, Factor right, int64_t step,
           int64_t stages, int64_t firstByte = 0, bool unrolls = true);

  int64_t sharedBytes() const { return stages * stageBytes(); }
  /// First byte of the stage that step `step` reads: of the last step, all that warps may still be
  /// reading after `run`.
  int64_t firstByteOf(int64_t step) const { return firstByte + step % stages * stageBytes(); }
  /// Starts the first copies of `steps` (index) steps. Nothing may use the stages any more. Without
  /// `commits` the copies join whatever group this thread commits next; as many groups as there are
  /// stages must end before `run`.
  void fill(const Origin &origin, Value steps, bool commits = true);
  /// What else is done with the left factor: with its fragments, after their products, or where
  /// there is no right factor once a step with its tile (a byte of shared memory) and no fragments.
  /// `carried` are values of its own, behind the sums.
  using Each = llvm::function_ref<Values(Value number, Value leftTile, llvm::ArrayRef<Values> left,
                                         mlir::ValueRange carried)>;
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
  Value stageAt(int64_t stage);
  struct Shares {
    Share left, right;
  };
  Shares sharesOf(const Origin &origin);
  struct Run {
    Shares shares;
    Value steps;
    Each each;
  };
  struct Step {
    /// Index; bytes of the stages read and filled, the latter null where nothing is left to copy.
    Value number, stage, stageAhead;
  };
  void copyStage(const Shares &shares, Value number, Value stage);
  Values emitRound(const Run &run, Value first, mlir::ValueRange carried);
  Values emitStep(const Run &run, const Step &at, mlir::ValueRange carried);
  Values multiply(Value stage, Value inner, mlir::ValueRange sums,
                  llvm::SmallVectorImpl<Values> &left);

  TensorCore &core;
  Emitter &e;
  Tile left, right;
  const bool hasRight;
  const int64_t step, stages, firstByte;
  const bool unrolls;
  Value firstRow, firstColumn;
};

/// sums[i, j] += left[i] * right[j], fragment by fragment.
Values multiplyFragments(TensorCore &core, llvm::ArrayRef<Values> left,
                         llvm::ArrayRef<Values> right, mlir::ValueRange sums);

/// Registers of the right factor's next `columnFragments` fragments from `outer` on.
llvm::SmallVector<Values> rightFragments(Tile &tile, mlir::Value at, mlir::Value outer,
                                         int64_t columnFragments, mlir::Value inner);

} // namespace sluice::cuda
