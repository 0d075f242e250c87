// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "TrainEpochs.h"

#include "Common.h"
#include "Recompile.h"
#include "sluice/Driver/SpecFacts.h"
#include "sluice/Runtime/Train/Epochs.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/Format.h"

#include <algorithm>

namespace sluice::cli {

using namespace sluice::runtime;

namespace {

/// The key of the steps of a schedule's last phase.
std::vector<std::string> getEndKey(const ScheduleFacts &schedule) {
  return schedule.then ? std::vector<std::string>{"training", "schedule", "then", "steps"}
                       : std::vector<std::string>{"training", "schedule", "steps"};
}

/// Returns true if a setting of the call has the value of the key, alone or in an object.
bool isSet(const std::vector<std::string> &written, const std::vector<std::string> &key) {
  return std::ranges::any_of(parseSettings(written), [&](const spec::SpecOverride &setting) {
    return setting.path.size() <= key.size() &&
           std::equal(setting.path.begin(), setting.path.end(), key.begin());
  });
}

/// Returns the setting that lets the schedule end after `steps`; empty if it does, or never ends.
std::string describeEnd(const ScheduleFacts &schedule, int64_t steps, int64_t epochs) {
  if (schedule.kind != "cosine" && !schedule.then) {
    return "";
  }
  int64_t before = schedule.then ? schedule.steps : 0; // steps of the first phase
  int64_t last = schedule.then ? schedule.then->steps : schedule.steps;
  if (steps <= before) {
    throw UserError("--epochs " + std::to_string(epochs) + ": expected more steps than the " +
                    std::to_string(before) + " of the schedule's first phase, found " +
                    std::to_string(steps) +
                    "; train for more epochs, or give --set training.schedule.steps=N, lower");
  }
  if (before + last == steps) {
    return "";
  }
  std::string key;
  for (const std::string &part : getEndKey(schedule)) {
    key += (key.empty() ? "" : ".") + part;
  }
  return key + "=" + std::to_string(steps - before);
}

} // namespace

std::optional<int64_t> chooseEpochs(const TrainingOptions &options,
                                    const std::optional<RunRecord> &told) {
  bool mayChange = told && !options.steps && !options.settings.empty();
  return options.epochs || !mayChange ? options.epochs : told->epochs;
}

std::string countEpochs(TrainingOptions &options, const Plan &plan,
                        const std::vector<spec::SpecOverride> &settings, int64_t epochs,
                        const std::optional<RunRecord> &told) {
  Plan changed = plan;
  std::optional<ScheduleFacts> schedule;
  if (plan.facts) { // else the artifact has model IR, which takes no settings
    checkSettings(plan, settings);
    driver::SpecDescription spec = *driver::describeSpecText(plan.model.spec, settings);
    changed.accumulate = spec.accumulate;
    changed.cyclic = spec.isCyclic;
    changed.batchTokens = spec.batchTokens;
    changed.shapes = spec.shapes;
    schedule = spec.facts.schedule;
  }
  constexpr int64_t manyEpochs = 1000;
  if (changed.batchTokens > 0 && epochs > manyEpochs) {
    printNotice("counting the batches by length of " + describeCount(epochs, "epoch") +
                ", whose numbers differ");
  }
  EpochSteps counted = countSteps(options, changed, epochs);
  options.epochs = epochs;
  options.steps = counted.steps;
  if (counted.isOver) {
    printNotice("--epochs " + std::to_string(epochs) + ": the run has passed " +
                describeCount(epochs, "epoch") + " of " + describeCount(counted.rows, "row") +
                ": it is after step " + std::to_string(counted.steps));
    return "";
  }
  std::string sizeOfStep = " of " + describeCount(counted.rowsOfUpdate, "row");
  if (counted.rowsOfUpdate == 0) {
    sizeOfStep = changed.accumulate == 1
                     ? " of a batch by length"
                     : " of " + std::to_string(changed.accumulate) + " batches by length";
  }
  printNotice(describeCount(epochs, "epoch") + " of " + describeCount(counted.rows, "row") +
              (epochs == 1 ? " is " : " are ") + describeCount(counted.steps, "step") + sizeOfStep);
  bool isUnchanged = told && told->steps == counted.steps;
  if (!schedule || isUnchanged || isSet(options.settings, getEndKey(*schedule))) {
    return "";
  }
  return describeEnd(*schedule, counted.steps, epochs);
}

} // namespace sluice::cli
