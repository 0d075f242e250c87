// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The generator of recurrences.
#pragma once

#include "sluice/Target/CUDA/Kernel.h"

namespace sluice::cuda {

/// Rows that depend on the previous row: a launch for each row of the texts.
mlir::FailureOr<Kernel> generateRecurrence(dispatch::RecurrenceOp op, mlir::ModuleOp module,
                                           llvm::StringRef name);

} // namespace sluice::cuda
