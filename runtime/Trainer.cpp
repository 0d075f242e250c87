// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Trainer.h"

#include "LossWatch.h"
#include "RunFolder.h"
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
#include <numbers>

namespace sluice::runtime {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

void checkOptions(const TrainingOptions &options) {
  auto atLeast = [](const char *name, int64_t value, int64_t least) {
    if (value < least) {
      throw UserError(std::string("expected ") + name + " of at least " + std::to_string(least) +
                      ", found " + std::to_string(value));
    }
  };
  atLeast("a number of steps", options.steps.value_or(0), 0);
  atLeast("a distance between logged steps", options.logEvery, 1);
  atLeast("a distance between evaluations", options.evaluateEvery, 1);
  atLeast("a number of held-out tokens", options.evaluateTokens, 0);
  atLeast("a distance between checkpoints", options.saveEvery, 1);
  atLeast("a number of checkpoints to keep", options.keep, 1);
  atLeast("a number of sampled tokens", options.sampleTokens, 0);
  atLeast("a seed", options.seed.value_or(0), 0);
  atLeast("a patience", options.patience.value_or(1), 1);
  atLeast("a step to go back to", options.from.value_or(0), 0);
}

/// One run: what the loop needs at hand.
class Trainer {
public:
  Trainer(Executor &executor, const TrainingOptions &options, const TrainingObserver &observer)
      : executor(executor), options(options), observer(observer), plan(executor.plan()),
        told(options.resume ? readRunRecordAt(options.run, options.from) : std::nullopt),
        goal(chooseGoal()), heldOut(options.heldOut, plan),
        watch(options.run, plan, [this](const std::string &text) { say(text); }) {
    if (options.patience && !heldOut.isThere()) {
      throw UserError("--patience: expected held-out text to evaluate, found none; give "
                      "--eval-data FILE, or leave --patience out");
    }
    if (goal > 0 || !options.data.data.empty()) {
      data = openTraining(options.data, plan, static_cast<uint64_t>(seed()));
    }
    if (!options.samplePrompt.empty()) {
      checkContinues(executor, options.samplePrompt);
      refuseInputs(plan, "--sample-prompt");
    }
    state.seed = seed();
    state.dataHash = data ? data->hash() : "";
    state.specHash = sha256Hex(plan.model.spec);
    describe(record);
  }

  TrainingEnd run() {
    checkRunFolder(options.run, options.resume, plan.model.spec);
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
      if (!isNew) {
        clearKilledRun();
      }
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

  static void append(std::vector<DataFile> &list, const std::vector<ByteFile> &files, bool used) {
    for (const ByteFile &file : files) {
      list.push_back({file.path.string(), static_cast<int64_t>(file.bytes.size()), used});
    }
  }

  /// What this call says of the run.
  void describe(RunRecord &into) const {
    into.steps = goal;
    into.seed = seed();
    into.data.clear();
    if (data) {
      append(into.data, data->usedFiles(), true);
      append(into.data, data->skippedFiles(), false);
    }
    if (heldOut.isThere()) { // else those of the run that is resumed
      into.heldOut.clear();
      append(into.heldOut, heldOut.usedFiles(), true);
      append(into.heldOut, heldOut.skippedFiles(), false);
    }
  }

  /// Writes down what the run was told, and the spec that it trains from now on.
  void writeRecord() const {
    writeRunRecord(options.run, record);
    replaceFile(options.run / "spec.json", asBytes(plan.model.spec));
  }

  void noteSettings(const std::vector<std::string> &settings) {
    if (settings.empty()) {
      return;
    }
    record.changes.push_back({state.step, settings, state.specHash});
    std::string list;
    for (const std::string &setting : settings) {
      list += (list.empty() ? "" : ", ") + setting;
    }
    say("from step " + std::to_string(state.step + 1) + " on: " + list);
  }

  /// What a user should know before the first step.
  void sayNotes() const {
    for (const std::string &note : data ? data->notes() : std::vector<std::string>()) {
      say(note);
    }
    for (const std::string &note : heldOut.notes()) {
      say("held-out text: " + note);
    }
    if (heldOut.isThere() && options.keepBest && goal > state.step) {
      say("the checkpoint that is best on the held-out text is kept in addition to the newest "
          "ones: " +
          showBytes(checkpointBytes()) + " of disk; --no-keep-best saves none for it");
    }
    if (options.scheduleEnd && goal > options.scheduleEnd->step && goal > state.step) {
      int64_t first = std::max(options.scheduleEnd->step, state.step) + 1;
      std::string steps =
          first == goal ? "step " + std::to_string(goal) + " runs"
                        : "steps " + std::to_string(first) + " to " + std::to_string(goal) + " run";
      say(format(
          "note: %s at the schedule's floor, a learning rate of %g: the spec's schedule ends "
          "at step %lld; --set %s=%lld spans all",
          steps.c_str(), options.scheduleEnd->rate,
          static_cast<long long>(options.scheduleEnd->step), options.scheduleEnd->key.c_str(),
          static_cast<long long>(goal - options.scheduleEnd->before)));
    }
  }

  int64_t seed() const { return options.seed.value_or(plan.model.seed); }
  void say(const std::string &text) const {
    if (observer.message) {
      observer.message(text);
    }
  }

  void clearKilledRun() const {
    if (!listFolder(options.run).empty()) {
      say("the training into " + options.run.string() +
          " ended before its first checkpoint: it begins anew");
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
    settings.insert(settings.end(), options.settings.begin(), options.settings.end());
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

  /// The flags whose files the hash of the data is of.
  std::string dataFlags() const {
    const SourceFiles &files = options.data;
    std::string flags = "--data";
    for (const auto &[flag, isGiven] : {std::pair(files.inputFlag, !files.inputs.empty()),
                                        std::pair(files.labelFlag, !files.labels.empty())}) {
      flags += isGiven ? " and " + flag : "";
    }
    return flags;
  }

  void resume() {
    if (adoptNewestCheckpoint(options.run)) {
      say("the file \"latest\" is missing: the run goes on from its newest checkpoint");
    }
    // First what tells an artifact of another spec from damage, then the tensors.
    TrainingState saved = readTrainingState(options.run, options.from);
    auto demand = [&](bool same, const std::string &what, const std::string &remedy) {
      if (!same) {
        throw UserError(options.run.string() + ": expected the same " + what +
                        " as when the run began, found another; " + remedy);
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
           "give the same files of " + dataFlags() + " in the same order");
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
    if (state.step >= goal) {
      say("nothing to do: the run is to make " + std::to_string(goal) +
          (goal == 1 ? " step" : " steps") + " in all and has made " + std::to_string(state.step) +
          "; give more --steps to go on");
      if (options.from) {
        writeRecord();
      }
      return;
    }
    describe(record);
    noteSettings(options.settings);
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
  }

  /// Whether the executor's spec is what the run trains, settings of this call put in.
  bool isSpecOf(const RunRecord &run) const {
    const std::string &artifact =
        options.artifactSpecHash.empty() ? state.specHash : options.artifactSpecHash;
    bool isOurs = artifact == run.specHash || artifact == run.currentSpec();
    return isOurs && (!options.settings.empty() || state.specHash == run.currentSpec());
  }

  TrainingEnd loop() {
    lastLog = Clock::now();
    while (state.step < goal && !isOutOfPatience()) {
      if (observer.interrupted && observer.interrupted()) {
        save();
        say(state.step == 0
                ? "interrupted before the first step: nothing was saved"
                : "interrupted: saved a checkpoint after step " + std::to_string(state.step));
        watch.repeatWarning();
        return TrainingEnd::interrupted;
      }
      Json metrics = step();
      bool last = state.step == goal, isBest = false;
      watch.addStep(state.step, metrics["loss"], last);
      bool stops = options.stopOnDivergence && watch.isDiverged();
      bool evaluated = heldOut.isThere() && (last || state.step % options.evaluateEvery == 0);
      bool logged = evaluated || last || stops || state.step == 1 || metrics.contains("set") ||
                    state.step % options.logEvery == 0;
      if (logged) {
        measureSpeed(metrics);
      }
      try {
        if (evaluated) {
          isBest = evaluateInto(metrics);
        }
        if ((evaluated || last) && !options.samplePrompt.empty()) {
          writeSample();
        }
      } catch (const RoomError &) { // in a text that is not trained on: no step is lost
        save();
        throw;
      }
      if (watch.isDiverged()) {
        metrics["diverged"] = true;
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
    pruneCheckpoints(options.run, options.keep);
    sayBest();
    watch.repeatWarning();
    return TrainingEnd::finished;
  }

  bool isOutOfPatience() const {
    return options.patience && watch.heldOut().worse >= *options.patience &&
           watch.heldOut().text == hashHeldOut(); // losses of other text do not count
  }

  /// Which step was the best on the held-out text, where that is not the last one.
  void sayBest() const {
    const std::optional<MeasuredLoss> &best = watch.heldOut().best;
    if (!heldOut.isThere() || !best || best->step == state.step) {
      return;
    }
    std::string text =
        isOutOfPatience() && state.step < goal
            ? format("training ends after step %lld of %lld, as %lld evaluations "
                     "gave nothing better: ",
                     static_cast<long long>(state.step), static_cast<long long>(goal),
                     static_cast<long long>(watch.heldOut().worse))
            : std::string();
    text += format("the held-out text was best after step %lld, with %.4f bits per byte",
                   static_cast<long long>(best->step), best->nats / std::numbers::ln2);
    Path folder = options.run / "checkpoints" / std::to_string(best->step);
    say(text + (isThere(folder) ? "; " + folder.string() + " has its weights" : ""));
  }

  /// Bytes of the tensors of a checkpoint.
  double checkpointBytes() const {
    int64_t numbers = 0;
    for (const Tensor &tensor : plan.tensors) {
      numbers += tensor.elements() * (1 + std::ssize(tensor.states));
    }
    return static_cast<double>(numbers) * sizeof(float);
  }

  /// A hash of what an evaluation scores.
  std::string hashHeldOut() const {
    std::string parts = std::to_string(options.evaluateTokens);
    for (const ByteFile &file : heldOut.usedFiles()) {
      parts += sha256Hex(file.bytes);
    }
    return sha256Hex(asBytes(parts));
  }

  /// One step of the optimizer. The position moves only here, after the tensors did.
  Json step() {
    int64_t number = state.step + 1;
    if (!factors.empty()) {
      executor.chooseFactor(drawFactor(factors, state.seed, number));
    }
    DataPosition next = state.position;
    executor.runUpdate(number, [&](int64_t batch) {
      next = data->fill(batch == 0 ? state.position : next, plan.model.batch, executor.inputs());
    });
    double objective = executor.scalarF32("loss"), norm = executor.scalarF32("grad_norm");
    if (executor.scalarI32("finite") != 1) {
      stopNotFinite("at step " + std::to_string(number) + ": the loss is " +
                    std::to_string(objective) + ", the gradient's norm " + std::to_string(norm) +
                    ", expected finite numbers");
    }
    if (unproven) {
      pruneCheckpoints(options.run, options.keep);
      unproven = false;
    }
    lastBatch = state.position;
    state.step = number;
    state.position = next;
    tokensSinceLog += plan.tokensOfUpdate();
    Json losses = Json::object(); // of several, by name
    for (const LossFacts &each : plan.losses) {
      losses[each.name] = executor.scalarF32(each.mean);
    }
    double loss = losses.empty() ? objective : losses[plan.losses.front().name].get<double>();
    Json metrics = {{"step", number},
                    {"loss", loss},
                    {"bits_per_byte", loss / std::numbers::ln2},
                    {"learning_rate", executor.scalarF32("learning_rate")},
                    {"grad_norm", norm}};
    if (!factors.empty()) {
      metrics["factor"] = executor.factor();
    }
    if (!losses.empty()) {
      metrics["objective"] = objective;
      metrics["losses"] = losses;
      addShortening(metrics, "shortening_factor", losses);
    }
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

  void addShortening(Json &metrics, const char *key, const Json &losses) const {
    if (Json factors = shorteningOf(plan, losses); !factors.empty()) {
      metrics[key] = std::move(factors);
    }
  }

  /// Returns whether the held-out loss is the best one so far.
  bool evaluateInto(Json &metrics) {
    EvaluationOptions evaluation;
    evaluation.mostTokens = options.evaluateTokens;
    EvaluationResult result;
    try {
      result = heldOut.scoreEach(executor, evaluation, [&](int64_t factor, double bits) {
        metrics["eval_factors"][std::to_string(factor)] = bits;
      });
    } catch (const NotFiniteError &) {
      stopNotFinite("after step " + std::to_string(state.step) +
                    ": the losses of the held-out text are not finite");
    }
    metrics["eval_loss"] = result.nats / static_cast<double>(result.tokens);
    metrics["eval_bits_per_byte"] = result.bitsPerByte();
    metrics["eval_tokens"] = result.tokens;
    if (result.characters) {
      metrics["eval_bits_per_character"] = *result.bitsPerCharacter();
      metrics["eval_characters"] = *result.characters;
    } else {
      metrics["eval_bits_per_character"] = nullptr;
      metrics["eval_no_characters"] = result.noCharacters;
    }
    if (Json named = result.lossesByName(); !named.empty()) {
      addShortening(metrics, "eval_shortening_factor", named);
      metrics["eval_losses"] = std::move(named);
    }
    if (heldOutHash.empty()) {
      heldOutHash = hashHeldOut();
    }
    return watch.addEvaluation(state.step, metrics["eval_loss"], heldOutHash);
  }

  void writeSample() {
    executor.chooseFactor({});
    std::string text;
    SamplingOptions sampling;
    sampling.temperature = 0.8;
    sampling.seed = static_cast<uint64_t>(state.seed);
    generate(executor, options.samplePrompt, options.sampleTokens, sampling, [&](uint8_t byte) {
      text += static_cast<char>(byte);
      return true;
    });
    appendLine(options.run / "samples.jsonl", {{"step", state.step},
                                               {"prompt", options.samplePrompt},
                                               {"text", text},
                                               {"temperature", 0.8}});
  }

  /// A checkpoint is saved only where it is finite and gives a finite loss. The one before stays
  /// until a step with the new one was finite too: the run always keeps one to go on from.
  void save() {
    if ((state.step == 0 && goal > 0) || latestStep(options.run) == state.step) {
      return;
    }
    state.losses = watch.losses(measureOwnLoss());
    try {
      saveCheckpoint(options.run, executor, state, std::max<int64_t>(options.keep, 2));
      unproven = true;
    } catch (const NotFiniteError &error) {
      stopNotFinite("after step " + std::to_string(state.step) + ": " + error.what());
    }
  }

  /// The head's mean loss on the last update's batches, once more, with the weights that it left.
  /// None where the artifact cannot evaluate. Ends the run where a loss is not finite.
  std::optional<double> measureOwnLoss() {
    if (state.step == 0 || !plan.entries.contains("evaluate")) {
      return std::nullopt;
    }
    executor.scalarI64("length") = plan.model.context;
    executor.scalarI64("rows") = plan.model.batch;
    DataPosition next = lastBatch;
    double sum = 0;
    int64_t batches = 0;
    for (int64_t i = 0; i < plan.accumulate; ++i) {
      next = data->fill(next, plan.model.batch, executor.inputs());
      try {
        executor.run("evaluate");
      } catch (const RoomError &) { // a predictor's bits are other ones in evaluation
        continue;
      }
      if (float loss = executor.scalarF32("loss"); !std::isfinite(loss)) {
        stopNotFinite("after step " + std::to_string(state.step) +
                      ": with its weights the loss is " + std::to_string(loss) +
                      ", expected a finite number");
      }
      sum += readHeadLoss();
      ++batches;
    }
    return batches > 0 ? std::optional(sum / static_cast<double>(batches)) : std::nullopt;
  }

  /// The head's mean loss on the batch that was evaluated last, without the rows of padding.
  double readHeadLoss() {
    if (plan.losses.empty()) {
      return executor.scalarF32("loss");
    }
    const LossFacts &head = plan.losses.front();
    double sum = 0;
    int64_t count = 0;
    for (int64_t row = 0; row < plan.model.batch; ++row) {
      std::span<const float> nats = executor.outputRow(head.rows, row);
      for (auto t = static_cast<size_t>(head.first); t < nats.size(); ++t) {
        sum += nats[t];
        count += nats[t] != 0 ? 1 : 0;
      }
    }
    return sum / static_cast<double>(std::max<int64_t>(1, count));
  }

  Executor &executor;
  const TrainingOptions &options;
  const TrainingObserver &observer;
  const Plan &plan;
  const std::vector<int64_t> factors = plan.sortedFactors(); // each step draws one
  std::optional<RunRecord> told;                             // before, where a run is resumed
  int64_t goal;
  std::unique_ptr<TrainingSource> data; // null: no step needs it
  HeldOut heldOut;
  std::string heldOutHash; // once it was evaluated
  LossWatch watch;
  RunRecord record;
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
