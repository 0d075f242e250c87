// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "TrainingContext.h"

#include "Execute/SharedUpdate.h"
#include "Interruption.h"
#include "OpenedData.h"
#include "RunFolder.h"
#include "TrainingFacts.h"
#include "sluice/Runtime/Generate/Generator.h"
#include "sluice/Runtime/Train/RollBack.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/Hash.h"

namespace sluice::runtime {

/// Returns the number of steps of this call, or else of the run, or else of the spec.
static int64_t chooseGoal(const TrainingOptions &options, const std::optional<RunRecord> &told,
                          const Plan &plan) {
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

TrainingContext::TrainingContext(Executor &executor, const TrainingOptions &options,
                                 const TrainingObserver &observer)
    : executor(executor), options(options), observer(observer), plan(executor.plan()),
      told(options.resume ? readRunRecordAt(options.run, options.from) : std::nullopt),
      goal(chooseGoal(options, told, plan)), opened(options.opened),
      files(opened ? std::move(opened->files) : RunData(options.run, options.resume)),
      heldOut(files.openHeldOut(options.heldOut, plan, told)),
      watch(options.run, plan, [this](const std::string &text) { say(text); }) {
  if (options.patience > 0 && !heldOut.isThere()) {
    throw UserError("--patience: expected held-out text to evaluate, found none; give "
                    "--eval-data FILE, or leave --patience out");
  }
  if (opened) {
    data = std::move(opened->source);
  } else if (goal > 0 || !options.data.data.empty()) {
    data = files.openTraining(options.data, plan, static_cast<uint64_t>(seed()));
  }
  requireSameKind();
  if (!options.samplePrompt.empty()) {
    const TextEncoder *encoder = options.data.reading.encoder.get();
    checkContinues(executor,
                   encoder ? encoder->encode(options.samplePrompt) : toTokens(options.samplePrompt),
                   encoder ? "token" : "byte");
    refuseInputs(plan, "--sample-prompt");
  }
  state.seed = seed();
  state.dataHash = data ? data->hash() : "";
  state.batchTokens = plan.batchTokens;
  state.specHash = sha256Hex(spec());
  if (const auto &encoder = options.data.reading.encoder) {
    state.tokenizer = encoder->hash();
  }
  if (options.command) {
    command = options.command;
    files.nameCopies(*command);
    measureFiles(*command, options.run, told ? told->command : std::nullopt);
  }
  describeRecord();
}

void TrainingContext::requireSameKind() const {
  bool hasIds = data && haveIds(data->usedFiles());
  bool hasUnknownText = data && lackText(data->usedFiles());
  if (hasUnknownText && !options.samplePrompt.empty()) {
    throw UserError("--sample-prompt: expected training on text, found token ids, whose text is "
                    "unknown; leave it out, and generate with --prompt-tokens afterwards");
  }
  if (data && heldOut.isThere() && haveIds(heldOut.usedFiles()) != hasIds) {
    throw UserError(
        std::string("--eval-data: expected ") +
        (hasIds ? "token ids, as --data has, found text" : "text, as --data has, found token ids") +
        "; give data of the same kind");
  }
}

void TrainingContext::describeRecord() {
  record.steps = goal;
  record.epochs = options.epochs || options.steps || !told ? options.epochs : told->epochs;
  record.seed = seed();
  record.command = command ? command : record.command;
  record.data = data ? listFiles(data->usedFiles(), data->skippedFiles()) : std::vector<DataFile>();
  if (heldOut.isThere()) { // otherwise the held-out files of the resumed run
    record.heldOut = listFiles(heldOut.usedFiles(), heldOut.skippedFiles());
  }
}

TrainingContext::FilledBatch TrainingContext::fillBatch(DataPosition position) const {
  std::optional<BatchSize> size = data->findBatch(position);
  executor.chooseBatch(size);
  int64_t rows = size ? size->rows : plan.model.batch;
  return {data->fill(position, rows, executor.inputs()),
          size ? size->tokens : rows * plan.model.context};
}

void TrainingContext::shareUpdates() {
  if (!options.group) {
    return;
  }
  SharedUpdate &shared = executor.share(*options.group, options.shardsOptimizer);
  if (options.shardsOptimizer) {
    shards = &shared;
    shards->releaseState();
  }
}

void TrainingContext::endIfInterrupted() const {
  if (isInterrupted()) {
    throw Interrupted();
  }
}

} // namespace sluice::runtime
