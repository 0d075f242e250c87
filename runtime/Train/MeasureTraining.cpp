// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "MeasureTraining.h"

#include "Interruption.h"
#include "SaveTraining.h"
#include "TrainingFacts.h"
#include "sluice/Runtime/Execute/Evaluator.h"
#include "sluice/Runtime/Train/Metrics.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/Json.h"

#include <algorithm>
#include <utility>

namespace sluice::runtime {

/// Returns whether the held-out loss is the best one so far.
static bool evaluateInto(TrainingContext &context, Json &metrics) {
  EvaluationOptions evaluation;
  evaluation.mostTokens = context.options.evaluateTokens;
  EvaluationResult result;
  try {
    result = context.heldOut.scoreEach(
        context.executor, evaluation,
        [&](int64_t factor, std::optional<double> bits) {
          metrics["eval_factors"][std::to_string(factor)] = bits ? Json(*bits) : Json(nullptr);
        },
        [&](double share) {
          context.endIfInterrupted();
          context.showPart("evaluated", share, /*isStep=*/false);
        });
  } catch (const NotFiniteError &) {
    context.stopNotFinite("after step " + std::to_string(context.state.step) +
                          ": the losses of the held-out text are not finite");
  }
  addEvaluation(metrics, result, context.plan);
  if (context.heldOutHash.empty()) {
    context.heldOutHash = hashHeldOut(context.heldOut, context.options.evaluateTokens);
  }
  if (result.countUnits() == 0) {
    if (!std::exchange(context.saidNoChunk, true)) {
      context.say("no held-out chunk follows another one in its window, so evaluations have no "
                  "loss; give a longer text");
    }
    return false;
  }
  return context.watch.addEvaluation(context.state.step, metrics["eval_loss"], context.heldOutHash);
}

static void writeSample(const TrainingContext &context) {
  context.executor.chooseFactor({});
  Json sample = drawSample(context.executor, context.options, context.state,
                           [&] { return context.isInterrupted(); });
  context.endIfInterrupted();
  appendLine(context.options.run / "samples.jsonl", sample);
}

/// Writes the line of metrics of the last step; replaces an existing line.
static void replaceLastLine(const TrainingContext &context, const Json &metrics) {
  if (context.unfinished) {
    keepLinesUpTo(context.options.run / "metrics.jsonl", context.state.step - 1);
  }
  appendLine(context.options.run / "metrics.jsonl", metrics);
}

bool evaluateAfterStep(TrainingContext &context, Json &metrics, bool evaluates) {
  bool isBest = false;
  const char *doing = evaluationPart;
  try {
    if (evaluates) {
      Json complete = metrics;
      isBest = evaluateInto(context, complete);
      metrics = std::move(complete);
    }
    doing = samplePart;
    if (!context.options.samplePrompt.empty()) {
      writeSample(context);
    }
  } catch (const RoomError &) { // on held-out text: no step is lost
    saveTraining(context);
    throw;
  } catch (const DataError &) { // on held-out text: no step is lost
    saveTraining(context);
    throw;
  } catch (const Interrupted &) {
    metrics[interruptedKey] = doing;
    replaceLastLine(context, metrics);
    throw;
  }
  return isBest;
}

void findUnfinished(TrainingContext &context) {
  std::vector<Json> lines = readLines(context.options.run / "metrics.jsonl");
  std::erase_if(lines, [&](const Json &line) { return line["step"] > context.state.step; });
  bool isUnfinished = !lines.empty() && lines.back()["step"] == context.state.step &&
                      lines.back().contains(interruptedKey);
  if (isUnfinished && (context.heldOut.isThere() || !context.options.samplePrompt.empty())) {
    context.unfinished = lines.back();
  }
}

void finishEvaluation(TrainingContext &context) {
  if (!context.unfinished) {
    return;
  }
  context.endIfInterrupted();
  Json metrics = *context.unfinished;
  bool evaluates = metrics[interruptedKey] == evaluationPart && context.heldOut.isThere();
  metrics.erase(interruptedKey);
  evaluateAfterStep(context, metrics, evaluates);
  replaceLastLine(context, metrics);
  context.unfinished.reset();
  if (context.observer.step) {
    context.observer.step(metrics, context.goal);
  }
  if (evaluates) { // the losses for the checkpoint lack this evaluation
    context.state.losses =
        context.watch.losses(context.state.losses ? context.state.losses->own : std::nullopt);
    Saving saving(context.observer);
    writeTrainingCheckpoint(context);
  }
}

} // namespace sluice::runtime
