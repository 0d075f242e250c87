// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The generator of recurrences.
#pragma once

#include "sluice/Target/CPU/Kernel.h"

namespace sluice::cpu {

/// Rows that depend on the previous row. A phase computes one row of each text of the batch; each
/// weight is read once per phase, for all texts.
mlir::FailureOr<Kernel> generateRecurrence(dispatch::RecurrenceOp op, mlir::ModuleOp module,
                                           llvm::StringRef name, const Target &target);

} // namespace sluice::cpu
