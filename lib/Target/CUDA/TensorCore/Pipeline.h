// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Product of two factors in a block: tiles in shared memory, filled by asynchronous copies several
// steps ahead, and swizzled so that neither copies nor matrix loads have bank conflicts.
#pragma once

#include "Warpgroup.h"

#include <functional>
#include <optional>

namespace sluice::cuda {

/// One factor of a product, as outer (rows or columns of the product) by inner (the sum).
struct Factor {
  mlir::Value memory;         ///< [lines, stride] of bf16
  int64_t lines = 0;          ///< number of existing lines
  int64_t width = 0;          ///< elements of a line that are read; later elements are padding
  bool linesAreInner = false; ///< element (outer o, inner k) is memory[k, o] if set, else memory[o,
                              ///< k]
  int64_t extent = 0;         ///< outer extent of the tile, a power of two
  /// Returns whether a line (index) is included; elements of excluded lines are zeros. Must be
  /// false for lines that do not exist. Null: all lines are included.
  std::function<mlir::Value(mlir::Value)> isValid = nullptr;
  /// The same for the lines of a step that starts at line `first` (linesAreInner): lines below the
  /// result (i32) are included. Cheaper, if the included lines of a step always come first.
  std::function<mlir::Value(mlir::Value first)> validEnd = nullptr;
  /// True if excluded lines may have no memory and must not be read.
  bool isPartial = false;
  /// Returns the first line (index) of step `number`, less the inner origin (linesAreInner). Null:
  /// steps follow one another.
  std::function<mlir::Value(mlir::Value number)> stepStart = nullptr;
};

/// Pieces of a tile that a thread copies. Describes the first piece; the others are at constant
/// distances.
struct Share {
  mlir::Value thread, line, element;     ///< index; position of the piece within the tile
  mlir::Value sourceLine, sourceElement; ///< index; source of the piece at step 0
  mlir::Value from;                      ///< pointer to the source; null if elements are copied one
                                         ///< by one
  mlir::Value inner;                     ///< index; inner position of the tile's first element at
                                         ///< step 0
};

/// Tile of a factor in shared memory, `extent` outer by `step` inner.
class Tile {
public:
  /// `panels` cuts long lines into panels of 128 bytes, the layout of a warpgroup's products: all
  /// lines of a panel are adjacent.
  Tile(Frame &frame, TensorCore &core, Factor factor, int64_t step, bool panels = false);

  int64_t bytes() const { return tileLines * lineElements * elementBytes; }
  const Factor &source() const { return factor; }
  /// Returns the thread's share of a tile whose first element at step 0 is (outer, inner).
  Share share(Value outer, Value inner);
  /// Starts copying the share for step `number` (index) to the tile at byte `to`; each step
  /// advances `step` inner elements. Elements beyond the factor's edges become zeros.
  void copy(const Share &share, Value to, Value number, int64_t step);
  /// Loads 16 outer elements from `outer` (index) + `offset` by 16 inner elements from `inner`, as
  /// the left factor of a product: one fragment of four registers.
  Values left(Value tile, Value outer, int64_t offset, Value inner);
  /// The same as the right factor: two fragments of two registers, 8 outer each.
  Values right(Value tile, Value outer, int64_t offset, Value inner);
  /// Returns the descriptor of the tile at byte `tile` (index) from outer element `outer` (index) +
  /// `offset`, multiples of 64, and from inner element `inner`, a multiple of 16.
  Value describe(Warpgroup &warpgroup, Value tile, Value outer, int64_t offset, int64_t inner);

private:
  static constexpr int64_t elementBytes = 2;
  Values load(Value tile, Value outer, Value inner);
  /// Tile of a step: destination, inner distance from step 0, and its validEnd or null.
  struct CopyTarget {
    Value to, ahead, validEnd;
  };
  void copyPiece(const Share &share, const CopyTarget &target, int64_t first);
  void copyElements(const Share &share, const CopyTarget &target);
  void copyElement(Value to, Value line, Value element, Value validEnd);
  Value computeTileAddress(Value line, Value element);
  Value computeChunkAddress(Value line, Value chunk);
  Value lineCounts(Value line, Value validEnd);
  Value sourceBytes(Value element, Value lineCounts);
  int64_t piecesOfLine() const { return lineElements / grain; }
  bool linesAreWhole() const;
  bool widthIsWhole() const;

  Frame &frame;
  TensorCore &core;
  Emitter &e;
  Factor factor;
  int64_t tileLines, lineElements;
  int64_t lineBytes; ///< of a panel, if there are several
  int64_t grain;     ///< elements per copy: the alignment of all line starts, at most 8
};

/// Distribution of a product over the warps of a block.
struct WarpGrid {
  int64_t rows = 2, columns = 2;           ///< number of warps
  int64_t tileRows = 64, tileColumns = 64; ///< tile of a warp
  /// Warpgroups multiply (sm_90a): `rows` is a multiple of four, and `columns` is 1.
  bool warpgroups = false;
  constexpr int64_t threads() const { return rows * columns * threadsPerWarp; }
  constexpr int64_t blockRows() const { return rows * tileRows; }
  constexpr int64_t blockColumns() const { return columns * tileColumns; }
  constexpr int64_t rowFragments() const { return tileRows / fragmentRows; }
  constexpr int64_t columnFragments() const { return tileColumns / fragmentColumns; }
  constexpr int64_t sums() const {
    return rowFragments() * columnFragments() * sumsPerFragment;
  } ///< per thread
  /// Distance between the fragments of a warp. The four warps of a warpgroup interleave theirs.
  constexpr int64_t fragmentStride() const { return warpgroups ? warpgroupRows : fragmentRows; }
};

/// Tile of a block, and the steps of the inner dimension.
struct Tiling {
  WarpGrid grid;
  int64_t step = 32, stages = 4;
};

/// The tile of two warpgroups on sm_90a: 128 x 256 results, and 192 KB of stages. On an H200, tiles
/// of 128 x 128 reached three quarters of its rate at 4096^3.
constexpr Tiling warpgroupTiling = {{8, 1, 16, 256, true}, 64, 4};

/// Start of a block's product.
struct Origin {
  mlir::Value row, column, inner; ///< index; inner a multiple of the step
};

class Pipeline {
public:
  /// `firstByte` is an offset in shared memory. The extent of the left factor is the rows of the
  /// grid, the extent of the right factor its columns. Without `right` (null memory) only tiles of
  /// the left factor are streamed. `unrolls` unrolls the loop by the number of stages, which makes
  /// stage addresses constants; avoid it in kernels with high register pressure.
  Pipeline(Frame &frame, TensorCore &core, WarpGrid grid, Factor left, Factor right, int64_t step,
           int64_t stages, int64_t firstByte = 0, bool unrolls = true);

  int64_t sharedBytes() const { return stages * stageBytes(); }
  /// Returns the first byte of the stage of step `step`. For the last step: of the memory that
  /// warps may still be reading after `run`.
  int64_t getFirstByte(int64_t step) const { return firstByte + step % stages * stageBytes(); }
  /// Starts the first copies of `steps` (index) steps. The stages must be unused. Without `commits`
  /// the copies join the next group that this thread commits; as many groups as there are stages
  /// must end before `run`.
  void fill(const Origin &origin, Value steps, bool commits = true);
  /// Further work on the left factor. It gets the fragments after their products or, without a
  /// right factor, the tile of each step (a byte of shared memory) and no fragments. `carried` are
  /// its own loop-carried values, which follow the sums.
  using Each = llvm::function_ref<Values(Value number, Value leftTile, llvm::ArrayRef<Values> left,
                                         mlir::ValueRange carried)>;
  /// Computes sums += the product over the `steps` steps that were passed to `fill`. Callers must
  /// synchronize the block before they fill the stages again.
  Values run(const Origin &origin, Value steps, mlir::ValueRange sums, Each each = nullptr);

  Tile &leftTile() { return left; }
  Value warpRow() const { return firstRow; }       ///< index, within the block
  Value warpColumn() const { return firstColumn; } ///< index
  const WarpGrid grid;

private:
  int64_t stageBytes() const { return left.bytes() + (hasRight ? right.bytes() : 0); }
  Value getStageId(Value number);
  Value stageAt(int64_t stage);
  struct Shares {
    Share left, right;
  };
  Shares computeShares(const Origin &origin);
  struct PipelineRun {
    Shares shares;
    Value steps;
    Each each;
  };
  struct PipelineStep {
    /// Index; bytes of the stages to read and to fill. The latter is null if nothing is left to
    /// copy.
    Value number, stage, stageAhead;
  };
  void copyStage(const Shares &shares, Value number, Value stage);
  Values emitRound(const PipelineRun &run, Value first, mlir::ValueRange carried);
  Values emitStep(const PipelineRun &run, const PipelineStep &at, mlir::ValueRange carried);
  Values emitWarpgroupStep(const PipelineRun &run, const PipelineStep &at,
                           mlir::ValueRange carried);
  void copyAhead(const PipelineRun &run, const PipelineStep &at);
  Values multiply(Value stage, Value inner, mlir::ValueRange sums,
                  llvm::SmallVectorImpl<Values> &left);

  TensorCore &core;
  Emitter &e;
  Tile left, right;
  const bool hasRight;
  const int64_t step, stages, firstByte;
  const bool unrolls;
  /// Number of steps that copies are ahead of products. A warpgroup's products of the step before
  /// may be unfinished, so their stage is not free.
  const int64_t distance;
  Value firstRow, firstColumn, groupRow;
  std::optional<Warpgroup> warpgroup;
};

/// Computes sums[i, j] += left[i] * right[j], fragment by fragment.
Values multiplyFragments(TensorCore &core, llvm::ArrayRef<Values> left,
                         llvm::ArrayRef<Values> right, mlir::ValueRange sums);

/// Loads the next `columnFragments` fragments of the right factor, from `outer`.
llvm::SmallVector<Values> rightFragments(Tile &tile, mlir::Value at, mlir::Value outer,
                                         int64_t columnFragments, mlir::Value inner);

} // namespace sluice::cuda
