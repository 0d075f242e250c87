// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Generates CPU kernels from dispatch ops.
#pragma once

#include "sluice/Target/CPU/Kernel.h"

namespace sluice::cpu {

/// Generates the kernel of any dispatch op, by its family. Appends one function called `name` to
/// `module`, or fails with a diagnostic on the op.
mlir::FailureOr<Kernel> generateKernel(mlir::Operation *op, mlir::ModuleOp module,
                                       llvm::StringRef name, const Target &target);

} // namespace sluice::cpu
