// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Follows the losses of a run during training: warns of divergence, and recommends a checkpoint to
// continue from.
#pragma once

#include "sluice/Runtime/Train/Checkpoint.h"
#include "sluice/Runtime/Train/RunLosses.h"
#include "sluice/Support/Error.h"

#include <nlohmann/json.hpp>

#include <optional>
#include <string>

namespace sluice::runtime {

class LossWatch {
public:
  /// `notice` receives the warnings.
  LossWatch(Path run, const Plan &plan, Notice notice);

  /// Continues from the losses of a checkpoint or, if an older version saved it without losses,
  /// from the run's metrics up to its step.
  void restore(const TrainingState &saved);

  /// Adds the head's mean loss of a step. Warns of a change and returns it. Unless the run
  /// `continues`, the error that ends it reports a divergence instead.
  TrendChange addStep(int64_t step, double loss, bool continues);

  /// Adds the mean loss of held-out text, whose hash is `text`. Returns whether it is the best one.
  bool addEvaluation(int64_t step, double nats, const std::string &text);

  /// Returns the losses for a checkpoint whose own loss is `own`.
  RunLosses losses(std::optional<double> own) const;

  bool isDiverged() const { return judge.trend().isDiverged(); }
  const HeldOutTrend &heldOut() const { return heldOutTrend; }

  /// Repeats the warning if the run has diverged.
  void repeatWarning() const;

  /// Returns the error that ends a diverged run, with another remedy if there is one.
  JobError makeDivergedError(int64_t step, const std::string &remedy = "") const;

  /// Returns the error that ends a run with numbers that are not finite after `step` steps. The
  /// checkpoint of this step is not recommended, since a run that continues from it computes the
  /// same numbers.
  JobError makeNotFiniteError(const std::string &what, int64_t step) const;

private:
  std::string describeTrend() const;
  std::string describeRemedy(const std::vector<CheckpointLosses> &checkpoints) const;

  Path run;
  Notice notice;
  bool isJudged; // a loss that is not minimized may change freely
  DivergenceJudge judge;
  HeldOutTrend heldOutTrend;
};

} // namespace sluice::runtime
