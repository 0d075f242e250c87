// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Derives the incremental step from the bounds of the proof.
#pragma once

#include "sluice/Proof/Frontier.h"
#include "sluice/Proof/StepPlan.h"
#include "sluice/Support/WorkBudget.h"

namespace sluice {

/// A value that has no step, and the reason.
struct StepRefusal {
  mlir::Operation *op = nullptr;
  std::string message;
};

/// Derives the step from the bounds of `function`. Sets `refusal` if there is no step, or if the
/// search exceeds `operations`. Every claim of the plan is an obligation (Proof/StepProof.h) that
/// is not yet decided.
std::optional<StepPlan> deriveStep(mlir::func::FuncOp function, StepRefusal &refusal,
                                   int64_t operations = WorkBudget::defaultOperations);
/// Derives the step for a certificate, before such a step is compiled. Takes at most the operations
/// of the current WorkBudget, or of a new budget if there is none.
std::optional<StepPlan> proveStep(mlir::func::FuncOp function, StepRefusal &refusal);

} // namespace sluice
