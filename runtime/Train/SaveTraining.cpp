// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "SaveTraining.h"

#include "Execute/SharedUpdate.h"
#include "Interruption.h"
#include "SharedTraining.h"
#include "TrainingFacts.h"
#include "sluice/Support/Error.h"

#include <algorithm>
#include <cmath>
#include <exception>

namespace sluice::runtime {

/// Recomputes the head's mean loss on the batches of the last update with the updated weights;
/// only on the first batch if a signal is pending. Empty if the artifact cannot evaluate. Ends
/// the run if a loss is not finite.
static std::optional<double> measureOwnLoss(TrainingContext &context) {
  if (context.state.step == 0 || !context.plan.entries.contains("evaluate")) {
    return std::nullopt;
  }
  DataPosition next = context.lastBatch;
  // Batches of lines by length have different numbers of tokens, and batches of a contrast of
  // chunks.
  double sum = 0, weights = 0, weight = 1;
  for (int64_t i = 0; i < context.plan.accumulate && (i == 0 || !context.isInterrupted()); ++i) {
    try {
      auto filled = context.fillBatch(next);
      next = filled.next;
      weight = context.plan.shapes.empty() ? 1 : static_cast<double>(filled.tokens);
      context.executor.run("evaluate");
    } catch (const RoomError &) { // a predictor's boundaries differ in evaluation
      continue;
    } catch (const DataError &) { // the file has changed, but the steps are valid
      return std::nullopt;
    }
    if (float loss = context.executor.scalarF32("loss"); !std::isfinite(loss)) {
      context.stopNotFinite("after step " + std::to_string(context.state.step) +
                            ": with its weights the loss is " + std::to_string(loss) +
                            ", expected a finite number");
    }
    // The entry "evaluate" stores the batch's own number of chunks.
    if (const CountedLoss *counted = context.plan.findCounted()) {
      weight = context.executor.scalarF32(counted->sum);
    }
    sum += weight * readHeadLoss(context.executor);
    weights += weight;
  }
  return weights > 0 ? std::optional(sum / weights) : std::nullopt;
}

void writeTrainingCheckpoint(TrainingContext &context) {
  std::exception_ptr lost; // another process failed; the weights here are valid
  if (context.isShared()) {
    try {
      context.options.group->agree(Intent::Check);
      meetForSave(context);
    } catch (const PeerError &) {
      if (context.shards) {
        throw; // the state is not complete here
      }
      lost = std::current_exception();
    }
  }
  try {
    saveCheckpoint(context.options.run, context.executor, context.state,
                   std::max<int64_t>(context.options.keep, 2));
    context.unproven = true;
    if (context.shards) {
      context.shards->releaseState();
    }
  } catch (const NotFiniteError &error) {
    context.stopNotFinite("after step " + std::to_string(context.state.step) + ": " + error.what());
  }
  if (lost) {
    std::rethrow_exception(lost);
  }
}

void saveTraining(TrainingContext &context) {
  if ((context.state.step == 0 && context.goal > 0) ||
      latestStep(context.options.run) == context.state.step) {
    return;
  }
  Saving saving(context.observer);
  context.state.losses = context.watch.losses(measureOwnLoss(context));
  writeTrainingCheckpoint(context);
}

void saveAfterError(TrainingContext &context) {
  if (context.shards) {
    int64_t last = latestStep(context.options.run);
    context.say(last < 0 ? "nothing was saved: each process has a part of the optimizer's state"
                         : "the run has the checkpoint of step " + std::to_string(last) +
                               "; later steps are lost, as each process has a part of the "
                               "optimizer's state");
    return;
  }
  saveTraining(context);
  if (context.state.step > 0) {
    context.say("saved a checkpoint after step " + std::to_string(context.state.step));
  }
}

} // namespace sluice::runtime
