// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Building blocks of tensor-core kernels: dynamic shared memory, asynchronous copies into it,
// matrix loads from it to registers, and products.
//
// Thread t of a warp, with g = t / 4 and q = t mod 4, holds these elements of a product
// 16x8 = 16x16 * 16x8 (PTX ISA, mma.m16n8k16), two bf16 per register, the first in the low half:
//   A  (g, 2q) (g, 2q+1) | (g+8, ..) | (g, 2q+8) (g, 2q+9) | (g+8, ..)      row, column
//   B  (2q, g) (2q+1, g) | (2q+8, g) (2q+9, g)                              row, column
//   C  (g, 2q)  (g, 2q+1)  (g+8, 2q)  (g+8, 2q+1)                           f32 each
#pragma once

#include "../Frame/Frame.h"

namespace sluice::cuda {

constexpr int64_t fragmentRows = 16, fragmentColumns = 8, fragmentInner = 16;
constexpr int64_t sumsPerFragment = 4;
constexpr int64_t chunkBytes = 16, chunkElements = 8; ///< size of one lane's copy or load, in bf16

/// Emits at the frame's insertion point. Must be constructed at the top of the function, so that
/// the base of shared memory dominates every use.
class TensorCore {
public:
  explicit TensorCore(Frame &frame);

  /// Returns a pointer (address space 3) to byte `byte` (index) + `offset` of dynamic shared
  /// memory, which is aligned to 1024 bytes.
  Value shared(Value byte, int64_t offset = 0);
  /// Returns a pointer (address space 1) to an element of a buffer of the frame.
  Value global(Value memory, mlir::ValueRange indices);
  /// Returns the pointer `bytes` (index) + `offset` after another one.
  Value behind(Value pointer, Value bytes, int64_t offset);

  /// Starts copying `bytes` (4, 8 or 16, with both addresses aligned to it) from global to shared
  /// memory. Only the first `sourceBytes` (index, at most `bytes`) are read, the rest is filled
  /// with zeros; if it is zero, `from` may point anywhere.
  void copy(Value to, Value from, int64_t bytes = chunkBytes, Value sourceBytes = nullptr);
  void commit();              ///< ends a group of this thread's copies
  void wait(int64_t pending); ///< until at most `pending` groups of this thread are in flight
  void barrier();             ///< synchronizes the block

  /// Loads four matrices of 8x8 bf16. Lane l provides the address of row l mod 8 of matrix l / 8
  /// and gets elements (l / 4, 2 (l mod 4)) and the next one of each: four registers (i32).
  /// `transposed` swaps rows and columns.
  Values loadMatrices(Value from, bool transposed);
  /// Computes sums + a * b for one fragment: 4 and 2 registers (i32), 4 sums (f32).
  Values multiply(mlir::ValueRange a, mlir::ValueRange b, mlir::ValueRange sums);
  /// Packs two f32 as bf16 into one register, rounded to nearest even, the first in the low half.
  Value pack(Value low, Value high);
  Values zeros(int64_t count); ///< f32

  /// Returns the byte of chunk `chunk` of line `line` (both index) in a tile of lines of 64 * 2^n
  /// bytes. Swizzling puts the same chunk of eight consecutive lines (from a multiple of eight)
  /// into different banks, and likewise eight consecutive chunks.
  Value swizzled(Value line, Value chunk, int64_t lineBytes);
  static constexpr int64_t swizzlePeriod = 8; ///< lines at this distance swizzle in the same way
  /// Returns the value (index) that is combined by xor with the chunk number in a line; depends on
  /// the line modulo 8 only.
  Value exchange(Value line, int64_t lineBytes);

  /// Loads a value of `type` from a pointer that is aligned to `alignment` bytes.
  Value load(mlir::Type type, Value from, int64_t alignment);
  void store(Value value, Value to, int64_t alignment);

private:
  mlir::ImplicitLocOpBuilder &b;
  Emitter &e;
  Value base;
};

} // namespace sluice::cuda
