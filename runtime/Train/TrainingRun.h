// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One call of `train`. Trainer.cpp has the loop, StartTraining.cpp the preparation of the first
// step, and MeasureTraining.cpp evaluations, samples and checkpoints.
#pragma once

#include "LossWatch.h"
#include "RunData.h"
#include "sluice/Runtime/Train/Trainer.h"

#include <chrono>

namespace sluice::runtime {

class TrainingRun {
public:
  TrainingRun(Executor &executor, const TrainingOptions &options, const TrainingObserver &observer);

  TrainingEnd run();

private:
  using Json = nlohmann::json;
  using Clock = std::chrono::steady_clock;

  // StartTraining.cpp
  /// Returns the number of steps of this call, or else of the run, or else of the spec.
  int64_t chooseGoal() const;
  /// Returns the seed of this call, or else of the run, or else of the spec.
  int64_t seed() const { return options.seed.value_or(told ? told->seed : plan.model.seed); }
  /// Sets the parameters of this call in a record.
  void describe(RunRecord &into) const;
  /// Writes the run's record, and the spec that it uses from now on.
  void writeRecord() const;
  /// Adds settings of this call to the record.
  void noteSettings(const std::vector<std::string> &settings);
  /// Reports remarks for the user before the first step.
  void sayNotes() const;
  void clearKilledRun() const;
  /// Loads initial weights, if any: of this call, or of an earlier call that was killed before its
  /// first checkpoint.
  void takeWeights();
  void begin();
  void resume();
  /// Throws UserError if this call has another spec, another seed or other data than the run had at
  /// its checkpoint `saved`.
  void requireSameRun(const TrainingState &saved) const;
  /// Removes lines of metrics and samples after the checkpoint, and moves damaged ones away.
  void removeLaterLines() const;
  /// Moves results after the checkpoint that this call returns to into RUN/abandoned, and writes
  /// the record.
  void goBack() const;
  /// Checks that the executor's spec is the run's spec with the settings of this call.
  bool isSpecFor(const RunRecord &run) const;

  // Trainer.cpp
  TrainingEnd loop();
  /// Runs a step, and then its evaluation, sample, metrics and checkpoint.
  void advance();
  /// Runs a step. If its data has changed, saves a checkpoint of the previous steps.
  Json tryStep();
  /// Runs one step of the optimizer. The position advances only here, after the tensors were
  /// updated.
  Json step();
  void measureSpeed(Json &metrics);
  bool isOutOfPatience() const;
  /// Reports the best step on the held-out text, unless it is the last one.
  void sayBest() const;

  // MeasureTraining.cpp
  /// Evaluates if `evaluates`, and writes a sample if one is requested. Returns whether the
  /// held-out loss is the best one so far. If a signal ends it, the line of metrics has the results
  /// so far, and names the unfinished parts.
  bool evaluateAfterStep(Json &metrics, bool evaluates);
  /// Returns whether the held-out loss is the best one so far.
  bool evaluateInto(Json &metrics);
  void writeSample();
  /// Writes the line of metrics of the last step; replaces an existing line.
  void replaceLastLine(const Json &metrics) const;
  /// Checks for an interrupted evaluation or sample after the last step.
  void findUnfinished();
  /// Completes the interrupted parts after the last step.
  void finishEvaluation();
  /// Saves a checkpoint only if its weights and its loss are finite. The previous checkpoint stays
  /// until a step from the new one was finite too, so that the run always has a checkpoint to
  /// continue from.
  void save();
  void writeCheckpoint();
  /// Recomputes the head's mean loss on the batches of the last update with the updated weights;
  /// only on the first batch if a signal is pending. Empty if the artifact cannot evaluate. Ends
  /// the run if a loss is not finite.
  std::optional<double> measureOwnLoss();
  [[noreturn]] void stopNotFinite(const std::string &what) const {
    throw watch.makeNotFiniteError(what, state.step);
  }

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
  void endIfInterrupted() const;

  Executor &executor;
  const TrainingOptions &options;
  const TrainingObserver &observer;
  const Plan &plan;
  const std::vector<int64_t> factors = plan.sortedFactors(); // each step draws one of them
  // Record before this call, if a run is resumed.
  std::optional<RunRecord> told;
  int64_t goal;
  std::unique_ptr<TrainingSource> data; // null if no step needs data
  RunData files;
  HeldOut heldOut;
  std::string heldOutHash; // set by the first evaluation
  LossWatch watch;
  RunRecord record;
  std::optional<RunCommand> command; // of this call
  std::optional<Json> unfinished;    // line of the last step, if its evaluation was interrupted
  TrainingState state;
  DataPosition lastBatch; // position of the first batch of the last step
  bool unproven = false;  // no step has started from the newest checkpoint yet
  Clock::time_point lastLog;
  int64_t tokensSinceLog = 0;
};

} // namespace sluice::runtime
