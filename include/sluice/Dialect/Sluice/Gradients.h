// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Gradients of parameters that several stages read.
#pragma once

#include "sluice/Dialect/Sluice/Sluice.h"

#define GET_OP_CLASSES
#include "sluice/Dialect/Sluice/GradientsOps.h.inc"

namespace sluice {

/// Returns the gradient of a parameter with the contribution of another stage; `sum` is null before
/// the first contribution.
mlir::Value addGradient(mlir::OpBuilder &b, mlir::Value sum, mlir::Value contribution);

} // namespace sluice
