// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "LossWatch.h"

#include "sluice/Runtime/Train/Metrics.h"
#include "sluice/Runtime/Train/RunCommand.h"
#include "sluice/Support/Format.h"
#include "sluice/Support/Shell.h"

#include <cmath>

namespace sluice::runtime {

LossWatch::LossWatch(Path run, const Plan &plan, Notice notice)
    : run(std::move(run)), notice(std::move(notice)),
      isJudged(plan.losses.empty() || plan.losses.front().factor != 0),
      judge(plan.model.vocabulary) {}

void LossWatch::restore(const TrainingState &saved) {
  if (saved.losses) {
    judge = DivergenceJudge(saved.losses->trend);
    heldOutTrend = saved.losses->heldOut;
    return;
  }
  for (const nlohmann::json &line : readLines(run / "metrics.jsonl")) {
    if (line["step"] <= saved.step && line.contains("loss") && line["loss"].is_number()) {
      judge.add(line["step"], line["loss"]);
    }
  }
}

TrendChange LossWatch::addStep(int64_t step, double loss, bool continues) {
  TrendChange change = isJudged ? judge.add(step, loss) : TrendChange::None;
  if (change == TrendChange::Diverged && continues) {
    notice("warning: " + describeTrend() + ". Training continues (--stop-on-divergence ends it); " +
           describeRemedy(readCheckpointLosses(run)));
  } else if (change == TrendChange::Recovered) {
    notice(format("the run has recovered: the moving average of the loss, %.4g after step %lld, is "
                  "near the run's best again",
                  judge.trend().average, static_cast<long long>(step)));
  }
  return change;
}

bool LossWatch::addEvaluation(int64_t step, double nats, const std::string &text) {
  if (heldOutTrend.text != text) { // losses on other text are not comparable
    heldOutTrend = {.last = {}, .best = {}, .worse = 0, .text = text};
  }
  heldOutTrend.last = {step, nats};
  if (!heldOutTrend.best || nats < heldOutTrend.best->nats) {
    heldOutTrend.best = heldOutTrend.last;
    heldOutTrend.worse = 0;
    return true;
  }
  ++heldOutTrend.worse;
  return false;
}

RunLosses LossWatch::losses(std::optional<double> own) const {
  return {judge.trend(), own, heldOutTrend};
}

std::string LossWatch::describeTrend() const {
  const LossTrend &trend = judge.trend();
  return format("the training has diverged since step %lld: the moving average of the loss, %.4g "
                "(a single loss counts as %.4g at most), is more than ln V = %.4g above the run's "
                "best, %.4g at step %lld",
                static_cast<long long>(trend.since), trend.average, trend.best + 3 * trend.margin,
                trend.margin, trend.best, static_cast<long long>(trend.bestStep));
}

std::string LossWatch::describeRemedy(const std::vector<CheckpointLosses> &checkpoints) const {
  const CheckpointLosses *sound = chooseSound(checkpoints);
  if (!sound) {
    std::string found = latestStep(run) < 0   ? "no checkpoint was saved"
                        : checkpoints.empty() ? "no other checkpoint is left"
                                              : "no checkpoint is good: the last one is that of " +
                                                    describeCheckpoint(checkpoints.back());
    return found + "; train again with --set training.learning_rate=RATE, lower, or with a longer "
                   "training.schedule.warmup";
  }
  bool isLatest = sound->step == latestStep(run);
  return "the checkpoint to continue from is that of " + describeCheckpoint(*sound) +
         "; continue with a lower rate: " + describeResume(run) + " " +
         (isLatest ? "" : "--from " + std::to_string(sound->step) + " ") +
         "--set training.learning_rate=RATE, or begin a new run from it: sluice train ... "
         "--weights " +
         quoteForShell((run / "checkpoints" / std::to_string(sound->step)).string()) + " --out NEW";
}

void LossWatch::repeatWarning() const {
  if (isDiverged()) {
    notice("warning: " + describeTrend() + "; " + describeRemedy(readCheckpointLosses(run)));
  }
}

JobError LossWatch::makeDivergedError(int64_t step, const std::string &remedy) const {
  return JobError("training stopped after step " + std::to_string(step) + ": " + describeTrend() +
                  "; " + describeRemedy(readCheckpointLosses(run)) +
                  (remedy.empty() ? "" : "; " + remedy));
}

JobError LossWatch::makeNotFiniteError(const std::string &what, int64_t step) const {
  std::vector<CheckpointLosses> checkpoints = readCheckpointLosses(run);
  std::string unproven;
  if (!checkpoints.empty() && checkpoints.back().step >= step) {
    unproven = "the latest checkpoint, that of step " + std::to_string(checkpoints.back().step) +
               ", has the weights that led here; ";
    checkpoints.pop_back();
  }
  return JobError("training stopped " + what + "; " + unproven + describeRemedy(checkpoints));
}

} // namespace sluice::runtime
