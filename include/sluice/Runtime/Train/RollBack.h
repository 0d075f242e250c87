// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Returns a run to one of its checkpoints (`sluice train --resume --from STEP`).
#pragma once

#include "sluice/Runtime/Train/Checkpoint.h"
#include "sluice/Runtime/Train/RunRecord.h"

#include <functional>
#include <optional>

namespace sluice::runtime {

/// Reads the record of a run as of its checkpoint at step `from`, without later changes of
/// settings; the complete record without `from`. Empty if the run has no record. Throws UserError
/// if the run has no such checkpoint.
std::optional<RunRecord> readRunRecordAt(const Path &run, std::optional<int64_t> from);

/// The journal file of a roll-back, which lists its changes. It exists from before the first change
/// of another file until after the last.
inline constexpr const char *rollBackJournal = "roll-back.json";

/// Returns the run to its state after the checkpoint at `step`: `latest` names this checkpoint, and
/// run.json contains `record`. Later checkpoints, the previous run.json, and the later lines of
/// metrics.jsonl and samples.jsonl move to RUN/abandoned/N, where N is the first free number from
/// 1. Returns RUN/abandoned/N, or an empty path if the checkpoint is the newest state and nothing
/// was changed. If the process ends early, completeRollBack performs the remaining changes.
/// `afterEach` is called after each change on the disk, for tests that end the process there.
Path rollBack(
    const Path &run, int64_t step, const RunRecord &record,
    const std::function<void()> &afterEach = [] {});

/// Completes an interrupted rollBack of an earlier process, and reports it to `notice`. Does
/// nothing if the run has no journal. Takes the run's lock. Call it before reading a run to resume.
void completeRollBack(
    const Path &run, const Notice &notice, const std::function<void()> &afterEach = [] {});

} // namespace sluice::runtime
