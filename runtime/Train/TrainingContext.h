// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The state that all parts of one call of `train` share.
#pragma once

#include "LossWatch.h"
#include "RunData.h"
#include "sluice/Runtime/Train/Trainer.h"

namespace sluice::runtime {

/// Trainer.h has the loop over the steps. StartTraining.h prepares the first step,
/// MeasureTraining.h evaluates, and SaveTraining.h saves checkpoints.
struct TrainingContext {
  /// Opens the data of the call. Throws UserError for bad input.
  TrainingContext(Executor &executor, const TrainingOptions &options,
                  const TrainingObserver &observer);

  /// Returns the seed of this call, or else of the run, or else of the spec.
  int64_t seed() const { return options.seed.value_or(told ? told->seed : plan.model.seed); }
  /// Sets the parameters of this call in the record.
  void describeRecord();
  /// Throws UserError if text is given where the training data are token ids, or the reverse.
  void requireSameKind() const;

  struct FilledBatch {
    DataPosition next;  // position of the next batch
    int64_t tokens = 0; // predicted tokens; of a batch of texts, with padding
  };
  /// Checks for the process that writes the run's files.
  bool isFirst() const { return !options.group || options.group->isFirst(); }
  /// Checks for several processes that still wait for one another.
  bool isShared() const { return options.group && !options.group->isOver(); }
  /// Prepares updates that several processes share, before the first, so that a lack of memory ends
  /// all processes at their next agreement. If the optimizer's state is to be sharded, leaves other
  /// processes' parts to them. All processes have complete states before the call.
  void shareUpdates();
  /// Waits until all processes are here.
  void meet() const {
    if (options.group) {
      options.group->agree();
    }
  }
  /// Returns the run's spec.
  const std::string &spec() const { return options.spec.empty() ? plan.model.spec : options.spec; }
  /// Writes the batch at a position to the inputs.
  FilledBatch fillBatch(DataPosition position) const;

  void say(const std::string &text) const {
    if (observer.message) {
      observer.message(text);
    }
  }
  void showPart(const std::string &what, double share, bool isStep) const {
    if (observer.part) {
      observer.part(state.step, goal, what, share, isStep);
    }
  }
  bool isInterrupted() const { return observer.interrupted && observer.interrupted(); }
  /// Throws Interrupted after a signal.
  void endIfInterrupted() const;
  [[noreturn]] void stopNotFinite(const std::string &what) const {
    throw watch.makeNotFiniteError(what, state.step);
  }

  Executor &executor;
  const TrainingOptions &options;
  const TrainingObserver &observer;
  const Plan &plan;
  std::optional<RunRecord> told; // record before this call, if a run is resumed
  int64_t goal;
  std::shared_ptr<OpenedData> opened;   // data that were opened before; empty: none
  std::unique_ptr<TrainingSource> data; // null if no step needs data
  RunData files;
  HeldOut heldOut;
  std::string heldOutHash;  // set by the first evaluation
  bool saidNoChunk = false; // an evaluation of this call had no loss
  LossWatch watch;
  RunRecord record;
  std::optional<RunCommand> command; // of this call
  // Line of the last step, if its evaluation was interrupted.
  std::optional<nlohmann::json> unfinished;
  TrainingState state;
  DataPosition lastBatch;         // position of the first batch of the last step
  SharedUpdate *shards = nullptr; // null unless the optimizer's state is sharded
  bool unproven = false;          // no step has started from the newest checkpoint yet
};

} // namespace sluice::runtime
