// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks causality: proves every mode of a module, or explains a mode that is not proved.
#pragma once

#include "sluice/Conversion/ImportSpec.h"
#include "sluice/Explain/Verdict.h"

namespace sluice {

/// Checks @evaluate and, if it exists, @train. With `replay`, runs a witness on the float64
/// reference if the model is small enough. Takes at most the operations of the current WorkBudget,
/// or of a new budget if there is none.
CausalVerdict checkCausality(mlir::ModuleOp module, bool replay = true);

/// Checks a model at each factor that steps draw. Returns the first verdict that is not a proof, or
/// one verdict for all factors.
CausalVerdict checkCausality(const std::vector<ImportedVariant> &variants, bool replay = true);

} // namespace sluice
