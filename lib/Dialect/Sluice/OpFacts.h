// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What several ops need to say a fact about themselves.
#pragma once

#include "sluice/Dialect/Sluice/Sluice.h"

namespace sluice::facts {

/// The coarse scale's factor must be `factor` times the fine one's, and columns must fit: with
/// `wholeColumns`, a coarse row holds the columns of `factor` fine ones.
mlir::LogicalResult verifyScales(mlir::Operation *op, SequenceType fine, SequenceType coarse,
                                 int64_t factor, bool wholeColumns);

/// Elements of a sequence at capacity, or of a tensor.
double elements(mlir::Operation *op, mlir::Value value);
/// Everything that `op` takes and gives; `saved` is what its backward reads.
Cost cost(mlir::Operation *op, double flops, mlir::ValueRange saved = {});

} // namespace sluice::facts
