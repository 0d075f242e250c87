// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds advice about a model that is proved causal.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "sluice/Explain/Verdict.h"
#include "sluice/Support/WorkBudget.h"

namespace sluice {

struct ParsedSpec;

/// Inputs and limits of a search for advice.
struct AdviceRequest {
  /// The spec from which the module was imported, at its factor: each advised edit is applied to a
  /// copy, which is expanded and proved. Null for model IR, where edits apply to the module.
  const ParsedSpec *spec = nullptr;
  /// Maximum number of operations; a note names the searches that this limit cut short.
  int64_t operations = WorkBudget::defaultOperations;
};

/// Adds warnings about blind spots, shifts larger than the minimum causal one and unused stages,
/// and notes such as a bounded context, to a verdict. The module must be proved causal. Every
/// advised edit gives a model that is proved causal as a whole.
void findAdvice(mlir::ModuleOp module, CausalVerdict &verdict, const AdviceRequest &request = {});

} // namespace sluice
