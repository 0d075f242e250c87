// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks causality: proves every mode of a module, or explains a mode that is not proved.
#pragma once

#include "sluice/Conversion/ImportSpec.h"
#include "sluice/Explain/Verdict.h"

namespace sluice {

/// Checks @evaluate and, where there is one, @train. With `replay`, a witness is run on the float64
/// reference where the model is small enough. Takes at most the operations of the current
/// WorkBudget, of one of its own outside of every scope.
CausalVerdict checkCausality(mlir::ModuleOp module, bool replay = true);

/// Checks a model at each factor that steps draw. Returns the verdict of the first factor that is
/// not proved, or one for all factors.
CausalVerdict checkCausality(const std::vector<ImportedVariant> &variants, bool replay = true);

} // namespace sluice
