// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Prepares the first step of a call of `train`: starts a run, or continues it from a checkpoint.
#include "RunFolder.h"
#include "TrainingFacts.h"
#include "TrainingRun.h"
#include "sluice/Runtime/Plan/Inspect.h"
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

int64_t TrainingRun::chooseGoal() const {
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

void TrainingRun::describe(RunRecord &into) const {
  into.steps = goal;
  into.seed = seed();
  into.command = command ? command : into.command;
  into.data = data ? listFiles(data->usedFiles(), data->skippedFiles()) : std::vector<DataFile>();
  if (heldOut.isThere()) { // otherwise the held-out files of the resumed run
    into.heldOut = listFiles(heldOut.usedFiles(), heldOut.skippedFiles());
  }
}

void TrainingRun::writeRecord() const {
  files.saveStreams();
  writeRunRecord(options.run, record);
  replaceFile(options.run / "spec.json", asBytes(plan.model.spec));
}

void TrainingRun::noteSettings(const std::vector<std::string> &settings) {
  if (settings.empty()) {
    return;
  }
  record.changes.push_back({state.step, settings, state.specHash});
  say("from step " + std::to_string(state.step + 1) + " on: " + listSettings(settings));
}

void TrainingRun::sayNotes() const {
  for (const std::string &note : files.notes()) {
    say(note);
  }
  for (const std::string &note : listNotes(options, data.get(), heldOut, plan, state.step, goal)) {
    say(note);
  }
}

void TrainingRun::clearKilledRun() const {
  if (!listFolder(options.run).empty()) {
    say("the training into " + options.run.string() +
        " ended before its first checkpoint: it begins anew");
  } else if (options.resume) {
    say(options.run.string() + ": no run to resume yet: it begins");
  }
  forgetRun(options.run, false);
}

void TrainingRun::takeWeights() {
  Path weights = options.weights;
  std::vector<std::string> match = options.match;
  if (weights.empty() && told && told->weights) {
    weights = told->weights->file;
    match = told->weights->left.empty() ? match : told->weights->taken;
  }
  if (!weights.empty()) {
    record.weights = startFromWeights(weights, match, executor, observer.message,
                                      options.weightNames, options.weightsStep);
    say(describeStart(*record.weights));
  }
  requireFrozen(record.weights ? record.weights->taken : std::vector<std::string>(), plan);
}

void TrainingRun::begin() {
  executor.scalarI64("seed") = state.seed;
  executor.run("initialize");
  takeWeights();
  record.specHash = options.artifactSpecHash.empty() ? state.specHash : options.artifactSpecHash;
  std::vector<std::string> settings = told ? told->settings() : std::vector<std::string>();
  if (!endsWith(settings, options.settings)) {
    settings.insert(settings.end(), options.settings.begin(), options.settings.end());
  }
  noteSettings(settings); // settings given to a run that was killed before its first checkpoint
  writeRecord();
  sayNotes();
  if (goal == 0) {
    save();
    say("wrote the initial weights as the checkpoint of step 0");
  }
  replaceFile(options.run / "costs.json",
              asBytes(describeArtifact(executor.artifact()).dump(2) + "\n"));
}

void TrainingRun::resume() {
  if (adoptNewestCheckpoint(options.run)) {
    say("the file \"latest\" is missing: the run goes on from its newest checkpoint");
  }
  // Checks the spec before the tensors, so that another spec is not reported as damage.
  TrainingState saved = readTrainingState(options.run, options.from);
  record = told.value_or(RunRecord());
  record.specHash = told ? told->specHash : saved.specHash; // runs of old versions have no record
  requireSameRun(saved);
  bool hadData = !saved.dataHash.empty(); // a run of 0 steps has none
  TrainingState now = state;
  state = loadCheckpoint(options.run, executor, options.from);
  watch.restore(state);
  state.specHash = now.specHash;
  state.dataHash = hadData ? state.dataHash : now.dataHash;
  executor.scalarI64("seed") = state.seed;
  findUnfinished();
  bool isDone = state.step >= goal && !unfinished;
  if (!isDone) {
    describe(record);
    if (!endsWith(record.settings(), options.settings)) {
      noteSettings(options.settings);
    }
  }
  removeLaterLines();
  goBack();
  say("resumed after step " + std::to_string(state.step));
  if (isDone) {
    say("nothing to do: the run is to make " + describeCount(goal, "step") +
        " in all and has made " + std::to_string(state.step) + "; give more --steps to go on");
    if (options.from) {
      writeRecord();
    }
    return;
  }
  writeRecord();
  sayNotes();
  std::string note = told ? describeHeldOutChange(*told, record, heldOut.isThere()) : "";
  if (!note.empty()) {
    say(note);
  }
  if (options.stopOnDivergence && watch.isDiverged()) {
    throw watch.makeDivergedError(state.step);
  }
  watch.repeatWarning();
}

void TrainingRun::requireSameRun(const TrainingState &saved) const {
  auto demand = [&](bool same, const std::string &what, const std::string &remedy,
                    const std::string &found = "another") {
    if (!same) {
      throw UserError(options.run.string() + ": expected the same " + what +
                      " as when the run began, found " + found + "; " + remedy);
    }
  };
  demand(record.knows(saved.specHash) && isSpecFor(record), "spec",
         "compile the run's spec.json, or begin a new run; settings of \"training\" may be "
         "changed with --set");
  demand(saved.seed == state.seed, "seed", "give --seed " + std::to_string(saved.seed));
  bool hadData = !saved.dataHash.empty(); // a run of 0 steps has none
  bool isSameData = !hadData || saved.dataHash == state.dataHash;
  demand(!data || (isSameData && saved.position.index < data->rowsPerEpoch()), "training data",
         "give the same files of " + nameDataFlags(options.data) +
             " in the same order, or begin a run on other data from this run's weights: sluice "
             "train ART --data FILE --weights " +
             quoteForShell(options.run.string()) + " --out NEW",
         describeOtherTrainingData(told ? told->command : std::nullopt, command, options.run,
                                   saved.dataHash, state.dataHash));
}

void TrainingRun::removeLaterLines() const {
  int64_t last = options.from ? INT64_MAX : state.step; // a roll-back moves later lines
  for (const char *file : {"metrics.jsonl", "samples.jsonl"}) {
    if (int64_t damaged = keepLinesUpTo(options.run / file, last)) {
      say(describeCount(damaged, "damaged line") + " of " + file +
          (damaged == 1 ? " was moved to " : " were moved to ") + file + ".damaged");
    }
  }
}

void TrainingRun::goBack() const {
  if (!options.from) {
    return;
  }
  std::optional<RunRecord> before = readRunRecord(options.run);
  files.saveStreams(); // the record names the copies
  if (Path abandoned = rollBack(options.run, *options.from, record); !abandoned.empty()) {
    say("what came after step " + std::to_string(*options.from) + " moved to " +
        abandoned.string());
  }
  std::vector<std::string> settings = before ? before->settings() : std::vector<std::string>();
  if (size_t kept = told ? told->settings().size() : 0; settings.size() > kept) {
    say("settings that no longer hold: " + listSettings(std::span(settings).subspan(kept)));
  }
}

bool TrainingRun::isSpecFor(const RunRecord &run) const {
  const std::string &artifact =
      options.artifactSpecHash.empty() ? state.specHash : options.artifactSpecHash;
  bool isOurs = artifact == run.specHash || artifact == run.currentSpec();
  return isOurs && (!options.settings.empty() || state.specHash == run.currentSpec());
}

} // namespace sluice::runtime
