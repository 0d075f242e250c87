// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Measures a run after its steps: evaluations and samples.
#pragma once

#include "TrainingContext.h"

namespace sluice::runtime {

/// Evaluates if `evaluates`, and writes a sample if one is requested. Returns whether the held-out
/// loss is the best one so far. If a signal ends it, the line of metrics has the results so far,
/// and names the unfinished parts.
bool evaluateAfterStep(TrainingContext &context, nlohmann::json &metrics, bool evaluates);

/// Checks for an interrupted evaluation or sample after the last step.
void findUnfinished(TrainingContext &context);

/// Completes the interrupted parts after the last step.
void finishEvaluation(TrainingContext &context);

} // namespace sluice::runtime
