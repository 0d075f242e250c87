// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Train/Trainer.h"

#include "Interruption.h"
#include "RunFolder.h"
#include "TrainingFacts.h"
#include "TrainingRun.h"
#include "sluice/Runtime/Generate/Generator.h"
#include "sluice/Runtime/Train/Metrics.h"
#include "sluice/Runtime/Train/RollBack.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/Format.h"
#include "sluice/Support/Hash.h"

#include <algorithm>
#include <cmath>

namespace sluice::runtime {

TrainingRun::TrainingRun(Executor &executor, const TrainingOptions &options,
                         const TrainingObserver &observer)
    : executor(executor), options(options), observer(observer), plan(executor.plan()),
      told(options.resume ? readRunRecordAt(options.run, options.from) : std::nullopt),
      goal(chooseGoal()), files(options.run, options.resume),
      heldOut(files.openHeldOut(options.heldOut, plan, told)),
      watch(options.run, plan, [this](const std::string &text) { say(text); }) {
  if (options.patience > 0 && !heldOut.isThere()) {
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

TrainingEnd TrainingRun::run() {
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
  // Checked again: another process may have trained this run before this process took the lock.
  bool goesOn = checkRunFolder(options.run, options.resume, plan.model.spec);
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
  if (state.step == 0 && goal > 0) { // interrupted before the first step
    forgetRun(options.run, isNew);
  }
  return end;
}

TrainingEnd TrainingRun::loop() {
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

bool TrainingRun::isOutOfPatience() const {
  // Losses on different held-out texts are not comparable.
  return options.patience > 0 && watch.heldOut().worse >= options.patience &&
         watch.heldOut().text == hashHeldOut(heldOut, options.evaluateTokens);
}

void TrainingRun::sayBest() const {
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

void TrainingRun::advance() {
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
    lastLog = Clock::now(); // tokens_per_s only measures training
  }
}

nlohmann::json TrainingRun::tryStep() {
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

nlohmann::json TrainingRun::step() {
  int64_t number = state.step + 1;
  if (!factors.empty()) {
    executor.chooseFactor(drawFactor(factors, state.seed, number));
  }
  DataPosition next = state.position;
  executor.runUpdate(number, [&](int64_t batch) {
    if (batch > 0) {
      endIfInterrupted();
      showPart("of the batches", static_cast<double>(batch) / static_cast<double>(plan.accumulate),
               /*isStep=*/true);
    }
    next = data->fill(batch == 0 ? state.position : next, plan.model.batch, executor.inputs());
  });
  double objective = executor.scalarF32("loss"), norm = executor.scalarF32("grad_norm");
  if (executor.scalarI32("finite") != 1) {
    auto describe = [](double value) { // the sign of a NaN is arbitrary
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

void TrainingRun::measureSpeed(Json &metrics) {
  auto now = Clock::now();
  double seconds = std::chrono::duration<double>(now - lastLog).count();
  metrics["tokens_per_s"] = static_cast<double>(tokensSinceLog) / std::max(seconds, 1e-9);
  lastLog = now;
  tokensSinceLog = 0;
}

void TrainingRun::endIfInterrupted() const {
  if (isInterrupted()) {
    throw Interrupted();
  }
}

TrainingEnd train(Executor &executor, const TrainingOptions &options,
                  const TrainingObserver &observer) {
  checkOptions(options);
  if (options.resume) {
    completeRollBack(options.run, observer.message);
  }
  return TrainingRun(executor, options, observer).run();
}

} // namespace sluice::runtime
