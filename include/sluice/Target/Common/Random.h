// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Philox4x32-10 in kernels: dispatch.random.
#pragma once

#include "mlir/IR/ImplicitLocOpBuilder.h"

#include <array>

namespace sluice::target {

/// Returns the row number for random draws of row `row` of a batch with `rowsOfText` rows per text
/// (index or i64): its own, or, with `drawRows` (the device scalar draw_rows; null: none), the
/// number of the same position in text draw_rows[b] of `rowsOfText` * `parts` rows each.
mlir::Value emitDrawnRow(mlir::ImplicitLocOpBuilder &b, mlir::Value row, mlir::Value drawRows,
                         int64_t rowsOfText, int64_t parts);

/// Type of a 32-bit word of Philox: the low half of an i64, because x86 multiplies to 64 bits in
/// one instruction, or an i32 on GPUs.
enum class PhiloxWord { Wide, Narrow };

/// Returns uniform numbers in [0, 1) for elements `elements` (i64, or vector<n x i64>): f32 of the
/// same shape. `firstStream` (added to `id`), `step` and `seed` are i64; pass a zero step for a
/// fixed step. One evaluation of Philox per element.
mlir::Value emitUniform(mlir::ImplicitLocOpBuilder &b, mlir::Value elements, int64_t id,
                        mlir::Value firstStream, mlir::Value step, mlir::Value seed,
                        PhiloxWord word = PhiloxWord::Wide);

/// The same for the `count` elements from `first` (i64, a multiple of 4, as is `count`):
/// vector<count x f32>. One evaluation gives four numbers, so this costs a quarter; 32 elements
/// fill an AVX-512 register.
mlir::Value emitUniformRun(mlir::ImplicitLocOpBuilder &b, mlir::Value first, int64_t count,
                           int64_t id, mlir::Value firstStream, mlir::Value step, mlir::Value seed,
                           PhiloxWord word = PhiloxWord::Wide);

/// Returns the four numbers of each block of elements 4 b, 4 b + 1, 4 b + 2, 4 b + 3, with one
/// evaluation per block. `blocks` holds b (i64 or a vector of it); each result is f32 of the same
/// shape.
std::array<mlir::Value, 4> emitUniformBlocks(mlir::ImplicitLocOpBuilder &b, mlir::Value blocks,
                                             int64_t id, mlir::Value firstStream, mlir::Value step,
                                             mlir::Value seed, PhiloxWord word = PhiloxWord::Wide);

/// Returns true (i1) if the pair of positions p and q (index) is drawn by `key` (i32), as in
/// `#dispatch.access<range, drawn>`.
mlir::Value emitPairDraw(mlir::ImplicitLocOpBuilder &b, mlir::Value key, mlir::Value p,
                         mlir::Value q, PhiloxWord word);

} // namespace sluice::target
