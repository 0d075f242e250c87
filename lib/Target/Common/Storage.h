// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Conversions between memory and compute types. Kernels compute in f32. The memory of a bf16 tensor
// has type i16, so that no backend interprets it: x86's bf16 instructions flush subnormal numbers
// to zero. A bf16 is the upper half of an f32, so a load is a shift, and a store rounds the lower
// half away: a few integer vector operations that every x86-64-v3 has. Memory of i8 has the whole
// numbers of quantized weights, which are exact in f32.
#pragma once

#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace sluice::target {

/// Returns the element type of memory for a tensor of `element`: i16 for bf16, else `element`.
mlir::Type getMemoryType(mlir::Type element);
/// Returns the type of a bare pointer to the arena or to arguments, which needs a static shape; the
/// bound is never reached.
mlir::MemRefType getPointerType(mlir::Type element);
/// Returns the type of the memory of operand or result `i` of a dispatch (operands first), with the
/// element type of the tensor. Rank 3 [B, T, d] is memref<B*T x paddedWidth(d)>; ranks 2 and 1 are
/// unchanged; rank 0 is memref<1>.
mlir::MemRefType getBufferType(mlir::Operation *dispatch, unsigned i);
/// Returns true if `memory` (a memref) belongs to a bf16 tensor.
bool isHalfMemory(mlir::Value memory);

/// Extends bf16 bits (i16, or a vector of them) to f32.
mlir::Value emitExtend(mlir::ImplicitLocOpBuilder &b, mlir::Value bits);
/// Rounds f32 to the nearest bf16, ties to even. Overflow gives infinity; NaN becomes a quiet NaN.
mlir::Value emitRound(mlir::ImplicitLocOpBuilder &b, mlir::Value number);
/// Extends i8 (or a vector of it) to f32.
mlir::Value emitWhole(mlir::ImplicitLocOpBuilder &b, mlir::Value number);
/// Rounds f32 to the nearest i8 of [-127, 127], ties to even. NaN gives some number.
mlir::Value emitRoundToWhole(mlir::ImplicitLocOpBuilder &b, mlir::Value number);
/// Rounds f32 in [-2^22, 2^22] to the nearest whole number, ties to even, and returns its low bits
/// as an integer of `bits` bits. Other numbers give any integer.
mlir::Value emitRoundToInteger(mlir::ImplicitLocOpBuilder &b, mlir::Value number, unsigned bits);

/// Loads `lanes` elements from `at`: vectors of f32 if memory is f32, bf16 or i8, else of the type
/// of memory. Elements outside `mask` (of i1), if given, are zeros and not accessed.
mlir::Value loadVector(mlir::ImplicitLocOpBuilder &b, int64_t lanes, mlir::Value memory,
                       mlir::ValueRange at, mlir::Value mask = {});
/// Loads the bits of `count` elements of bf16 memory, as i16.
mlir::Value loadBits(mlir::ImplicitLocOpBuilder &b, int64_t count, mlir::Value memory,
                     mlir::ValueRange at, mlir::Value mask = {});
/// Stores a vector, rounded if memory is bf16 or i8; only the elements in `mask`, if given.
void storeVector(mlir::ImplicitLocOpBuilder &b, mlir::Value vector, mlir::Value memory,
                 mlir::ValueRange at, mlir::Value mask = {});
/// Loads one element; f32 if memory is f32, bf16 or i8.
mlir::Value loadElement(mlir::ImplicitLocOpBuilder &b, mlir::Value memory, mlir::ValueRange at);
void storeElement(mlir::ImplicitLocOpBuilder &b, mlir::Value number, mlir::Value memory,
                  mlir::ValueRange at);

} // namespace sluice::target
