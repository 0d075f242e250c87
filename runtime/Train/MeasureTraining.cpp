// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Measures a run after its steps: evaluations and samples; and saves checkpoints.
#include "Interruption.h"
#include "TrainingFacts.h"
#include "TrainingRun.h"
#include "sluice/Runtime/Execute/Evaluator.h"
#include "sluice/Runtime/Train/Metrics.h"
#include "sluice/Support/Error.h"

#include <algorithm>
#include <cmath>

namespace sluice::runtime {

bool TrainingRun::evaluateAfterStep(Json &metrics, bool evaluates) {
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
  } catch (const RoomError &) { // on held-out text: no step is lost
    save();
    throw;
  } catch (const DataError &) { // on held-out text: no step is lost
    save();
    throw;
  } catch (const Interrupted &) {
    metrics[interruptedKey] = doing;
    replaceLastLine(metrics);
    throw;
  }
  return isBest;
}

void TrainingRun::replaceLastLine(const Json &metrics) const {
  if (unfinished) {
    keepLinesUpTo(options.run / "metrics.jsonl", state.step - 1);
  }
  appendLine(options.run / "metrics.jsonl", metrics);
}

void TrainingRun::findUnfinished() {
  std::vector<Json> lines = readLines(options.run / "metrics.jsonl");
  std::erase_if(lines, [&](const Json &line) { return line["step"] > state.step; });
  bool isUnfinished =
      !lines.empty() && lines.back()["step"] == state.step && lines.back().contains(interruptedKey);
  if (isUnfinished && (heldOut.isThere() || !options.samplePrompt.empty())) {
    unfinished = lines.back();
  }
}

void TrainingRun::finishEvaluation() {
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
  if (evaluates) { // the losses for the checkpoint lack this evaluation
    state.losses = watch.losses(state.losses ? state.losses->own : std::nullopt);
    Saving saving(observer);
    writeCheckpoint();
  }
  lastLog = Clock::now();
}

bool TrainingRun::evaluateInto(Json &metrics) {
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

void TrainingRun::writeSample() {
  executor.chooseFactor({});
  Json sample = drawSample(executor, options, state, [this] { return isInterrupted(); });
  endIfInterrupted();
  appendLine(options.run / "samples.jsonl", sample);
}

void TrainingRun::save() {
  if ((state.step == 0 && goal > 0) || latestStep(options.run) == state.step) {
    return;
  }
  Saving saving(observer);
  state.losses = watch.losses(measureOwnLoss());
  writeCheckpoint();
}

void TrainingRun::writeCheckpoint() {
  try {
    saveCheckpoint(options.run, executor, state, std::max<int64_t>(options.keep, 2));
    unproven = true;
  } catch (const NotFiniteError &error) {
    stopNotFinite("after step " + std::to_string(state.step) + ": " + error.what());
  }
}

std::optional<double> TrainingRun::measureOwnLoss() {
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
    } catch (const RoomError &) { // a predictor's boundaries differ in evaluation
      continue;
    } catch (const DataError &) { // the file has changed, but the steps are valid
      return std::nullopt;
    }
    if (float loss = executor.scalarF32("loss"); !std::isfinite(loss)) {
      stopNotFinite("after step " + std::to_string(state.step) + ": with its weights the loss is " +
                    std::to_string(loss) + ", expected a finite number");
    }
    sum += readHeadLoss(executor);
    ++batches;
  }
  return batches > 0 ? std::optional(sum / static_cast<double>(batches)) : std::nullopt;
}

} // namespace sluice::runtime
