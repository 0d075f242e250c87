// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Trainer.h"

#include "Interruption.h"
#include "LossWatch.h"
#include "RunData.h"
#include "RunFolder.h"
#include "TrainingFacts.h"
#include "sluice/Runtime/Error.h"
#include "sluice/Runtime/Evaluator.h"
#include "sluice/Runtime/Format.h"
#include "sluice/Runtime/Generator.h"
#include "sluice/Runtime/Hash.h"
#include "sluice/Runtime/Inspect.h"
#include "sluice/Runtime/Metrics.h"
#include "sluice/Runtime/RollBack.h"
#include "sluice/Runtime/StartingWeights.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <span>

namespace sluice::runtime {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

/// One run: what the loop needs at hand.
class Trainer {
public:
  Trainer(Executor &executor, const TrainingOptions &options, const TrainingObserver &observer)
      : executor(executor), options(options), observer(observer), plan(executor.plan()),
        told(options.resume ? readRunRecordAt(options.run, options.from) : std::nullopt),
        goal(chooseGoal()), files(options.run, options.resume),
        heldOut(files.openHeldOut(options.heldOut, plan, told)),
        watch(options.run, plan, [this](const std::string &text) { say(text); }) {
    if (options.patience && !heldOut.isThere()) {
      throw UserError("--patience: expected held-out text to evaluate, found none; give "
                      "--eval-data FILE, or leave --patience out");
    }
    if (goal > 0 || !options.data.data.empty()) {
      data = files.openTraining(options.data, plan, static_cast<uint64_t>(seed()));
    }
    if (!options.samplePrompt.empty()) {
      checkContinues(executor, options.samplePrompt);
      refuseInputs(plan, "--sample-prompt");
    }
    state.seed = seed();
    state.dataHash = data ? data->hash() : "";
    state.specHash = sha256Hex(plan.model.spec);
    if (options.command) {
      command = options.command;
      files.nameCopies(*command);
      measureFiles(*command, options.run, told ? told->command : std::nullopt);
    }
    describe(record);
  }

  TrainingEnd run() {
    if (!checkRunFolder(options.run, options.resume, plan.model.spec) && options.from) {
      throw UserError(options.run.string() + ": expected a run with the checkpoint of step " +
                      std::to_string(*options.from) +
                      ", found none to resume; leave --from out, or name another run");
    }
    if (observer.begins) {
      observer.begins();
    }
    bool isNew = !isThere(options.run);
    makeFolder(options.run);
    RunLock lock(options.run);
    bool goesOn = checkRunFolder(options.run, options.resume,
                                 plan.model.spec); // again: another process may have begun and
                                                   // ended a run here before the lock was ours
    removeUnfinishedSaves(options.run);
    if (goesOn) {
      resume();
      return loop();
    }
    try {
      clearKilledRun();
      begin();
    } catch (...) {
      forgetRun(options.run, isNew);
      throw;
    }
    TrainingEnd end = loop();
    if (state.step == 0 && goal > 0) { // interrupted at once
      forgetRun(options.run, isNew);
    }
    return end;
  }

private:
  /// As asked for; else as the run was told before; else the spec's.
  int64_t chooseGoal() const {
    if (options.steps) {
      return *options.steps;
    }
    int64_t steps = told && told->steps > 0 ? told->steps : plan.trainingSteps;
    if (steps < 1) {
      throw UserError(
          "expected a number of steps in the artifact or the flags, found none; give --steps N");
    }
    return steps;
  }

  /// What this call says of the run.
  void describe(RunRecord &into) const {
    into.steps = goal;
    into.seed = seed();
    into.command = command ? command : into.command;
    into.data = data ? listFiles(data->usedFiles(), data->skippedFiles()) : std::vector<DataFile>();
    if (heldOut.isThere()) { // else those of the run that is resumed
      into.heldOut = listFiles(heldOut.usedFiles(), heldOut.skippedFiles());
    }
  }

  /// Writes down what the run was told, and the spec that it trains from now on.
  void writeRecord() const {
    files.saveStreams();
    writeRunRecord(options.run, record);
    replaceFile(options.run / "spec.json", asBytes(plan.model.spec));
  }

  /// Whether the run was given the settings last: a script may give the same ones at each resume.
  static bool areTold(const std::vector<std::string> &settings,
                      const std::vector<std::string> &told) {
    return settings.size() <= told.size() &&
           std::equal(settings.rbegin(), settings.rend(), told.rbegin());
  }

  void noteSettings(const std::vector<std::string> &settings) {
    if (settings.empty()) {
      return;
    }
    record.changes.push_back({state.step, settings, state.specHash});
    say("from step " + std::to_string(state.step + 1) + " on: " + listSettings(settings));
  }

  static std::string listSettings(std::span<const std::string> settings) {
    std::string list;
    for (const std::string &setting : settings) {
      list += (list.empty() ? "" : ", ") + setting;
    }
    return list;
  }

  /// What a user should know before the first step.
  void sayNotes() const {
    for (const std::string &note : files.notes()) {
      say(note);
    }
    for (const std::string &note :
         listNotes(options, data.get(), heldOut, plan, state.step, goal)) {
      say(note);
    }
  }

  /// As given; else the run's; else the spec's.
  int64_t seed() const { return options.seed.value_or(told ? told->seed : plan.model.seed); }
  void say(const std::string &text) const {
    if (observer.message) {
      observer.message(text);
    }
  }

  void clearKilledRun() const {
    if (!listFolder(options.run).empty()) {
      say("the training into " + options.run.string() +
          " ended before its first checkpoint: it begins anew");
    } else if (options.resume) {
      say(options.run.string() + ": no run to resume yet: it begins");
    }
    forgetRun(options.run, false);
  }

  /// Weights to start from, if any: of this call, or told before to a run that was killed before it
  /// saved anything.
  void takeWeights() {
    Path weights = options.weights;
    std::vector<std::string> match = options.match;
    if (weights.empty() && told && told->weights) {
      weights = told->weights->file;
      match = told->weights->left.empty() ? match : told->weights->taken;
    }
    if (!weights.empty()) {
      record.weights =
          startFromWeights(weights, match, executor, observer.message, options.weightNames);
      say(describeStart(*record.weights));
    }
    requireFrozen(record.weights ? record.weights->taken : std::vector<std::string>(), plan);
  }

  void begin() {
    executor.scalarI64("seed") = state.seed;
    executor.run("initialize");
    takeWeights();
    record.specHash = options.artifactSpecHash.empty() ? state.specHash : options.artifactSpecHash;
    std::vector<std::string> settings = told ? told->settings() : std::vector<std::string>();
    if (!areTold(options.settings, settings)) {
      settings.insert(settings.end(), options.settings.begin(), options.settings.end());
    }
    noteSettings(settings); // those told before: to a run that was killed before it saved anything
    writeRecord();
    sayNotes();
    if (goal == 0) {
      save();
      say("wrote the initial weights as the checkpoint of step 0");
    }
    replaceFile(options.run / "costs.json",
                asBytes(describeArtifact(executor.artifact()).dump(2) + "\n"));
  }

  void resume() {
    if (adoptNewestCheckpoint(options.run)) {
      say("the file \"latest\" is missing: the run goes on from its newest checkpoint");
    }
    // First what tells an artifact of another spec from damage, then the tensors.
    TrainingState saved = readTrainingState(options.run, options.from);
    auto demand = [&](bool same, const std::string &what, const std::string &remedy,
                      const std::string &found = "another") {
      if (!same) {
        throw UserError(options.run.string() + ": expected the same " + what +
                        " as when the run began, found " + found + "; " + remedy);
      }
    };
    record = told.value_or(RunRecord());
    record.specHash =
        told ? told->specHash : saved.specHash; // none was told to runs of old versions
    demand(record.knows(saved.specHash) && isSpecOf(record), "spec",
           "compile the run's spec.json, or begin a new run; settings of \"training\" may be "
           "changed with --set");
    demand(saved.seed == state.seed, "seed", "give --seed " + std::to_string(saved.seed));
    bool hadData = !saved.dataHash.empty(); // a run of 0 steps needs none
    bool isSameData = !hadData || saved.dataHash == state.dataHash;
    demand(!data || (isSameData && saved.position.index < data->rowsPerEpoch()), "training data",
           "give the same files of " + nameDataFlags(options.data) +
               " in the same order, or begin a run on other data from this run's weights: sluice "
               "train ART --data FILE --weights " +
               quoteForShell(options.run.string()) + " --out NEW",
           describeOtherTrainingData(told ? told->command : std::nullopt, command, options.run,
                                     saved.dataHash, state.dataHash));
    TrainingState now = state;
    state = loadCheckpoint(options.run, executor, options.from);
    watch.restore(state);
    goBack();
    state.specHash = now.specHash;
    state.dataHash = hadData ? state.dataHash : now.dataHash;
    for (const char *file : {"metrics.jsonl", "samples.jsonl"}) {
      if (int64_t damaged = keepLinesUpTo(options.run / file, state.step)) {
        say(std::to_string(damaged) + (damaged == 1 ? " damaged line of " : " damaged lines of ") +
            file + (damaged == 1 ? " was moved to " : " were moved to ") + file + ".damaged");
      }
    }
    executor.scalarI64("seed") = state.seed;
    say("resumed after step " + std::to_string(state.step));
    findUnfinished();
    if (state.step >= goal && !unfinished) {
      say("nothing to do: the run is to make " + std::to_string(goal) +
          (goal == 1 ? " step" : " steps") + " in all and has made " + std::to_string(state.step) +
          "; give more --steps to go on");
      if (options.from) {
        writeRecord();
      }
      return;
    }
    describe(record);
    if (!areTold(options.settings, record.settings())) {
      noteSettings(options.settings);
    }
    writeRecord();
    sayNotes();
    if (!heldOut.isThere() && !record.heldOut.empty()) {
      say("note: without --eval-data the run's held-out text is not evaluated from here on");
    }
    if (options.stopOnDivergence && watch.isDiverged()) {
      throw watch.makeDivergedError(state.step);
    }
    watch.repeatWarning();
  }

  /// Moves what came after the checkpoint that this call goes back to out of the way.
  void goBack() const {
    if (!options.from) {
      return;
    }
    if (Path abandoned = rollBack(options.run, *options.from); !abandoned.empty()) {
      say("what came after step " + std::to_string(*options.from) + " moved to " +
          abandoned.string());
    }
    std::optional<RunRecord> before = readRunRecord(options.run); // this call has not written yet
    std::vector<std::string> settings = before ? before->settings() : std::vector<std::string>();
    if (size_t kept = record.settings().size(); settings.size() > kept) {
      say("settings that no longer hold: " + listSettings(std::span(settings).subspan(kept)));
    }
  }

  /// Whether the executor's spec is what the run trains, settings of this call put in.
  bool isSpecOf(const RunRecord &run) const {
    const std::string &artifact =
        options.artifactSpecHash.empty() ? state.specHash : options.artifactSpecHash;
    bool isOurs = artifact == run.specHash || artifact == run.currentSpec();
    return isOurs && (!options.settings.empty() || state.specHash == run.currentSpec());
  }

  bool isInterrupted() const { return observer.interrupted && observer.interrupted(); }
  void endIfInterrupted() const {
    if (isInterrupted()) {
      throw Interrupted();
    }
  }
  void showPart(const std::string &what, double share, bool isStep) const {
    if (observer.part) {
      observer.part(state.step, goal, what, share, isStep);
    }
  }

  TrainingEnd loop() {
    lastLog = Clock::now();
    try {
      finishEvaluation();
      while (state.step < goal && !isOutOfPatience()) {
        endIfInterrupted();
        advance();
      }
    } catch (const Interrupted &) {
      save();
      say(state.step == 0
              ? "interrupted before the first step: nothing was saved"
              : "interrupted: saved a checkpoint after step " + std::to_string(state.step));
      watch.repeatWarning();
      return TrainingEnd::interrupted;
    }
    pruneCheckpoints(options.run, options.keep);
    sayBest();
    watch.repeatWarning();
    return TrainingEnd::finished;
  }

  bool isOutOfPatience() const {
    return options.patience && watch.heldOut().worse >= *options.patience &&
           watch.heldOut().text ==
               hashHeldOut(heldOut, options.evaluateTokens); // losses of other text do not count
  }

  /// Which step was the best on the held-out text, where that is not the last one.
  void sayBest() const {
    const std::optional<MeasuredLoss> &best = watch.heldOut().best;
    if (!heldOut.isThere() || !best || best->step == state.step) {
      return;
    }
    std::string text = isOutOfPatience() && state.step < goal
                           ? describeImpatience(state.step, goal, watch.heldOut().worse)
                           : "";
    text += describeBest(*best);
    Path folder = options.run / "checkpoints" / std::to_string(best->step);
    say(text + (isThere(folder) ? "; " + folder.string() + " has its weights" : ""));
  }

  /// A step and what follows it: evaluation, sample, metrics, checkpoint.
  void advance() {
    Json metrics = tryStep();
    bool last = state.step == goal, isBest = false;
    watch.addStep(state.step, metrics["loss"], /*continues=*/!last && !options.stopOnDivergence);
    bool stops = options.stopOnDivergence && watch.isDiverged();
    bool evaluated = heldOut.isThere() && (last || state.step % options.evaluateEvery == 0);
    bool logged = evaluated || last || stops || state.step == 1 || metrics.contains("set") ||
                  state.step % options.logEvery == 0;
    if (logged) {
      measureSpeed(metrics);
    }
    if (watch.isDiverged()) {
      metrics["diverged"] = true;
    }
    if (evaluated || last) {
      isBest = evaluateAfterStep(metrics, evaluated);
    }
    if (logged) {
      appendLine(options.run / "metrics.jsonl", metrics);
    }
    if (observer.step) {
      observer.step(metrics, goal);
    }
    if (last || stops || (evaluated && isOutOfPatience()) || (isBest && options.keepBest) ||
        state.step % options.saveEvery == 0) {
      save();
    }
    if (stops) {
      throw watch.makeDivergedError(state.step);
    }
    if (evaluated) {
      lastLog = Clock::now(); // the clock of tokens_per_s counts training alone
    }
  }

  /// Evaluates, where `evaluates`, and writes a sample where one is asked for. Returns whether the
  /// held-out loss is the best one so far. A signal ends it; the line of metrics, with what was
  /// measured by then, says what is to be done yet.
  bool evaluateAfterStep(Json &metrics, bool evaluates) {
    bool isBest = false;
    const char *doing = evaluationPart;
    try {
      if (evaluates) {
        Json complete = metrics;
        isBest = evaluateInto(complete);
        metrics = std::move(complete);
      }
      doing = samplePart;
      if (!options.samplePrompt.empty()) {
        writeSample();
      }
    } catch (const RoomError &) { // in a text that is not trained on: no step is lost
      save();
      throw;
    } catch (const DataError &) { // likewise
      save();
      throw;
    } catch (const Interrupted &) {
      metrics[interruptedKey] = doing;
      replaceLastLine(metrics);
      throw;
    }
    return isBest;
  }

  /// Writes the line of metrics of the last step, which may be there already.
  void replaceLastLine(const Json &metrics) const {
    if (unfinished) {
      keepLinesUpTo(options.run / "metrics.jsonl", state.step - 1);
    }
    appendLine(options.run / "metrics.jsonl", metrics);
  }

  /// Looks whether the evaluation or the sample after the last step was interrupted.
  void findUnfinished() {
    std::vector<Json> lines = readLines(options.run / "metrics.jsonl");
    bool isUnfinished = !lines.empty() && lines.back()["step"] == state.step &&
                        lines.back().contains(interruptedKey);
    if (isUnfinished && (heldOut.isThere() || !options.samplePrompt.empty())) {
      unfinished = lines.back();
    }
  }

  /// Does what was interrupted after the last step.
  void finishEvaluation() {
    if (!unfinished) {
      return;
    }
    endIfInterrupted();
    Json metrics = *unfinished;
    bool evaluates = metrics[interruptedKey] == evaluationPart && heldOut.isThere();
    metrics.erase(interruptedKey);
    evaluateAfterStep(metrics, evaluates);
    replaceLastLine(metrics);
    unfinished.reset();
    if (observer.step) {
      observer.step(metrics, goal);
    }
    if (evaluates) { // the checkpoint's record of losses lacks this one
      state.losses = watch.losses(state.losses ? state.losses->own : std::nullopt);
      Saving saving(observer);
      writeCheckpoint();
    }
    lastLog = Clock::now();
  }

  /// A step; where its data changed meanwhile, what the steps before it made is saved.
  Json tryStep() {
    try {
      return step();
    } catch (const DataError &) {
      save();
      if (state.step > 0) {
        say("saved a checkpoint after step " + std::to_string(state.step));
      }
      throw;
    }
  }

  /// One step of the optimizer. The position moves only here, after the tensors did.
  Json step() {
    int64_t number = state.step + 1;
    if (!factors.empty()) {
      executor.chooseFactor(drawFactor(factors, state.seed, number));
    }
    DataPosition next = state.position;
    executor.runUpdate(number, [&](int64_t batch) {
      if (batch > 0) {
        endIfInterrupted();
        showPart("of the batches",
                 static_cast<double>(batch) / static_cast<double>(plan.accumulate),
                 /*isStep=*/true);
      }
      next = data->fill(batch == 0 ? state.position : next, plan.model.batch, executor.inputs());
    });
    double objective = executor.scalarF32("loss"), norm = executor.scalarF32("grad_norm");
    if (executor.scalarI32("finite") != 1) {
      auto describe = [](double value) { // the sign of a nan says nothing
        return std::isnan(value) ? "nan" : format("%.4g", value);
      };
      stopNotFinite("at step " + std::to_string(number) + ": the loss is " + describe(objective) +
                    ", the gradient's norm " + describe(norm) + ", expected finite numbers");
    }
    if (unproven) {
      pruneCheckpoints(options.run, options.keep);
      unproven = false;
    }
    lastBatch = state.position;
    state.step = number;
    state.position = next;
    tokensSinceLog += plan.tokensOfUpdate();
    Json metrics = describeStep(executor, number, objective, norm);
    for (const SpecChange &change : record.changes) {
      if (change.step + 1 == number) {
        for (const std::string &setting : change.settings) {
          metrics["set"].push_back(setting);
        }
      }
    }
    if (plan.verdict != "proved") {
      metrics["leak_allowed"] = true;
    }
    return metrics;
  }

  [[noreturn]] void stopNotFinite(const std::string &what) const {
    throw watch.makeNotFiniteError(what, state.step);
  }

  void measureSpeed(Json &metrics) {
    auto now = Clock::now();
    double seconds = std::chrono::duration<double>(now - lastLog).count();
    metrics["tokens_per_s"] = static_cast<double>(tokensSinceLog) / std::max(seconds, 1e-9);
    lastLog = now;
    tokensSinceLog = 0;
  }

  /// Returns whether the held-out loss is the best one so far.
  bool evaluateInto(Json &metrics) {
    EvaluationOptions evaluation;
    evaluation.mostTokens = options.evaluateTokens;
    EvaluationResult result;
    try {
      result = heldOut.scoreEach(
          executor, evaluation,
          [&](int64_t factor, double bits) {
            metrics["eval_factors"][std::to_string(factor)] = bits;
          },
          [&](double share) {
            endIfInterrupted();
            showPart("evaluated", share, /*isStep=*/false);
          });
    } catch (const NotFiniteError &) {
      stopNotFinite("after step " + std::to_string(state.step) +
                    ": the losses of the held-out text are not finite");
    }
    addEvaluation(metrics, result, plan);
    if (heldOutHash.empty()) {
      heldOutHash = hashHeldOut(heldOut, options.evaluateTokens);
    }
    return watch.addEvaluation(state.step, metrics["eval_loss"], heldOutHash);
  }

  void writeSample() {
    executor.chooseFactor({});
    Json sample = drawSample(executor, options, state, [this] { return isInterrupted(); });
    endIfInterrupted();
    appendLine(options.run / "samples.jsonl", sample);
  }

  /// A checkpoint is saved only where it is finite and gives a finite loss. The one before stays
  /// until a step with the new one was finite too: the run always keeps one to go on from.
  void save() {
    if ((state.step == 0 && goal > 0) || latestStep(options.run) == state.step) {
      return;
    }
    Saving saving(observer);
    state.losses = watch.losses(measureOwnLoss());
    writeCheckpoint();
  }

  void writeCheckpoint() {
    try {
      saveCheckpoint(options.run, executor, state, std::max<int64_t>(options.keep, 2));
      unproven = true;
    } catch (const NotFiniteError &error) {
      stopNotFinite("after step " + std::to_string(state.step) + ": " + error.what());
    }
  }

  /// The head's mean loss on the last update's batches, once more, with the weights that it left;
  /// on the first of them where a signal waits. None where the artifact cannot evaluate. Ends the
  /// run where a loss is not finite.
  std::optional<double> measureOwnLoss() {
    if (state.step == 0 || !plan.entries.contains("evaluate")) {
      return std::nullopt;
    }
    executor.scalarI64("length") = plan.model.context;
    executor.scalarI64("rows") = plan.model.batch;
    DataPosition next = lastBatch;
    double sum = 0;
    int64_t batches = 0;
    for (int64_t i = 0; i < plan.accumulate && (i == 0 || !isInterrupted()); ++i) {
      try {
        next = data->fill(next, plan.model.batch, executor.inputs());
        executor.run("evaluate");
      } catch (const RoomError &) { // a predictor's bits are other ones in evaluation
        continue;
      } catch (const DataError &) { // the file has changed: the steps were made all the same
        return std::nullopt;
      }
      if (float loss = executor.scalarF32("loss"); !std::isfinite(loss)) {
        stopNotFinite("after step " + std::to_string(state.step) +
                      ": with its weights the loss is " + std::to_string(loss) +
                      ", expected a finite number");
      }
      sum += readHeadLoss(executor);
      ++batches;
    }
    return batches > 0 ? std::optional(sum / static_cast<double>(batches)) : std::nullopt;
  }

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

} // namespace

TrainingEnd train(Executor &executor, const TrainingOptions &options,
                  const TrainingObserver &observer) {
  checkOptions(options);
  return Trainer(executor, options, observer).run();
}

} // namespace sluice::runtime
