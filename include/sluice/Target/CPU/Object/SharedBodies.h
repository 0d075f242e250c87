// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Merges kernels whose code differs only in index constants.
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace sluice::cpu {

/// Gives kernels that differ only in index constants and in the number of rows of their buffers one
/// common body: a private function that takes the differing constants as additional arguments. Each
/// kernel then passes its constants to the body. Kernels keep their names and results. Returns the
/// number of bodies that were removed.
int64_t shareBodies(mlir::ModuleOp module);

} // namespace sluice::cpu
