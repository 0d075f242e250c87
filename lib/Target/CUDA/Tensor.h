// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What kernels on tensor cores are written in: shared memory that the launch sizes, asynchronous
// copies into it, matrices from it to registers, and products.
//
// Thread t of a warp, with g = t / 4 and q = t mod 4, holds of a product 16x8 = 16x16 * 16x8 (PTX
// ISA, mma.m16n8k16), two bf16 a register, the first in the low half:
//   A  (g, 2q) (g, 2q+1) | (g+8, ..) | (g, 2q+8) (g, 2q+9) | (g+8, ..)      row, column
//   B  (2q, g) (2q+1, g) | (2q+8, g) (2q+9, g)                              row, column
//   C  (g, 2q)  (g, 2q+1)  (g+8, 2q)  (g+8, 2q+1)                           f32 each
#pragma once

#include "Frame.h"

namespace sluice::cuda {

constexpr int64_t fragmentRows = 16, fragmentColumns = 8, fragmentInner = 16;
constexpr int64_t sumsPerFragment = 4;
constexpr int64_t chunkBytes = 16, chunkElements = 8; ///< of bf16: what one lane copies or loads

/// Emits at the frame's insertion point. Construct it at the top of the function: the base of
/// shared memory must reach every use.
class TensorCore {
public:
  using Value = mlir::Value;

  explicit TensorCore(Frame &frame);

  /// Pointer (address space 3) to byte `byte` (index) + `offset` of the memory that the launch
  /// sizes. It starts at a multiple of 1024.
  Value shared(Value byte, int64_t offset = 0);
  /// Pointer (address space 1) to an element of a buffer of the frame.
  Value global(Value memory, mlir::ValueRange indices);
  /// The pointer `bytes` (index) + `offset` behind another.
  Value behind(Value pointer, Value bytes, int64_t offset);

  /// Starts copying `bytes` (4, 8 or 16; both places are multiples of it) from global to shared
  /// memory. Only the first `sourceBytes` (index, at most `bytes`) are read, the rest becomes zero;
  /// where it is zero `from` may point anywhere.
  void copy(Value to, Value from, int64_t bytes = chunkBytes, Value sourceBytes = nullptr);
  void commit();              ///< ends a group of this thread's copies
  void wait(int64_t pending); ///< until at most that many groups of this thread are under way
  void barrier();             ///< of the block

  /// Four matrices of 8x8 bf16. Lane l gives the address of row l mod 8 of matrix l / 8 and gets
  /// its elements (l / 4, 2 (l mod 4)) and the next of each: four registers (i32). `transposed`
  /// swaps rows and columns on the way.
  Values loadMatrices(Value from, bool transposed);
  /// sums + a * b of one fragment: 4 and 2 registers (i32), 4 sums (f32).
  Values multiply(mlir::ValueRange a, mlir::ValueRange b, mlir::ValueRange sums);
  /// Two f32 as bf16 in one register, to nearest even, the first in the low half.
  Value pack(Value low, Value high);
  Values zeros(int64_t count); ///< f32

  /// Byte of chunk `chunk` of line `line` (both index) in a tile of lines of 64 * 2^n bytes. Chunks
  /// are exchanged so that the same chunk of eight lines that follow one another, from a multiple
  /// of eight on, lies in different banks, and so do eight chunks that follow one another.
  Value swizzled(Value line, Value chunk, int64_t lineBytes);
  static constexpr int64_t swizzlePeriod = 8; ///< lines so far apart exchange alike
  /// By which of a line's first chunks are exchanged (index, to be combined by xor): depends on
  /// the line modulo 8 alone.
  Value exchange(Value line, int64_t lineBytes);

  /// A value of `type` at a pointer that is a multiple of `alignment` bytes.
  Value load(mlir::Type type, Value from, int64_t alignment);
  void store(Value value, Value to, int64_t alignment);

private:
  mlir::ImplicitLocOpBuilder &b;
  Emitter &e;
  Value base;
};

} // namespace sluice::cuda
