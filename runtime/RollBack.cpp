// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/RollBack.h"

#include "sluice/Runtime/Checkpoint.h"
#include "sluice/Runtime/Metrics.h"

#include <algorithm>

namespace sluice::runtime {
namespace {

/// The first of RUN/abandoned/1, RUN/abandoned/2, ... that is not there.
Path chooseFolder(const Path &run) {
  for (int64_t number = 1;; ++number) {
    Path folder = run / "abandoned" / std::to_string(number);
    if (!isThere(folder)) {
      return folder;
    }
  }
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

Path rollBack(const Path &run, int64_t step) {
  std::vector<int64_t> later = checkpointSteps(run);
  std::erase_if(later, [&](int64_t each) { return each <= step; });
  constexpr const char *lineFiles[] = {"metrics.jsonl", "samples.jsonl"};
  bool isLatest = latestStep(run) == step && later.empty();
  if (isLatest && std::ranges::all_of(lineFiles, [&](const char *file) {
        return linesAfter(run / file, step).empty();
      })) {
    return {};
  }
  Path folder = chooseFolder(run);
  makeFolder(folder / "checkpoints");
  for (const char *file : lineFiles) {
    if (std::string lines = linesAfter(run / file, step); !lines.empty()) {
      replaceFile(folder / file, asBytes(lines));
    }
  }
  if (isThere(run / "run.json")) {
    replaceFile(folder / "run.json", asBytes(readText(run / "run.json", "record of a run")));
  }
  replaceFile(run / "latest", asBytes(std::to_string(step) + "\n"));
  for (int64_t each : later) {
    moveFile(run / "checkpoints" / std::to_string(each),
             folder / "checkpoints" / std::to_string(each));
  }
  syncFolder(folder / "checkpoints");
  syncFolder(run / "checkpoints");
  return folder;
}

} // namespace sluice::runtime
