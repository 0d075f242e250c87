// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels whose code differs in index constants alone.
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace sluice::cpu {

/// Gives kernels that differ in index constants and in the numbers of rows of their buffers one
/// body, a private function that has the constants which differ as further arguments. Each kernel
/// then loads its constants and calls the body. Returns the number of bodies that became
/// unnecessary. Kernels keep their names, and compute what they computed.
int64_t shareBodies(mlir::ModuleOp module);

} // namespace sluice::cpu
