// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Train/Trainer.h"

#include "Interruption.h"
#include "MeasureTraining.h"
#include "RunFolder.h"
#include "SaveTraining.h"
#include "SharedTraining.h"
#include "StartTraining.h"
#include "TrainingFacts.h"
#include "sluice/Runtime/Execute/Evaluator.h"
#include "sluice/Runtime/Train/Metrics.h"
#include "sluice/Runtime/Train/RollBack.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/Format.h"
#include "sluice/Support/Json.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <optional>

namespace sluice::runtime {

namespace {

/// Returns "rank 1 (batch 2 of 12), rank 2 (batch 3 of 12)", with the first ranks alone of many.
std::string describeBatches(const std::vector<UpdateBatch> &batches, int64_t count) {
  constexpr size_t most = 8;
  std::string text;
  for (size_t i = 0; i < std::min(batches.size(), most); ++i) {
    text += format("%srank %lld (batch %lld of %lld)", i == 0 ? "" : ", ",
                   static_cast<long long>(batches[i].rank),
                   static_cast<long long>(batches[i].batch + 1), static_cast<long long>(count));
  }
  return batches.size() <= most ? text
                                : text + " and " + std::to_string(batches.size() - most) + " more";
}

/// Returns "; the gradient is not finite on rank 1 (batch 2 of 12)". `largest` has the largest
/// gradient of each rank.
std::string describeGradients(const std::vector<UpdateBatch> &largest, int64_t count) {
  std::vector<UpdateBatch> notFinite;
  std::ranges::copy_if(largest, std::back_inserter(notFinite),
                       [](const UpdateBatch &each) { return !std::isfinite(each.value); });
  if (!notFinite.empty()) {
    return "; the gradient is not finite on " + describeBatches(notFinite, count);
  }
  // The sum over batches overflows, or the sum of squares, or a process lost bits.
  const UpdateBatch &most = *std::ranges::max_element(largest, {}, &UpdateBatch::value);
  return "; computed again, the gradient of each batch is finite, with a largest value of " +
         format("%.4g", static_cast<double>(most.value)) + " on " + describeBatches({most}, count);
}

/// The loop over the steps of one call of `train`.
class TrainingLoop {
public:
  TrainingLoop(Executor &executor, const TrainingOptions &options, const TrainingObserver &observer)
      : context(executor, options, observer) {}

  TrainingEnd run();

private:
  TrainingEnd loop();
  /// Runs steps with the other processes, as rank 0 decides.
  TrainingEnd follow();
  /// Runs a step, and then its evaluation, sample, metrics and checkpoint.
  void advance();
  /// Runs a step. If its data has changed, saves a checkpoint of the previous steps.
  Json tryStep();
  /// Runs one step of the optimizer. The position advances only here, after the tensors were
  /// updated.
  Json step();
  /// Ends the run at step `number`, which did not change the weights.
  [[noreturn]] void stopAt(int64_t number, double objective, double norm,
                           const UpdateReport &report);
  void measureSpeed(Json &metrics);
  bool isOutOfPatience() const;
  /// Reports the best step on the held-out text, unless it is the last one.
  void sayBest() const;

  TrainingContext context;
  const std::vector<int64_t> factors = context.plan.sortedFactors(); // each step draws one of them
  std::chrono::steady_clock::time_point lastLog;
  int64_t tokensSinceLog = 0;
};

} // namespace

TrainingEnd TrainingLoop::run() {
  if (!checkRunFolder(context.options.run, context.options.resume, context.spec()) &&
      context.options.from) {
    throw UserError(context.options.run.string() + ": expected a run with the checkpoint of step " +
                    std::to_string(*context.options.from) +
                    ", found none to resume; leave --from out, or name another run");
  }
  if (context.observer.begins) {
    context.observer.begins();
  }
  if (context.options.group) {
    compareProcesses(context);
    if (!context.isFirst()) {
      return follow();
    }
  }
  // The others wait for this process, the first, until it calls `meet` before a step.
  std::optional<ProcessGroup::Presence> presence(context.options.group);
  bool isNew = !isThere(context.options.run);
  makeFolder(context.options.run);
  RunLock lock(context.options.run);
  // Checked again: another process may have trained this run before this process took the lock.
  bool goesOn = checkRunFolder(context.options.run, context.options.resume, context.spec());
  removeUnfinishedSaves(context.options.run);
  if (goesOn && adoptNewestCheckpoint(context.options.run)) {
    context.say("the file \"latest\" is missing: the run continues from its newest checkpoint");
  }
  if (context.options.group) {
    context.options.group->agree(Intent::Continue, goesOn ? resumeText : "");
  }
  if (goesOn) {
    resumeTraining(context);
    presence.reset();
    return loop();
  }
  try {
    clearKilledRun(context);
    beginTraining(context);
    presence.reset();
  } catch (...) {
    forgetRun(context.options.run, isNew);
    throw;
  }
  TrainingEnd end = loop();
  if (context.state.step == 0 && context.goal > 0) { // interrupted before the first step
    forgetRun(context.options.run, isNew);
  }
  return end;
}

TrainingEnd TrainingLoop::follow() {
  ProcessGroup &group = *context.options.group;
  bool goesOn = group.agree().texts.front() == resumeText;
  {
    ProcessGroup::Presence presence(&group);
    goesOn ? resumeTraining(context) : beginTraining(context);
  }
  for (;;) {
    switch (group.agree().intent) {
    case Intent::Check:
      meetForSave(context);
      break;
    case Intent::Finish:
      return TrainingEnd::finished;
    case Intent::Interrupt:
      return TrainingEnd::interrupted;
    default:
      try {
        step();
      } catch (const Interrupted &) {
        break; // rank 0 saves and ends the job
      }
    }
  }
}

TrainingEnd TrainingLoop::loop() {
  try {
    {
      ProcessGroup::Presence presence(context.options.group);
      finishEvaluation(context);
    }
    lastLog = std::chrono::steady_clock::now();
    while (context.state.step < context.goal && !isOutOfPatience()) {
      context.endIfInterrupted();
      context.meet();
      advance();
    }
  } catch (const Interrupted &) {
    ProcessGroup::Presence presence(context.options.group);
    try {
      saveTraining(context);
    } catch (const PeerError &) { // the next handler does not see errors of this one
      saveAfterError(context);
      throw;
    }
    context.say(context.state.step == 0 ? "interrupted before the first step: nothing was saved"
                                        : "interrupted: saved a checkpoint after step " +
                                              std::to_string(context.state.step));
    context.watch.repeatWarning();
    return TrainingEnd::interrupted;
  } catch (const PeerError &) { // after a whole step: the weights are valid
    saveAfterError(context);
    throw;
  }
  pruneCheckpoints(context.options.run, context.options.keep);
  sayBest();
  context.watch.repeatWarning();
  return TrainingEnd::finished;
}

bool TrainingLoop::isOutOfPatience() const {
  // Losses on different held-out texts are not comparable.
  return context.options.patience > 0 &&
         context.watch.heldOut().worse >= context.options.patience &&
         context.watch.heldOut().text ==
             hashHeldOut(context.heldOut, context.options.evaluateTokens);
}

void TrainingLoop::sayBest() const {
  const std::optional<MeasuredLoss> &best = context.watch.heldOut().best;
  if (!context.heldOut.isThere() || !best || best->step == context.state.step) {
    return;
  }
  std::string text =
      isOutOfPatience() && context.state.step < context.goal
          ? describeImpatience(context.state.step, context.goal, context.watch.heldOut().worse)
          : "";
  text += describeBest(*best, nameLossUnit(context.plan, !haveIds(context.data->usedFiles())));
  Path folder = context.options.run / "checkpoints" / std::to_string(best->step);
  context.say(text + (isThere(folder) ? "; " + folder.string() + " has its weights" : ""));
}

void TrainingLoop::advance() {
  Json metrics = tryStep();
  ProcessGroup::Presence presence(context.options.group); // until the next step
  bool last = context.state.step == context.goal, isBest = false;
  if (!metrics["loss"].is_null()) { // the update may have had no row with a loss
    context.watch.addStep(context.state.step, metrics["loss"],
                          /*continues=*/!last && !context.options.stopOnDivergence);
  }
  bool stops = context.options.stopOnDivergence && context.watch.isDiverged();
  bool evaluated = context.heldOut.isThere() &&
                   (last || context.state.step % context.options.evaluateEvery == 0);
  bool logged = evaluated || last || stops || context.state.step == 1 || metrics.contains("set") ||
                context.state.step % context.options.logEvery == 0;
  if (logged) {
    measureSpeed(metrics);
  }
  if (context.watch.isDiverged()) {
    metrics["diverged"] = true;
  }
  if (evaluated || last) {
    isBest = evaluateAfterStep(context, metrics, evaluated);
  }
  if (logged) {
    appendLine(context.options.run / "metrics.jsonl", metrics);
  }
  if (context.observer.step) {
    context.observer.step(metrics, context.goal);
  }
  if (last || stops || (evaluated && isOutOfPatience()) || (isBest && context.options.keepBest) ||
      context.state.step % context.options.saveEvery == 0) {
    saveTraining(context);
  }
  if (stops) {
    throw context.watch.makeDivergedError(context.state.step);
  }
  if (evaluated) {
    lastLog = std::chrono::steady_clock::now(); // tokens_per_s only measures training
  }
}

nlohmann::json TrainingLoop::tryStep() {
  try {
    return step();
  } catch (const DataError &error) {
    if (context.options.group) {
      context.options.group->fail(error.what());
    }
    saveAfterError(context);
    throw;
  }
}

nlohmann::json TrainingLoop::step() {
  int64_t number = context.state.step + 1;
  if (!factors.empty()) {
    context.executor.chooseFactor(drawFactor(factors, context.state.seed, number));
  }
  DataPosition next = context.state.position;
  RowCounts rows;
  int64_t tokens = 0;
  UpdateReport report;
  auto fill = [&](int64_t batch) {
    if (batch > 0) {
      if (!context.options.group) { // processes end a step together
        context.endIfInterrupted();
      }
      context.showPart("of the batches",
                       static_cast<double>(batch) / static_cast<double>(context.plan.accumulate),
                       /*isStep=*/true);
    }
    auto filled = context.fillBatch(batch == 0 ? context.state.position : next);
    next = filled.next;
    if (batch == rows.batches) { // each of several batches is filled twice
      rows.add(context.plan, context.executor.inputs(), context.executor.scalarI64("rows"));
      tokens += filled.tokens;
    }
  };
  try {
    report = context.executor.runUpdate(number, fill, context.options.group);
  } catch (const UpdateBroken &) {
    throw Interrupted();
  } catch (const LostPeerError &) { // also of an exchange between GPUs
    context.options.group->lose();
    throw;
  }
  double objective = context.executor.scalarF32("loss"),
         norm = context.executor.scalarF32("grad_norm");
  if (context.executor.scalarI32("finite") != 1) {
    stopAt(number, objective, norm, report);
  }
  if (context.unproven) {
    pruneCheckpoints(context.options.run, context.options.keep);
    context.unproven = false;
  }
  context.lastBatch = context.state.position;
  context.state.step = number;
  context.state.position = next;
  auto lines = rows.axes.find("tokens");
  tokensSinceLog += lines == rows.axes.end() ? tokens : lines->second.computed;
  Json metrics =
      describeStep(context.executor, number, objective, norm, !haveIds(context.data->usedFiles()));
  rows.write(metrics);
  if (report.exchangeSeconds) {
    metrics["exchange_ms"] = 1000 * *report.exchangeSeconds;
  }
  for (const SpecChange &change : context.record.changes) {
    if (change.step + 1 == number) {
      for (const std::string &setting : change.settings) {
        metrics["set"].push_back(setting);
      }
    }
  }
  if (context.plan.verdict != "proved") {
    metrics["leak_allowed"] = true;
  }
  return metrics;
}

void TrainingLoop::stopAt(int64_t number, double objective, double norm,
                          const UpdateReport &report) {
  auto describe = [](double value) { // the sign of a NaN is arbitrary
    return std::isnan(value) ? "nan" : format("%.4g", value);
  };
  std::string text = "at step " + std::to_string(number) + ": the loss is " + describe(objective) +
                     ", the gradient's norm " + describe(norm) + ", expected finite numbers";
  int64_t count = context.plan.accumulate;
  if (!report.notFinite.empty()) {
    text += "; the loss is not finite on " + describeBatches(report.notFinite, count);
  } else if (!report.largest.empty()) {
    text += describeGradients(report.largest, count);
  }
  context.stopNotFinite(text);
}

void TrainingLoop::measureSpeed(Json &metrics) {
  auto now = std::chrono::steady_clock::now();
  double seconds = std::chrono::duration<double>(now - lastLog).count();
  metrics["tokens_per_s"] = static_cast<double>(tokensSinceLog) / std::max(seconds, 1e-9);
  lastLog = now;
  tokensSinceLog = 0;
}

TrainingEnd train(Executor &executor, const TrainingOptions &options,
                  const TrainingObserver &observer) {
  checkOptions(options);
  bool isFirst = !options.group || options.group->isFirst();
  if (options.resume && isFirst) {
    completeRollBack(options.run, observer.message);
  }
  if (!options.group) {
    return TrainingLoop(executor, options, observer).run();
  }
  ProcessGroup &group = *options.group;
  group.isInterrupted = observer.interrupted;
  TrainingEnd end = TrainingLoop(executor, options, observer).run();
  if (isFirst) {
    group.agree(end == TrainingEnd::finished ? Intent::Finish : Intent::Interrupt);
  }
  group.end();
  return end;
}

} // namespace sluice::runtime
