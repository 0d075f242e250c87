// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Messages about --memory-budget.
#pragma once

#include "sluice/Target/Artifact.h"

namespace sluice::driver {

/// Describes a budget that cannot be met, with the smallest one that can.
std::string explainBudget(const Recomputation &made, int64_t budgetBytes);

/// Describes the cost of a budget that is met; operations are compared with the training step that
/// `module` had before, whose kernels `kernels` holds.
std::string describeRecomputation(const Recomputation &made, mlir::ModuleOp module,
                                  const KernelSet &kernels);

} // namespace sluice::driver
