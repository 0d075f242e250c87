// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What attention's forward and backward kernels share: block sizes, matmuls on blocks, packing,
// mask and score.
//
// Scores are held transposed: S^T[q][p] with the lanes along queries p. Then the maximum and the
// sum over keys are elementwise, a key's scalars are broadcast from memory for free, and every
// matmul of both directions is of one form: scalar A(row, k) times vector B(k, column vector),
// accumulators in registers.
#pragma once

#include "sluice/Target/CPU/Kernel.h"
#include "sluice/Target/Common/AttentionSizes.h"
#include "sluice/Target/Common/Score.h"

#include <functional>

namespace sluice::cpu::attention {

/// Sizes of the problem and of the blocks.
struct Shape : AttentionSizes {
  int64_t queryBlock; ///< queries a block: queryVectors vectors
  int64_t queryVectors;
  int64_t keyBlock;    ///< keys a block
  int64_t headVectors; ///< vectors that hold one head's columns
  int64_t headWidth;   ///< headVectors * lanes
  int64_t queryBlocks; ///< blocks that cover all queries
  int64_t keyBlocks;
  int64_t elementBytes; ///< of queries, keys, values, outputs and their gradients in memory
};

template <typename Op> Shape makeShape(Op op, const Target &target);

/// Valid lengths of queries and of keys in a row of the batch, of type index; one value where they
/// have one domain and keys no counts.
template <typename Op>
std::pair<mlir::Value, mlir::Value> validLengths(Op op, Frame &frame, mlir::Value batchRow);

/// A matrix in two-dimensional memory, from (row, column) on. `transposed` swaps the two when it is
/// read.
struct Matrix {
  mlir::Value memory, row, column;
  bool transposed = false;
};

/// Accumulators [row][vector] of one register tile.
using Accumulators = llvm::SmallVector<Emitter::Values>;

/// One matmul on blocks: C[rows][vectors * lanes] = init + sum over k < depth of A(row, k) B(k,
/// vector).
struct Matmul {
  int64_t rows, vectors;
  mlir::Value depth;
  Matrix a, b;
  /// Starting values of the tile at (first row, first column); zeros where absent. The tile's size
  /// is that of the argument.
  std::function<void(mlir::Value row, mlir::Value column, Accumulators &tile)> init;
  std::function<void(mlir::Value row, mlir::Value column, Accumulators &tile)> finish;
  /// Emitted in every step of a tile that starts at `row`, for what should be fetched meanwhile;
  /// may be absent.
  std::function<void(mlir::Value row, mlir::Value k)> step;
};

/// Rows of a register tile on blocks of `vectors` vectors: at most so many that accumulators, a row
/// of B and one broadcast fit. A matmul of a multiple of them has no other tiles.
int64_t tileRows(const Target &target, int64_t vectors);

void emitMatmul(Emitter &e, const Target &target, const Matmul &matmul);

/// init and finish that add the tile to memory [row][column].
Matmul accumulateInto(Emitter &e, Matmul matmul, mlir::Value memory, mlir::Value row);

/// Which rows are packed: positions first + i, i < count, of the sequence whose row 0 is `base`.
struct RowRange {
  mlir::Value base, first, count;
  mlir::Value limit; ///< a position from here on reads the row before: every packed row is one that
                     ///< is valid
};

/// Copies one head's columns of rows into packed[i][headWidth].
void emitPack(Emitter &e, const Shape &shape, mlir::Value source, const RowRange &range,
              mlir::Value column, mlir::Value packed);

/// transposed[row0 + c][p] = packed[first + p][c] for c < head, p < queryBlock.
void emitTransposeBlock(Emitter &e, const Shape &shape, mlir::Value packed, mlir::Value first,
                        mlir::Value transposed, mlir::Value row0);

/// The reverse, into all headWidth columns: packed[p][c] = transposed[row0 + c][p] * scale[p]
/// (scale may be null). Columns from `head` on hold anything.
void emitTransposeBack(Emitter &e, const Shape &shape, mlir::Value transposed, mlir::Value row0,
                       mlir::Value scale, mlir::Value packed);

/// target[base + first + i][column ...] = packed[from + i] for i < count, rotated back where
/// `rotary` is given.
void emitUnpack(Emitter &e, const Shape &shape, mlir::Value packed, mlir::Value from,
                mlir::Value first, mlir::Value count, mlir::Value rotary, mlir::Value target,
                mlir::Value base, mlir::Value column);

/// Zeros in one head's columns of rows [from, to) after `base`.
void emitZeroRows(Emitter &e, const Shape &shape, mlir::Value target, mlir::Value base,
                  mlir::Value from, mlir::Value to, mlir::Value column);

/// Sets all of a two-dimensional memory whose rows are whole vectors.
void emitFill(Emitter &e, mlir::Value memory, float value);

/// Fills in FLOPs of `matmuls` matmuls over the pairs that the mask keeps, and the bytes of
/// `tensors` tensors of all heads' columns, half of them of queries and half of keys.
void countWork(const Shape &shape, mlir::IntegerSet mask, int64_t matmuls, int64_t tensors,
               Kernel &kernel);

/// The relation and q < length, for a vector of queries and one key (both i32); a vector of i1.
mlir::Value emitMask(Emitter &e, mlir::IntegerSet mask, mlir::Value p, mlir::Value q,
                     mlir::Value length);

/// i32 vector of the queries p0 + column + (0, 1, ...).
mlir::Value emitQueries(Emitter &e, mlir::Value p0, mlir::Value column);

/// keep[q][p] = 0 or 1 / (1 - dropout) for a block of keys and queries; `head` is b * heads + h.
void emitKeep(Emitter &e, Frame &frame, const Shape &shape, mlir::Value head, mlir::Value p0,
              mlir::Value q0, mlir::Value keep);

} // namespace sluice::cpu::attention
