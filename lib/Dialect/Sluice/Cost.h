// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Costs of ops.
#pragma once

#include "sluice/Dialect/Sluice/Sluice.h"

namespace sluice::facts {

/// Returns the elements of a sequence at capacity, or of a tensor.
double elements(mlir::Operation *op, mlir::Value value);
/// Returns the cost of `op`, which loads its operands and stores its results; `saved` are the
/// inputs of its backward op.
Cost cost(mlir::Operation *op, double flops, mlir::ValueRange saved = {});

} // namespace sluice::facts
