// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Common parts of attention's forward and backward kernels: block sizes, matmuls on blocks,
// packing, mask and score.
//
// Scores are stored transposed, S^T[q][p], with SIMD lanes along queries p. The maximum and the sum
// over keys are then elementwise, the scalars of a key are broadcast from memory for free, and
// every matmul of both directions has the same form: scalar A(row, k) times vector B(k, column
// vector), with accumulators in registers.
#pragma once

#include "../Contract/Amx.h"
#include "sluice/Target/CPU/Frame.h"
#include "sluice/Target/Common/AttentionSizes.h"
#include "sluice/Target/Common/Score.h"

#include <functional>

namespace sluice::cpu {

mlir::FailureOr<Kernel> generateAttention(dispatch::AttentionOp op, mlir::ModuleOp module,
                                          llvm::StringRef name, const Target &target);
mlir::FailureOr<Kernel> generateAttentionBackward(dispatch::AttentionBackwardOp op,
                                                  mlir::ModuleOp module, llvm::StringRef name,
                                                  const Target &target);

/// Attention over a scheduled domain: the queries of its rows, with keys and values at absolute
/// positions in rings. Sums run over blocks of keys in the order of their positions.
mlir::FailureOr<Kernel> generateDecodeAttention(dispatch::AttentionOp op, mlir::ModuleOp module,
                                                llvm::StringRef name, const Target &target);

} // namespace sluice::cpu

namespace sluice::cpu::attention {

/// Sizes of the problem and of the blocks.
struct AttentionShape : AttentionSizes {
  int64_t queryBlock; ///< queries per block: queryVectors vectors
  int64_t queryVectors;
  int64_t keyBlock;    ///< keys per block
  int64_t headVectors; ///< vectors per row of one head
  int64_t headWidth;   ///< headVectors * lanes
  int64_t queryBlocks; ///< number of blocks of queries
  int64_t keyBlocks;
  int64_t elementBytes; ///< element size of queries, keys, values, outputs and their gradients
  /// Matmuls multiply pairs of bf16, as i32: probabilities and gradients of scores are rounded to
  /// bf16, and everything else is read as it is.
  bool pairs;
  int64_t pairColumns; ///< pairs per row of one head, in whole vectors
  bool tiles;          ///< pairs are multiplied in AMX tiles

  /// Returns the steps of a sum of `count` products; tiles add pairs of zeros.
  int64_t getDepth(int64_t count) const {
    return tiles ? (count / 2 + tileSide - 1) / tileSide * tileSide : pairs ? count / 2 : count;
  }
};

template <typename Op> AttentionShape makeShape(Op op, const Target &target);

/// Returns the valid lengths (index) of queries and keys in a row of the batch; the same value if
/// they share a domain and there are no key counts.
template <typename Op>
std::pair<mlir::Value, mlir::Value> validLengths(Op op, Frame &frame, mlir::Value batchRow);

/// A matrix in two-dimensional memory, starting at (row, column). `transposed` swaps the dimensions
/// on reads.
struct Matrix {
  mlir::Value memory, row, column;
  bool transposed = false;
};

/// Accumulators [row][vector] of one register tile.
using Accumulators = llvm::SmallVector<Values>;

/// A matmul on blocks: C[rows][vectors * lanes] = init + sum over k < depth of A(row, k) B(k,
/// vector).
struct Matmul {
  int64_t rows, vectors;
  mlir::Value depth;
  Matrix a, b;
  /// Provides initial values of the tile at (first row, first column); zeros if absent. The size of
  /// the tile is the size of the argument.
  std::function<void(mlir::Value row, mlir::Value column, Accumulators &tile)> init;
  std::function<void(mlir::Value row, mlir::Value column, Accumulators &tile)> finish;
  /// Emitted in every step of a tile that starts at `row`, for prefetches; may be absent.
  std::function<void(mlir::Value row, mlir::Value k)> step;
  /// Scratch of 32 x 32 f32 if the factors are multiplied in AMX tiles. Then `a` is not transposed
  /// and has rows up to a multiple of 16, and `depth` is a multiple of 16.
  mlir::Value sums;
};

/// Returns the rows of a register tile for blocks of `vectors` vectors: the accumulators, a row of
/// B and one broadcast must fit in the registers. If the rows of a matmul are a multiple of it, all
/// its tiles have this size.
int64_t tileRows(const Target &target, int64_t vectors);

/// Returns a matmul of the rows of a block of keys with a transposed block of queries, over the
/// columns of a head, without operands: C[keyBlock][queryBlock].
Matmul makeBlockMatmul(Emitter &e, const AttentionShape &shape);

void emitMatmul(Emitter &e, const Target &target, const Matmul &matmul);

/// Sets finish such that it stores the tile to memory [row][column].
Matmul storeInto(Emitter &e, Matmul matmul, mlir::Value memory, mlir::Value row);

/// Sets init and finish such that they add the tile to memory [row][column].
Matmul accumulateInto(Emitter &e, Matmul matmul, mlir::Value memory, mlir::Value row);

/// Rows to pack: positions first + i, i < count, of the sequence whose row 0 is `base`.
struct RowRange {
  mlir::Value base, first, count;
  mlir::Value limit; ///< positions from `limit` on read row `limit` - 1, so that every packed row
                     ///< exists
                     ///< is valid
};

/// Prefetches one head's columns of the row that a loop over rows reaches 16 rows after `row`. The
/// rows are too far apart for the processor to prefetch them by itself.
void emitPrefetchRow(Emitter &e, const AttentionShape &shape, mlir::Value memory, mlir::Value row,
                     mlir::Value column);

/// Copies the columns of one head to packed[i][headWidth].
void emitPack(Emitter &e, const AttentionShape &shape, mlir::Value source, const RowRange &range,
              mlir::Value column, mlir::Value packed);

/// The same for bf16 in pairs of columns: packed[i][pairColumns], i32.
void emitPackPairs(Emitter &e, const AttentionShape &shape, mlir::Value source,
                   const RowRange &range, mlir::Value column, mlir::Value packed);

/// The same for bf16 in pairs of rows: packed[i / 2][headWidth], i32. The count is even.
void emitPackRowPairs(Emitter &e, const AttentionShape &shape, mlir::Value source,
                      const RowRange &range, mlir::Value column, mlir::Value packed);

/// The same with a row per column of the head, for blocks of keyBlock rows:
/// packed[block * headWidth + column][i / 2 of the block]. The count is a multiple of keyBlock,
/// which is one of 32.
void emitPackTransposedPairs(Emitter &e, const AttentionShape &shape, mlir::Value source,
                             const RowRange &range, mlir::Value column, mlir::Value packed);

/// Rounds rows [0, valid) of a block of f32 to bf16: rowPairs[i / 2][column] has pairs of rows,
/// with zeros for row `valid`, and columnPairs[i][column / 2] pairs of columns. Either may be null.
/// For tiles, rowPairs has zeros up to a multiple of 32 rows.
void emitRoundBlock(Emitter &e, const AttentionShape &shape, mlir::Value block, mlir::Value valid,
                    mlir::Value rowPairs, mlir::Value columnPairs);

/// Computes transposed[row0 + c][p] = packed[first + p][c] for c < head, or half as many pairs, and
/// p < queryBlock.
void emitTransposeBlock(Emitter &e, const AttentionShape &shape, mlir::Value packed,
                        mlir::Value first, mlir::Value transposed, mlir::Value row0);

/// The reverse, into all headWidth columns: packed[p][c] = transposed[row0 + c][p] * scale[p]
/// (scale may be null). Columns from `head` on are undefined.
void emitTransposeBack(Emitter &e, const AttentionShape &shape, mlir::Value transposed,
                       mlir::Value row0, mlir::Value scale, mlir::Value packed);

/// Computes target[base + first + i][column ...] = packed[from + i] for i < count, with the inverse
/// rotation if `rotary` is not null.
void emitUnpack(Emitter &e, const AttentionShape &shape, mlir::Value packed, mlir::Value from,
                mlir::Value first, mlir::Value count, mlir::Value rotary, mlir::Value target,
                mlir::Value base, mlir::Value column);

/// Stores zeros to the columns of one head in rows [from, to) after `base`.
void emitZeroRows(Emitter &e, const AttentionShape &shape, mlir::Value target, mlir::Value base,
                  mlir::Value from, mlir::Value to, mlir::Value column);

/// Fills a two-dimensional memory whose rows are whole vectors.
void emitFill(Emitter &e, mlir::Value memory, float value);

/// Sets the FLOPs of `matmuls` matmuls over the pairs in the mask, and the bytes of `tensors`
/// tensors with the columns of all heads, half of them with rows of queries and half with rows of
/// keys.
void countWork(const AttentionShape &shape, mlir::IntegerSet mask, int64_t matmuls, int64_t tensors,
               Kernel &kernel);

/// Returns the mask and q < length as a vector of i1, for a vector of queries and one key (both
/// i32).
mlir::Value emitMask(Emitter &e, mlir::IntegerSet mask, mlir::Value p, mlir::Value q,
                     mlir::Value length);

/// Ranges of keys of the queries of a batch row: the op's operands, copied to scratch. Without
/// these operands every key is in range.
class KeyRanges {
public:
  KeyRanges(mlir::OperandRange range, Frame &frame, Emitter &e, const AttentionShape &shape);

  bool exist() const { return !ends.empty(); }
  /// Copies the ranges of a batch row; queries past the last one have its range.
  void pack(mlir::Value batchRow, mlir::Value queryLength);
  /// Restricts the class of the block of queries from `p0` and of keys from `q0`.
  void restrict(BlockClass &block, mlir::Value p0, mlir::Value q0);
  /// Restricts a mask, a vector of i1, for the queries from `p` (index) and the key `q` (i32).
  mlir::Value restrict(mlir::Value mask, mlir::Value p, mlir::Value q);

private:
  Emitter &e;
  const AttentionShape &shape;
  Values operands, ends; ///< two each: i32 [B, T], and of the batch row's queries
};

/// Returns the i32 vector of queries p0 + column + (0, 1, ...).
mlir::Value emitQueries(Emitter &e, mlir::Value p0, mlir::Value column);

/// Computes keep[q][p] = 0 or 1 / (1 - dropout) for a block of keys and queries; `head` is b *
/// heads + h.
void emitKeep(Emitter &e, Frame &frame, const AttentionShape &shape, mlir::Value head,
              mlir::Value p0, mlir::Value q0, mlir::Value keep);

} // namespace sluice::cpu::attention
