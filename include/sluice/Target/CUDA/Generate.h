// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Generates CUDA kernels from dispatch ops: contractions use mma.sync, row ops use a team of
// threads per row. The CPU target takes the same ops.
#pragma once

#include "sluice/Target/CUDA/Kernel.h"

namespace sluice::cuda {

/// Generates the kernel of a dispatch op of any family. Appends its functions to `module`; they are
/// called `name`, plus a suffix if there are several stages. Fails with a diagnostic on the op.
mlir::FailureOr<Kernel> generateKernel(mlir::Operation *op, mlir::ModuleOp module,
                                       llvm::StringRef name);

} // namespace sluice::cuda
