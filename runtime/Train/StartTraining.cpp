// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "StartTraining.h"

#include "MeasureTraining.h"
#include "RunFolder.h"
#include "SaveTraining.h"
#include "TrainingFacts.h"
#include "sluice/Runtime/Plan/Inspect.h"
#include "sluice/Runtime/Tokenizer/FileEncoder.h"
#include "sluice/Runtime/Train/Metrics.h"
#include "sluice/Runtime/Train/RollBack.h"
#include "sluice/Runtime/Train/StartingWeights.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/Format.h"
#include "sluice/Support/OutputFile.h"
#include "sluice/Support/Shell.h"

#include <algorithm>
#include <span>

namespace sluice::runtime {

/// Checks that `settings` are the last ones that the run was given: a script may repeat them at
/// each resume.
static bool endsWith(const std::vector<std::string> &all,
                     const std::vector<std::string> &settings) {
  return settings.size() <= all.size() &&
         std::equal(settings.rbegin(), settings.rend(), all.rbegin());
}

/// Writes the run's record, and the spec that it uses from now on.
static void writeRecord(const TrainingContext &context) {
  context.files.saveStreams();
  if (const auto &encoder = context.options.data.reading.encoder) {
    replaceFile(context.options.run / runTokenizer, encoder->toFile());
  }
  writeRunRecord(context.options.run, context.record);
  replaceFile(context.options.run / "spec.json", asBytes(context.spec()));
}

/// Adds settings of this call to the record.
static void noteSettings(TrainingContext &context, const std::vector<std::string> &settings) {
  if (settings.empty()) {
    return;
  }
  context.record.changes.push_back({context.state.step, settings, context.state.specHash});
  context.say("from step " + std::to_string(context.state.step + 1) +
              " on: " + listSettings(settings));
}

/// Reports remarks for the user before the first step.
static void sayNotes(const TrainingContext &context) {
  for (const std::string &note : context.files.notes()) {
    context.say(note);
  }
  for (const std::string &note : listNotes(context.options, context.data.get(), context.heldOut,
                                           context.plan, context.state.step, context.goal)) {
    context.say(note);
  }
}

void clearKilledRun(const TrainingContext &context) {
  if (!listFolder(context.options.run).empty()) {
    context.say("the training into " + context.options.run.string() +
                " ended before its first checkpoint: it begins anew");
  } else if (context.options.resume) {
    context.say(context.options.run.string() + ": no run to resume yet: it begins");
  }
  forgetRun(context.options.run, false);
}

/// Loads initial weights, if any: of this call, or of an earlier call that was killed before its
/// first checkpoint.
static void takeWeights(TrainingContext &context) {
  Path weights = context.options.weights;
  std::vector<std::string> match = context.options.match;
  if (weights.empty() && context.told && context.told->weights) {
    weights = context.told->weights->file;
    match = context.told->weights->left.empty() ? match : context.told->weights->taken;
  }
  if (!weights.empty()) {
    context.record.weights =
        startFromWeights(weights, match, context.executor, context.observer.message,
                         context.options.weightNames, context.options.weightsStep);
    context.say(describeStart(*context.record.weights));
  }
  requireFrozen(context.record.weights ? context.record.weights->taken : std::vector<std::string>(),
                context.plan);
}

void beginTraining(TrainingContext &context) {
  context.executor.scalarI64("seed") = context.state.seed;
  context.executor.run("initialize");
  takeWeights(context);
  context.shareUpdates();
  if (!context.isFirst()) {
    return;
  }
  context.record.specHash = context.options.artifactSpecHash.empty()
                                ? context.state.specHash
                                : context.options.artifactSpecHash;
  std::vector<std::string> settings =
      context.told ? context.told->settings() : std::vector<std::string>();
  if (!endsWith(settings, context.options.settings)) {
    settings.insert(settings.end(), context.options.settings.begin(),
                    context.options.settings.end());
  }
  // Includes settings given to a run that was killed before its first checkpoint.
  noteSettings(context, settings);
  writeRecord(context);
  sayNotes(context);
  if (context.goal == 0) {
    saveTraining(context);
    context.say("wrote the initial weights as the checkpoint of step 0");
  }
  replaceFile(context.options.run / "costs.json",
              asBytes(describeArtifact(context.executor.artifact()).dump(2) + "\n"));
}

/// Checks that the executor's spec is the run's spec with the settings of this call.
static bool hasSpec(const TrainingContext &context, const RunRecord &run) {
  const std::string &artifact = context.options.artifactSpecHash.empty()
                                    ? context.state.specHash
                                    : context.options.artifactSpecHash;
  bool isOurs = artifact == run.specHash || artifact == run.currentSpec();
  return isOurs &&
         (!context.options.settings.empty() || context.state.specHash == run.currentSpec());
}

/// Throws UserError if this call has another spec, another seed or other data than the run had at
/// its checkpoint `saved`.
static void requireSameRun(const TrainingContext &context, const TrainingState &saved) {
  auto demand = [&](bool same, const std::string &what, const std::string &remedy,
                    const std::string &found = "another") {
    if (!same) {
      throw UserError(context.options.run.string() + ": expected the same " + what +
                      " as when the run began, found " + found + "; " + remedy);
    }
  };
  demand(context.record.knows(saved.specHash) && hasSpec(context, context.record), "spec",
         "compile the run's spec.json, or begin a new run; settings of \"training\" may be "
         "changed with --set");
  demand(saved.seed == context.state.seed, "seed", "give --seed " + std::to_string(saved.seed));
  bool hadData = !saved.dataHash.empty(); // a run of 0 steps has none
  bool isSameData = !hadData || saved.dataHash == context.state.dataHash;
  demand(!context.data || (isSameData && saved.position.index < context.data->rowsPerEpoch()),
         "training data",
         "give the same files of " + nameDataFlags(context.options.data) +
             " in the same order, or begin a run on other data from this run's weights: sluice "
             "train ART --data FILE --weights " +
             quoteForShell(context.options.run.string()) + " --out NEW",
         describeOtherTrainingData(context.told ? context.told->command : std::nullopt,
                                   context.command, context.options.run, saved.dataHash,
                                   context.state.dataHash));
}

/// Throws UserError if this call cuts lines into other batches than the run did in the epoch of its
/// checkpoint `saved`.
static void requireSameBatches(const TrainingContext &context, const TrainingState &saved) {
  if (saved.batchTokens == context.plan.batchTokens || saved.position.index == 0) {
    return;
  }
  auto describe = [](int64_t tokens) {
    return tokens == 0 ? std::string("none") : std::to_string(tokens);
  };
  throw UserError(context.options.run.string() +
                  ": expected \"batch_tokens\" as in the epoch that "
                  "the run is in, " +
                  describe(saved.batchTokens) + ", found " + describe(context.plan.batchTokens) +
                  ", which would read other lines twice or not at all; leave --set "
                  "training.batch_tokens out, or begin a run from this run's weights");
}

/// Removes lines of metrics and samples after the checkpoint, and moves damaged ones away.
static void removeLaterLines(const TrainingContext &context) {
  int64_t last =
      context.options.from ? INT64_MAX : context.state.step; // a roll-back moves later lines
  for (const char *file : {"metrics.jsonl", "samples.jsonl"}) {
    if (int64_t damaged = keepLinesUpTo(context.options.run / file, last)) {
      context.say(describeCount(damaged, "damaged line") + " of " + file +
                  (damaged == 1 ? " was moved to " : " were moved to ") + file + ".damaged");
    }
  }
}

/// Moves results after the checkpoint that this call returns to into RUN/abandoned, and writes
/// the record.
static void goBack(const TrainingContext &context) {
  if (!context.options.from) {
    return;
  }
  std::optional<RunRecord> before = readRunRecord(context.options.run);
  context.files.saveStreams(); // the record names the copies
  if (Path abandoned = rollBack(context.options.run, *context.options.from, context.record);
      !abandoned.empty()) {
    context.say("what came after step " + std::to_string(*context.options.from) + " moved to " +
                abandoned.string());
  }
  std::vector<std::string> settings = before ? before->settings() : std::vector<std::string>();
  if (size_t kept = context.told ? context.told->settings().size() : 0; settings.size() > kept) {
    context.say("settings that no longer hold: " + listSettings(std::span(settings).subspan(kept)));
  }
}

void resumeTraining(TrainingContext &context) {
  // Checks the spec before the tensors, so that another spec is not reported as damage.
  TrainingState saved = readTrainingState(context.options.run, context.options.from);
  context.record = context.told.value_or(RunRecord());
  context.record.specHash =
      context.told ? context.told->specHash : saved.specHash; // runs of old versions have no record
  requireSameRun(context, saved);
  requireSameBatches(context, saved);
  bool hadData = !saved.dataHash.empty(); // a run of 0 steps has none
  TrainingState now = context.state;
  context.state = loadCheckpoint(context.options.run, context.executor, context.options.from);
  context.shareUpdates();
  context.watch.restore(context.state);
  context.state.specHash = now.specHash;
  context.state.tokenizer = now.tokenizer;
  context.state.batchTokens = now.batchTokens;
  context.state.dataHash = hadData ? context.state.dataHash : now.dataHash;
  context.executor.scalarI64("seed") = context.state.seed;
  findUnfinished(context);
  context.meet(); // the other processes have read the run's files
  if (!context.isFirst()) {
    return;
  }
  bool isDone = context.state.step >= context.goal && !context.unfinished;
  if (!isDone) {
    context.describeRecord();
    if (!endsWith(context.record.settings(), context.options.settings)) {
      noteSettings(context, context.options.settings);
    }
  }
  removeLaterLines(context);
  goBack(context);
  context.say("resumed after step " + std::to_string(context.state.step));
  if (isDone) {
    context.say("nothing to do: the run is to make " + describeCount(context.goal, "step") +
                " in all and has made " + std::to_string(context.state.step) +
                "; give more --steps to continue");
    if (context.options.from) {
      writeRecord(context);
    }
    return;
  }
  writeRecord(context);
  sayNotes(context);
  std::string note =
      context.told ? describeHeldOutChange(*context.told, context.record, context.heldOut.isThere())
                   : "";
  if (!note.empty()) {
    context.say(note);
  }
  if (context.options.stopOnDivergence && context.watch.isDiverged()) {
    throw context.watch.makeDivergedError(context.state.step, "--no-stop-on-divergence continues");
  }
  context.watch.repeatWarning();
}

} // namespace sluice::runtime
