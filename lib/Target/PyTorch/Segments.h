// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "MethodBody.h"

namespace sluice::pytorch {

/// Prints an op of segments, of edges or of recurrences. Returns false for any other op.
bool printSegments(MethodBody &body, mlir::Operation *op);

} // namespace sluice::pytorch
