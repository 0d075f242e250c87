// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Four columns of a row per thread, as f32 regardless of the type in memory; and the operand checks
// of the tensor-core generators.
#pragma once

#include "TensorCore.h"

namespace sluice::cuda {

constexpr int64_t columnsPerThread = 4;

/// Loads vector<4xf32>: columns from the last index, which is a multiple of four. Memory is f32 or
/// bf16. If rows are not a multiple of four wide, columns past the last repeat it.
mlir::Value loadColumns(TensorCore &core, Emitter &e, mlir::Value memory, mlir::ValueRange indices);
/// Stores vector<4xf32> there, rounded to nearest even if memory is bf16. If rows are not a
/// multiple of four wide, columns past the last are not written.
void storeColumns(TensorCore &core, Emitter &e, mlir::Value value, mlir::Value memory,
                  mlir::ValueRange indices);
/// Broadcasts the only element of `memory` to vector<4xf32>.
mlir::Value broadcastColumns(Emitter &e, mlir::Value memory);

/// Returns i1: one of `count` rows from `first` (index) is valid. Blocks of padding rows exit
/// early.
mlir::Value anyValid(Frame &frame, dispatch::DomainAttr domain, mlir::Value first, int64_t count);

/// Fails with a diagnostic unless every factor of a product is bf16.
mlir::LogicalResult checkFactors(mlir::Operation *op, mlir::ValueRange factors);
/// Fails with a diagnostic unless every tensor is f32 or bf16.
mlir::LogicalResult checkStorage(mlir::Operation *op, mlir::ValueRange tensors);

} // namespace sluice::cuda
