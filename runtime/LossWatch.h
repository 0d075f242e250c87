// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Follows the losses of a run while it trains: warns of divergence, and knows which checkpoint to
// continue from.
#pragma once

#include "sluice/Runtime/Checkpoint.h"
#include "sluice/Runtime/Error.h"
#include "sluice/Runtime/RunLosses.h"

#include <nlohmann/json.hpp>

#include <optional>
#include <string>

namespace sluice::runtime {

class LossWatch {
public:
  /// `notice` gets the warnings.
  LossWatch(Path run, const Plan &plan, Notice notice);

  /// Continues from the losses of a checkpoint. Where it has none (an older version saved it), from
  /// the losses of the run's metrics up to its step.
  void restore(const TrainingState &saved);

  /// Judges a step's mean loss of the head. Returns what it changed, after a warning of it; where
  /// the run ends at a divergence, what ends it says so.
  TrendChange addStep(int64_t step, double loss, bool continues);

  /// Adds the mean loss of held-out text, whose hash is `text`. Returns whether it is the best one.
  bool addEvaluation(int64_t step, double nats, const std::string &text);

  /// The losses for a checkpoint whose own loss is `own`.
  RunLosses losses(std::optional<double> own) const;

  bool isDiverged() const { return judge.trend().isDiverged(); }
  const HeldOutTrend &heldOut() const { return heldOutTrend; }

  /// Says once more that the run has diverged, where it has.
  void repeatWarning() const;

  /// The end of a run that has diverged.
  JobError makeDivergedError(int64_t step) const;

  /// The end of a run with numbers that are not finite after `step` steps. A checkpoint of that
  /// step is not recommended: a run that continues from it computes the same numbers.
  JobError makeNotFiniteError(const std::string &what, int64_t step) const;

private:
  std::string describeTrend() const;
  std::string describeRemedy(const std::vector<CheckpointLosses> &checkpoints) const;

  Path run;
  Notice notice;
  bool isJudged; // a head whose loss is not minimized may move freely
  DivergenceJudge judge;
  HeldOutTrend heldOutTrend;
};

} // namespace sluice::runtime
