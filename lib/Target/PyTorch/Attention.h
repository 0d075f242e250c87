// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "MethodBody.h"

namespace sluice::pytorch {

/// Prints attention. Returns false for any other op.
bool printAttention(MethodBody &body, mlir::Operation *op);

} // namespace sluice::pytorch
