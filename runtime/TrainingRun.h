// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One call of `train`. Trainer.cpp has the loop, StartTraining.cpp what happens before the first
// step, and MeasureTraining.cpp evaluations, samples and checkpoints.
#pragma once

#include "LossWatch.h"
#include "RunData.h"
#include "sluice/Runtime/Trainer.h"

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
  /// Returns the steps of this call, else those that the run has, else the spec's.
  int64_t chooseGoal() const;
  /// Returns the seed of this call, else the run's, else the spec's.
  int64_t seed() const { return options.seed.value_or(told ? told->seed : plan.model.seed); }
  /// Fills in what this call was given.
  void describe(RunRecord &into) const;
  /// Writes the run's record, and the spec that it trains from now on.
  void writeRecord() const;
  /// Adds settings of this call to the record.
  void noteSettings(const std::vector<std::string> &settings);
  /// Reports what a user should know before the first step.
  void sayNotes() const;
  void clearKilledRun() const;
  /// Takes weights to start from, if any: of this call, or of an earlier call that was killed
  /// before it saved anything.
  void takeWeights();
  void begin();
  void resume();
  /// Throws UserError where this call trains by another spec, with another seed or on other data
  /// than the run did at its checkpoint `saved`.
  void requireSameRun(const TrainingState &saved) const;
  /// Removes lines of metrics and samples after the checkpoint, and moves damaged ones away.
  void removeLaterLines() const;
  /// Moves what came after the checkpoint that this call goes back to out of the way, and writes
  /// the record.
  void goBack() const;
  /// Returns whether the executor's spec is what the run trains, settings of this call put in.
  bool isSpecOf(const RunRecord &run) const;

  // Trainer.cpp
  TrainingEnd loop();
  /// Runs a step and what follows it: evaluation, sample, metrics, checkpoint.
  void advance();
  /// Runs a step. Where its data changed meanwhile, the steps before it are saved.
  Json tryStep();
  /// Runs one step of the optimizer. The position moves only here, after the tensors did.
  Json step();
  void measureSpeed(Json &metrics);
  bool isOutOfPatience() const;
  /// Names the best step on the held-out text, where that is not the last one.
  void sayBest() const;

  // MeasureTraining.cpp
  /// Evaluates, where `evaluates`, and writes a sample where one is asked for. Returns whether the
  /// held-out loss is the best one so far. A signal ends it; the line of metrics, with what was
  /// measured by then, records what is to be done yet.
  bool evaluateAfterStep(Json &metrics, bool evaluates);
  /// Returns whether the held-out loss is the best one so far.
  bool evaluateInto(Json &metrics);
  void writeSample();
  /// Writes the line of metrics of the last step, which may be there already.
  void replaceLastLine(const Json &metrics) const;
  /// Looks whether the evaluation or the sample after the last step was interrupted.
  void findUnfinished();
  /// Does what was interrupted after the last step.
  void finishEvaluation();
  /// Saves a checkpoint only where it is finite and gives a finite loss. The one before stays until
  /// a step with the new one was finite too: the run always keeps one to continue from.
  void save();
  void writeCheckpoint();
  /// Computes the head's mean loss on the last update's batches, once more, with the weights that
  /// it left; on the first of them where a signal waits. None where the artifact cannot evaluate.
  /// Ends the run where a loss is not finite.
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
  const std::vector<int64_t> factors = plan.sortedFactors(); // each step draws one
  std::optional<RunRecord> told;                             // before, where a run is resumed
  int64_t goal;
  std::unique_ptr<TrainingSource> data; // null: no step needs it
  RunData files;
  HeldOut heldOut;
  std::string heldOutHash; // once it was evaluated
  LossWatch watch;
  RunRecord record;
  std::optional<RunCommand> command; // of this call
  std::optional<Json> unfinished;    // line of the last step, whose evaluation was interrupted
  TrainingState state;
  DataPosition lastBatch; // the first of the last step's
  bool unproven = false;  // no step was made with the newest checkpoint
  Clock::time_point lastLog;
  int64_t tokensSinceLog = 0;
};

} // namespace sluice::runtime
