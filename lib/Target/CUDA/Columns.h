// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Four columns of a row a thread, as f32 whatever the memory holds; and what the generators on
// tensor cores ask of their operands.
#pragma once

#include "Tensor.h"

namespace sluice::cuda {

constexpr int64_t columnsPerThread = 4;

/// vector<4xf32>: the columns from `indices`' last on, a multiple of four. Memory of f32 or bf16;
/// in memory whose rows are not whole fours, columns past the last repeat it.
mlir::Value loadColumns(TensorCore &core, Emitter &e, mlir::Value memory, mlir::ValueRange indices);
/// Stores vector<4xf32> there, rounded to nearest even where memory is bf16. Columns past the last
/// are not written in memory whose rows are not whole fours.
void storeColumns(TensorCore &core, Emitter &e, mlir::Value value, mlir::Value memory,
                  mlir::ValueRange indices);
/// vector<4xf32> of the one number in `memory`.
mlir::Value broadcastColumns(Emitter &e, mlir::Value memory);

/// i1: whether any of `count` rows from `first` (index) on is valid. Blocks of padding do nothing.
mlir::Value anyValid(Frame &frame, dispatch::DomainAttr domain, mlir::Value first, int64_t count);

/// Fails with a diagnostic unless every factor of a product is bf16.
mlir::LogicalResult checkFactors(mlir::Operation *op, mlir::ValueRange factors);
/// Fails with a diagnostic unless every tensor is f32 or bf16.
mlir::LogicalResult checkStorage(mlir::Operation *op, mlir::ValueRange tensors);

} // namespace sluice::cuda
