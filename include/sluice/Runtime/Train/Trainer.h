// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Trains a model with the compiled entries, and maintains the run's folder.
#pragma once

#include "sluice/Runtime/Execute/Executor.h"
#include "sluice/Runtime/Execute/HeldOut.h"
#include "sluice/Runtime/Processes/ProcessGroup.h"
#include "sluice/Runtime/Train/Checkpoint.h"
#include "sluice/Runtime/Train/RunRecord.h"

#include <nlohmann/json.hpp>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace sluice::runtime {

/// The end of the decay of a learning rate schedule.
struct ScheduleEnd {
  int64_t step = 0;
  double rate = 0;                             // from this step on
  std::string key = "training.schedule.steps"; // key of the last phase
  int64_t before = 0;                          // number of steps in earlier phases
};

struct OpenedData;

struct TrainingOptions {
  Path run;
  /// The processes that train together. Rank 0 alone evaluates and writes the run's files; the
  /// others read them. Null: one process.
  ProcessGroup *group = nullptr;
  /// Each process of the group stores the optimizer's state of its own part of the weights alone.
  bool shardsOptimizer = false;
  std::string version; ///< of the program; processes of a group need the same
  /// The run's spec, if the executor's has smaller batches; empty: the executor's.
  std::string spec;
  SourceFiles data, heldOut; // `data` may be empty for 0 steps
  /// Total number of steps, counted from the start of the run; 0: only the initial weights are
  /// saved. Empty: the number that the run was given before, or else the number in the spec.
  std::optional<int64_t> steps;
  /// The epochs that `steps` was counted from, for the run's record.
  std::optional<int64_t> epochs;
  /// The training data, if `countSteps` opened them; `train` takes them over.
  std::shared_ptr<OpenedData> opened;
  bool resume = false;
  /// With `resume`: step of the checkpoint to return to; later results move to RUN/abandoned.
  /// Empty: the latest checkpoint.
  std::optional<int64_t> from;
  Path weights; // initial weights: a run, a checkpoint or a file; empty: initialized
  std::optional<int64_t> weightsStep; // checkpoint of the run `weights`; empty: the latest
  std::vector<std::string> match;     // globs of tensors to load; empty: all
  WeightNames weightNames;            // tensor names in the file `weights`
  /// Settings (KEY=VALUE) of the executor's spec that the run did not have before, and the SHA-256
  /// of the artifact's spec without any settings; if the hash is empty, the executor's spec has
  /// none.
  std::vector<std::string> settings;
  std::string artifactSpecHash;
  std::optional<ScheduleEnd> scheduleEnd; // set if the schedule ends
  std::optional<int64_t> seed;            // empty: the seed of the spec
  int64_t logEvery = 1;                   // in steps
  int64_t evaluateEvery = 250;            // in steps; requires held-out data
  int64_t evaluateTokens = 65536;         // held-out tokens per evaluation; 0: all
  int64_t saveEvery = 500;                // in steps
  int64_t keep = 3;                       // number of checkpoints
  bool keepBest = true; // saves a checkpoint at each evaluation that is the best so far
  /// Number of evaluations without improvement after which the run ends; 0: unlimited.
  int64_t patience = 0;
  bool stopOnDivergence = false;
  /// The command line, for the run's record; if it is empty, the record is not changed.
  std::optional<RunCommand> command;
  /// Prompt of the sample at each evaluation and at the end; empty: no samples.
  std::string samplePrompt;
  int64_t sampleTokens = 200;
};

/// Callbacks of the training loop. Each may be empty.
struct TrainingObserver {
  /// Called after each step; `steps` is the final step.
  std::function<void(const nlohmann::json &metrics, int64_t steps)> step;
  /// Reports progress within a step of several batches, an evaluation or a sample: the completed
  /// share of `what`, 0 to 1, after `step` finished steps. `isStep`: `what` is part of the next
  /// step.
  std::function<void(int64_t step, int64_t steps, const std::string &what, double share,
                     bool isStep)>
      part;
  std::function<void(const std::string &)> message;
  /// Called after the data were read and before the first file of the run is written. From here on,
  /// interruptions must be reported through `interrupted`.
  std::function<void()> begins;
  /// Polled between steps, and between the batches of a step, of an evaluation and of a sample.
  std::function<bool()> interrupted;
  /// Called with true before a checkpoint is saved, and with false afterwards.
  std::function<void(bool)> saving;
};

enum class TrainingEnd { finished, interrupted };

/// Trains until `steps`, until the patience ends or until an interruption; each of them saves a
/// checkpoint. Throws UserError for bad input, before anything is written if possible. Throws
/// JobError when the loss or the gradient is not finite, and then leaves the checkpoints unchanged;
/// and JobError, after saving a checkpoint, when the loss has diverged and `stopOnDivergence` is
/// set.
TrainingEnd train(Executor &executor, const TrainingOptions &options,
                  const TrainingObserver &observer);

} // namespace sluice::runtime
