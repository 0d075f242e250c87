// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Modes that are not proved, as CausalFlow.cpp finds them, and their explanation.
#pragma once

#include "sluice/Explain/LeakSearch.h"
#include "sluice/Explain/Verdict.h"
#include "sluice/Proof/ProveModel.h"

namespace sluice {

/// Searches a mode that `violation` refuses for a leak, and sets the verdict's kind, place, message
/// and witness.
void explain(mlir::func::FuncOp function, const BoundViolation &violation, bool replay,
             CausalVerdict &verdict);

/// The end of messages about an exhausted budget.
inline constexpr const char *simplifyHint =
    "give factors and shifts common divisors and masks small constants, or allow more with "
    "--operations";

/// "of 4 tokens, row 2, which predicts token 3, reads token 3"
std::string describe(const FoundLeak &leak);
/// " where boundaries stand at 0 and 2, those of the next segmentation at 1": in the order of the
/// function.
std::string describe(const Boundaries &boundaries);
/// Steps from the token to the row. Steps of one stage that stay at their position are one with the
/// step that does not.
std::vector<CausalStep> getSteps(FoundLeak &leak);

/// Refuses where one head is trained against another token than it is evaluated against.
bool trainsWhatIsEvaluated(mlir::ModuleOp module, CausalVerdict &verdict);
/// Proves generation by the proof of @evaluate; refuses where it samples anything else.
bool provesGeneration(mlir::ModuleOp module, CausalVerdict &verdict);

} // namespace sluice
