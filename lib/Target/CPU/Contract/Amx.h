// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// Products of bf16 in AMX tiles. A tile of the left factor is 16 rows of 32 numbers, one of the
// right factor 16 pairs along the summed axis of 16 columns, and `tdpbf16ps` adds their product to
// 16 x 16 sums of f32. A block of 2 x 2 tiles of sums with two tiles of each factor fills the eight
// tile registers. Each loaded tile is used twice: a product takes 16 cycles, and a load 8.
//
// The code generator loads the configuration of the tiles once, where a function begins, and
// releases it where the function ends. It has no copies of tiles: sums stay in a loop's arguments
// and are stored after it, and all tiles of a function have shapes that are constants.
#pragma once

#include "Tile.h"

namespace sluice::cpu {

constexpr int64_t tileSide = 16;  ///< rows of a tile, columns of sums, pairs of the summed axis
constexpr int64_t tileDepth = 32; ///< numbers of the summed axis

/// Loads a tile of a factor, 16 rows of 64 bytes from `at`, from memory of i16 or i32. The next row
/// is a row of the memory later, or `stride` elements later if that is given.
mlir::Value loadFactor(mlir::ImplicitLocOpBuilder &b, mlir::Value memory, mlir::ValueRange at,
                       mlir::Value stride = {});
/// Loads and stores 16 x 16 sums, f32.
mlir::Value loadSums(mlir::ImplicitLocOpBuilder &b, mlir::Value memory, mlir::ValueRange at);
void storeSums(mlir::ImplicitLocOpBuilder &b, mlir::Value tile, mlir::Value memory,
               mlir::ValueRange at);

/// Computes the sums of `rows` x `columns` tiles, at most 2 x 2, row by row: the products of
/// left(k, row) and right(k, column) for k = 0, 16, ... below `pairs`, a multiple of 16. They start
/// at zero, or at `initial`.
llvm::SmallVector<mlir::Value> emitTileProducts(mlir::ImplicitLocOpBuilder &b, int64_t rows,
                                                int64_t columns, mlir::Value pairs, LoadLeft left,
                                                LoadRight right,
                                                llvm::ArrayRef<mlir::Value> initial = {});

} // namespace sluice::cpu
