// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Formats messages about a leak.
#pragma once

#include "sluice/Explain/LeakSearch.h"
#include "sluice/Explain/Verdict.h"

namespace sluice {

/// Describes the leak: "of 4 tokens, row 2, which predicts token 3, reads token 3".
std::string describe(const FoundLeak &leak);
/// Describes the positions of boundaries, by segmentation in the order of the function.
std::string describe(const Boundaries &boundaries);
/// Returns the steps from the token to the row. Steps of one stage that keep their position are
/// merged with the step that changes it.
std::vector<CausalStep> getSteps(FoundLeak &leak);

} // namespace sluice
