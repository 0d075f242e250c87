// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// Common parts of the two contraction generators: register tiles, transposes in registers, and
// validity of rows.
#pragma once

#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "sluice/Target/CPU/Frame.h"

namespace sluice::cpu {

/// A register tile of `rows` by `vectors * lanes` accumulators.
struct RegisterTile {
  int64_t rows, vectors, lanes;
  int64_t columns() const { return vectors * lanes; }
  mlir::VectorType type(mlir::Builder &b) const {
    return mlir::VectorType::get({lanes}, b.getF32Type());
  }

  /// Returns the tile that fills the register file except for the operands of one step: 12 x 32
  /// with AVX-512, 6 x 16 with AVX2. Two vectors by `rows` have more independent chains than FMA
  /// latency times ports, and need less than one load per port and step.
  static RegisterTile of(const Target &target) {
    return {(target.registers - target.registers / 8 - 4) / 2, 2, target.lanes};
  }
};

using LoadLeft = llvm::function_ref<mlir::Value(mlir::Value k, int64_t row)>;
using LoadRight = llvm::function_ref<mlir::Value(mlir::Value k, int64_t vector)>;

/// The nearest cache that a prefetch fills.
enum class CacheLevel { L1, L2 };

/// Returns the elements of f32 or bf16 in a cache line of `memory`.
int64_t lineElements(mlir::Value memory);

/// Prefetches the cache line of an element; indices out of bounds are harmless.
void emitPrefetch(mlir::ImplicitLocOpBuilder &b, mlir::Value memory, mlir::ValueRange at,
                  CacheLevel level);

/// Prefetches in the loop of a tile: `step` is called for each step, `line` once for `lineSteps`
/// steps, with the first of them. Those are the steps of one cache line of f32 or pairs of bf16.
/// Null functions prefetch nothing.
struct TilePrefetches {
  static constexpr int64_t lineSteps = 16;
  static constexpr int64_t mostRows = 4; ///< at a time: more would be much code for small shapes
  llvm::function_ref<void(mlir::Value k)> step, line;
};

/// Computes the sum over k in [0, steps) of left(k, row) * right(k, vector), for each row and
/// vector of `tile`, row by row. Accumulators start at zero, or at `initial`. The factors are f32,
/// or i32: pairs of bf16, whose products are both added.
llvm::SmallVector<mlir::Value> emitOuterProducts(mlir::ImplicitLocOpBuilder &b,
                                                 const RegisterTile &tile, mlir::Value steps,
                                                 LoadLeft left, LoadRight right,
                                                 llvm::ArrayRef<mlir::Value> initial = {},
                                                 const TilePrefetches &prefetches = {});

/// Returns sum + x * y, f32. Factors of i32 are pairs of bf16 that are multiplied by vdpbf16ps: it
/// takes subnormal numbers as zeros, and adds both products with roundings of their own.
mlir::Value emitMultiplyAdd(mlir::ImplicitLocOpBuilder &b, mlir::Value x, mlir::Value y,
                            mlir::Value sum);

/// Returns vectors of i32: the i16 of `low` and `high` side by side.
mlir::Value emitPairs(mlir::ImplicitLocOpBuilder &b, mlir::Value low, mlir::Value high);

/// Returns both bf16 of pairs, as vectors of f32.
std::pair<mlir::Value, mlir::Value> emitSplitPairs(mlir::ImplicitLocOpBuilder &b,
                                                   mlir::Value pairs);

/// Transposes n vectors of n lanes in registers, n = 4, 8 or 16.
llvm::SmallVector<mlir::Value> emitTranspose(mlir::ImplicitLocOpBuilder &b,
                                             llvm::SmallVector<mlir::Value> rows);

/// Transposes four columns of `lanes` rows of 32-bit elements in memory: vector c of the result has
/// column c of each row. `load` returns the four elements of a row; elements of another size become
/// 32 bits by `convert`, which takes the elements of several rows. A load inserts 128 bits into a
/// vector without a shuffle, so there are half as many shuffles as in `emitTranspose`, and LLVM
/// takes an eighth of its time.
llvm::SmallVector<mlir::Value>
emitTransposedColumns(mlir::ImplicitLocOpBuilder &b, int64_t lanes,
                      llvm::function_ref<mlir::Value(int64_t row)> load,
                      llvm::function_ref<mlir::Value(mlir::Value)> convert = {});

/// Loads four columns of `lanes` rows, transposed: of f32, i32, or bf16, which is extended to f32.
/// `place` returns the indices of a row's first element. Elements outside `mask` (of four i1), if
/// given, are zeros and not accessed.
llvm::SmallVector<mlir::Value>
loadTransposed(mlir::ImplicitLocOpBuilder &b, int64_t lanes, mlir::Value memory,
               llvm::function_ref<llvm::SmallVector<mlir::Value>(int64_t row)> place,
               mlir::Value mask = {});

/// Returns vector<lanes x i1>: columns first ... first + lanes - 1 that are below `limit` (index).
mlir::Value emitColumnMask(mlir::ImplicitLocOpBuilder &b, int64_t lanes, mlir::Value first,
                           mlir::Value limit);

/// Calls `body` with the induction variable inside a loop.
void emitLoop(mlir::ImplicitLocOpBuilder &b, mlir::Value first, mlir::Value last, mlir::Value step,
              llvm::function_ref<void(mlir::Value)> body);
/// Calls `body` inside `scf.if condition`.
void emitIf(mlir::ImplicitLocOpBuilder &b, mlir::Value condition, llvm::function_ref<void()> body);

mlir::Value addIndex(mlir::ImplicitLocOpBuilder &b, mlir::Value x, mlir::Value y);
mlir::Value mulIndex(mlir::ImplicitLocOpBuilder &b, mlir::Value x, int64_t y);
mlir::Value minIndex(mlir::ImplicitLocOpBuilder &b, mlir::Value x, mlir::Value y);

/// Returns i1: one of the global rows [first, first + count) is valid in `domain` (count > 0), for
/// the `lengths` and `rows` of the frame. Exact for runs shorter than a sequence if no sequence is
/// empty; otherwise a false positive is possible and harmless.
mlir::Value emitAnyValid(mlir::ImplicitLocOpBuilder &b, dispatch::DomainAttr domain,
                         const Lengths &lengths, mlir::Value rows, mlir::Value first,
                         mlir::Value count);

} // namespace sluice::cpu
