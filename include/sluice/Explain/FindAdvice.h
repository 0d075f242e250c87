// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Advice about a model that is proved causal.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "sluice/Explain/Verdict.h"
#include "sluice/Proof/WorkBudget.h"

namespace sluice {

struct ParsedSpec;

/// What advice may use.
struct AdviceRequest {
  /// The spec that the module was imported from, at its factor: what is advised is then done to it,
  /// expanded and proved again. Without it (model IR), what can be done to the module itself is.
  const ParsedSpec *spec = nullptr;
  /// What is not looked at within so many is named in a note.
  int64_t operations = WorkBudget::defaultOperations;
};

/// Blind spots, shifts larger than the least causal one, stages that reach no loss, and facts that
/// are no defects (a bounded context). The module must be proved causal. What is advised leaves a
/// model that is proved causal as a whole.
void findAdvice(mlir::ModuleOp module, CausalVerdict &verdict, const AdviceRequest &request = {});

} // namespace sluice
