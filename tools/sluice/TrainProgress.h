// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The lines and the bar that `sluice train` shows.
#pragma once

#include "Progress.h"
#include "sluice/Runtime/Plan/Plan.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>

namespace sluice::cli {

/// Prints the first step of a call, the last one, each evaluated one, and others when a line is due
/// by time. The remaining time is an estimate over the steps of this call.
class TrainProgress {
public:
  TrainProgress(Progress &progress, const runtime::Plan &plan) : progress(progress), plan(plan) {}

  /// After a step; `steps` is the goal.
  void showStep(const nlohmann::json &metrics, int64_t steps);

  /// Shows progress within the step after `step` finished ones, or within an evaluation or a
  /// sample: `what` is done up to `share`, 0 to 1. `isStep`: steps advance with it.
  void showPart(int64_t step, int64_t steps, const std::string &what, double share, bool isStep);

private:
  Progress &progress;
  const runtime::Plan &plan;
  bool isFirst = true;
};

} // namespace sluice::cli
