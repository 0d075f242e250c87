// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Training: the loop around the compiled entries, and the run's folder.
#pragma once

#include "sluice/Runtime/Checkpoint.h"
#include "sluice/Runtime/Executor.h"
#include "sluice/Runtime/RunRecord.h"
#include "sluice/Runtime/Sources.h"

#include <nlohmann/json.hpp>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace sluice::runtime {

/// Where a schedule stops falling.
struct ScheduleEnd {
  int64_t step = 0;
  double rate = 0;                             // from there on
  std::string key = "training.schedule.steps"; // of the last phase
  int64_t before = 0;                          // steps of earlier phases
};

struct TrainingOptions {
  Path run;
  SourceFiles data, heldOut; // of data none is needed for 0 steps
  /// In all, from the run's first step; 0: the initial weights are saved and nothing is trained.
  /// None: as many as the run was told before, or else the spec's.
  std::optional<int64_t> steps;
  bool resume = false;
  /// With `resume`: the step of the checkpoint to go back to; what came later moves to
  /// RUN/abandoned. None: the latest.
  std::optional<int64_t> from;
  Path weights; // to start from instead of an initialization: a run, a checkpoint or a file
  std::optional<int64_t> weightsStep; // of the run that `weights` names; none: its latest
  std::vector<std::string> match;     // globs: only the tensors that one of them names; none: all
  WeightNames weightNames;            // of the file of `weights`
  /// Settings (KEY=VALUE) that the executor's spec has beyond what the run was told before, and the
  /// SHA-256 of the spec in the artifact that all settings were put into; empty: the executor's.
  std::vector<std::string> settings;
  std::string artifactSpecHash;
  std::optional<ScheduleEnd> scheduleEnd; // of a schedule that ends
  std::optional<int64_t> seed;            // none: the spec's
  int64_t logEvery = 1;                   // steps
  int64_t evaluateEvery = 250;            // steps, where there is held-out data
  int64_t evaluateTokens = 65536;         // of the held-out data, each time; 0: all
  int64_t saveEvery = 500;                // steps
  int64_t keep = 3;                       // checkpoints
  bool keepBest = true; // a checkpoint is saved at each evaluation that is the best so far
  int64_t patience = 0; // evaluations without a better one that end the run; 0: none do
  bool stopOnDivergence = false;
  /// What this call was given, for the run's record; none leaves that as it is.
  std::optional<RunCommand> command;
  std::string
      samplePrompt; // a sample is written at each evaluation and at the end where this is given
  int64_t sampleTokens = 200;
};

/// What the loop tells its caller. Any may be empty.
struct TrainingObserver {
  std::function<void(const nlohmann::json &metrics, int64_t steps)>
      step; // after each step; `steps` is the goal
  /// Inside a step of several batches, an evaluation or a sample: `what` is done up to `share`, 0
  /// to 1, after `step` finished steps. `isStep`: of the next step.
  std::function<void(int64_t step, int64_t steps, const std::string &what, double share,
                     bool isStep)>
      part;
  std::function<void(const std::string &)> message;
  /// Data are read, and the first file of the run is about to be written: from here on an
  /// interruption is to be noted.
  std::function<void()> begins;
  /// Asked between steps, and between the batches of a step, an evaluation and a sample.
  std::function<bool()> interrupted;
  /// Called with true before a checkpoint is saved, and with false after it.
  std::function<void(bool)> saving;
};

enum class TrainingEnd { finished, interrupted };

/// Trains until `steps`, the end of the patience or an interruption, each of which saves a
/// checkpoint. Throws UserError on bad input, before anything is written where that can be;
/// JobError when loss or gradient are no longer finite: the checkpoints then stay as they are; and
/// JobError, after a checkpoint, when the loss has diverged and `stopOnDivergence` is set.
TrainingEnd train(Executor &executor, const TrainingOptions &options,
                  const TrainingObserver &observer);

} // namespace sluice::runtime
