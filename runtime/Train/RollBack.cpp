// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Train/RollBack.h"

#include "RunFolder.h"
#include "sluice/Runtime/Train/Metrics.h"
#include "sluice/Support/OutputFile.h"
#include "sluice/Support/StrictJson.h"

#include <algorithm>

namespace sluice::runtime {
namespace {

constexpr const char *lineFiles[] = {"metrics.jsonl", "samples.jsonl"};
const std::string damagedJournalRemedy =
    "; restore the file, or remove it and go back once more with --from STEP";

/// The steps of a roll-back, which the journal stores. They are idempotent: repeating them after
/// any change yields the same run.
struct Return {
  int64_t step = 0, number = 0; ///< `number` of RUN/abandoned/N
  RunRecord record;             ///< the run's record after the roll-back
};

Path getFolder(const Path &run, const Return &back) {
  return run / "abandoned" / std::to_string(back.number);
}

/// Returns the smallest number from 1 for which the folder RUN/abandoned/N does not exist.
int64_t chooseNumber(const Path &run) {
  int64_t number = 1;
  while (isThere(run / "abandoned" / std::to_string(number))) {
    ++number;
  }
  return number;
}

void writeJournal(const Path &run, const Return &back) {
  Json json = {{"format", "sluice-roll-back"},
               {"version", 1},
               {"step", back.step},
               {"abandoned", back.number},
               {"record", toJson(back.record)}};
  replaceFile(run / rollBackJournal,
              asBytes(json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"));
}

Return readJournal(const Path &run) {
  Path path = run / rollBackJournal;
  Json value = readJson(readText(path, "journal of a run that goes back"), path.string(),
                        "the journal of a run that goes back", damagedJournalRemedy);
  StrictJson json(value, path.string(), damagedJournalRemedy);
  json.keys({"format", "version", "step", "abandoned", "record"});
  json.at("format").matchChoice({"sluice-roll-back"});
  json.at("version").integer(1, 1);
  return {json.at("step").integer(), json.at("abandoned").integer(1),
          parseRunRecord(json.at("record"))};
}

std::vector<int64_t> listLater(const Path &run, int64_t step) {
  std::vector<int64_t> later = checkpointSteps(run);
  std::erase_if(later, [&](int64_t each) { return each <= step; });
  return later;
}

/// Copies the lines after the step, and the current record, to the folder in RUN/abandoned.
void copyLater(const Path &run, const Return &back, const std::function<void()> &afterEach) {
  Path folder = getFolder(run, back);
  auto copy = [&](const char *file, const std::string &text) {
    // An interrupted roll-back may have copied it already.
    if (!text.empty() && !isThere(folder / file)) {
      replaceFile(folder / file, asBytes(text));
      afterEach();
    }
  };
  for (const char *file : lineFiles) {
    copy(file, linesAfter(run / file, back.step));
  }
  if (isThere(run / "run.json")) {
    copy("run.json", readText(run / "run.json", "record of a run"));
  }
}

/// Makes the checkpoint of the step the latest one, and then moves later ones, so that readers
/// always find a checkpoint. The run is not trained while the journal exists, so all later
/// checkpoints must move.
void moveCheckpoints(const Path &run, const Return &back, const std::function<void()> &afterEach) {
  Path checkpoints = run / "checkpoints", folder = getFolder(run, back) / "checkpoints";
  replaceFile(run / "latest", asBytes(std::to_string(back.step) + "\n"));
  afterEach();
  for (int64_t each : listLater(run, back.step)) {
    moveFile(checkpoints / std::to_string(each), folder / std::to_string(each));
    afterEach();
  }
  syncFolder(folder);
  syncFolder(checkpoints);
}

void follow(const Path &run, const Return &back, const std::function<void()> &afterEach) {
  makeFolder(getFolder(run, back) / "checkpoints");
  afterEach();
  copyLater(run, back, afterEach);
  moveCheckpoints(run, back, afterEach);
  for (const char *file : lineFiles) {
    keepLinesUpTo(run / file, back.step);
    afterEach();
  }
  writeRunRecord(run, back.record);
  afterEach();
  std::filesystem::remove(run / rollBackJournal);
  syncFolder(run);
}

} // namespace

std::optional<RunRecord> readRunRecordAt(const Path &run, std::optional<int64_t> from) {
  std::optional<RunRecord> record = readRunRecord(run);
  if (!record || !from) {
    return record;
  }
  const std::string specHash = readTrainingState(run, from).specHash;
  size_t kept = 0;
  for (size_t i = 0; i < record->changes.size(); ++i) {
    const SpecChange &change = record->changes[i];
    if (change.step <= *from && change.specHash == specHash) {
      kept = i + 1;
    }
  }
  record->changes.resize(kept);
  return record;
}

Path rollBack(const Path &run, int64_t step, const RunRecord &record,
              const std::function<void()> &afterEach) {
  bool isLatest = latestStep(run) == step && listLater(run, step).empty();
  if (isLatest && std::ranges::all_of(lineFiles, [&](const char *file) {
        return linesAfter(run / file, step).empty();
      })) {
    return {};
  }
  Return back{step, chooseNumber(run), record};
  writeJournal(run, back);
  afterEach();
  follow(run, back, afterEach);
  return getFolder(run, back);
}

void completeRollBack(const Path &run, const Notice &notice,
                      const std::function<void()> &afterEach) {
  if (!isThere(run / rollBackJournal)) {
    return;
  }
  RunLock lock(run);
  if (!isThere(run / rollBackJournal)) { // the previous owner of the lock completed it
    return;
  }
  Return back = readJournal(run);
  follow(run, back, afterEach);
  if (notice) {
    notice("an earlier call began to go back to step " + std::to_string(back.step) +
           ", which is complete now: what came after it moved to " + getFolder(run, back).string());
  }
}

} // namespace sluice::runtime
