// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Measured times of launches by stage of the spec.
#pragma once

#include "sluice/Runtime/Execute/Executor.h"

#include <nlohmann/json.hpp>

namespace sluice::cli {

/// Checks that the launches of the plan name their stages. Throws UserError.
void requireStages(const runtime::Plan &plan);

/// Returns the measured times of each stage, in the order of execution, in milliseconds per step,
/// then the times of the launches without a stage. A launch that computes ops of several stages
/// counts as time of the first, and as shared time of the others.
nlohmann::json computeStageTimes(const runtime::Executor &executor, int64_t steps);

} // namespace sluice::cli
