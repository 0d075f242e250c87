// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Schedules of the step from bounds of the proof.
#pragma once

#include "sluice/Proof/Frontier.h"
#include "sluice/Proof/StepPlan.h"

namespace sluice {

/// Returns the schedule of a bound; none if the bound cannot be inverted.
std::optional<StepSchedule> findSchedule(const Frontier &bound);

} // namespace sluice
