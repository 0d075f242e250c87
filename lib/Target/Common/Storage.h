// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Numbers as memory holds them. Kernels compute in f32; a bf16 tensor's memory is one of i16, which
// is what no backend has an opinion on: x86's own bf16 instructions read numbers below the normal
// ones as zeros. A bf16 is the upper half of an f32, so reading is a shift and writing a rounding
// of the lower half: a handful of integer operations on vectors that every x86-64-v3 has.
#pragma once

#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace sluice::target {

/// Element type of the memory of a tensor of `element`: i16 for bf16, else itself.
mlir::Type memoryTypeOf(mlir::Type element);
/// Whether `memory` (a memref) is that of a bf16 tensor.
bool isHalfMemory(mlir::Value memory);

/// bf16 bits (i16, or a vector of them) to f32.
mlir::Value emitExtend(mlir::ImplicitLocOpBuilder &b, mlir::Value bits);
/// f32 to the nearest bf16, ties to even; infinite beyond the largest; NaN stays NaN, made quiet.
mlir::Value emitRound(mlir::ImplicitLocOpBuilder &b, mlir::Value number);

/// `lanes` elements from `at` on: vectors of f32 where memory is f32 or bf16, else of memory's
/// type. Where `mask` (of i1) is given, elements that it leaves out read as zeros, untouched.
mlir::Value loadVector(mlir::ImplicitLocOpBuilder &b, int64_t lanes, mlir::Value memory,
                       mlir::ValueRange at, mlir::Value mask = {});
/// Stores a vector, rounded where memory is bf16; only elements that `mask` names, where given.
void storeVector(mlir::ImplicitLocOpBuilder &b, mlir::Value vector, mlir::Value memory,
                 mlir::ValueRange at, mlir::Value mask = {});
/// One element; f32 where memory is f32 or bf16.
mlir::Value loadElement(mlir::ImplicitLocOpBuilder &b, mlir::Value memory, mlir::ValueRange at);
void storeElement(mlir::ImplicitLocOpBuilder &b, mlir::Value number, mlir::Value memory,
                  mlir::ValueRange at);

} // namespace sluice::target
