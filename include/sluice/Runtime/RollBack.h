// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Taking a run back to one of its checkpoints (`sluice train --resume --from STEP`).
#pragma once

#include "sluice/Runtime/Checkpoint.h"
#include "sluice/Runtime/RunRecord.h"

#include <functional>
#include <optional>

namespace sluice::runtime {

/// What the run was told up to its checkpoint of step `from`: without settings that were changed
/// after it. Without `from`, all. None where the run has no record. Throws UserError where it has
/// no such checkpoint.
std::optional<RunRecord> readRunRecordAt(const Path &run, std::optional<int64_t> from);

/// The file in a run that is going back: what is to be done, from before the first change of
/// another file until after the last.
inline constexpr const char *rollBackJournal = "roll-back.json";

/// Makes the run what it was after its checkpoint of `step`, which `latest` names then, with the
/// record `record`. Later checkpoints, run.json as it was and the later lines of metrics.jsonl and
/// samples.jsonl move to RUN/abandoned/N, N the first free number from 1. Returns RUN/abandoned/N;
/// an empty path where there is nothing later, and nothing was changed. Where the process ends
/// meanwhile, completeRollBack does the rest. `afterEach` is called after each change on the disk;
/// a test ends the process there.
Path rollBack(
    const Path &run, int64_t step, const RunRecord &record,
    const std::function<void()> &afterEach = [] {});

/// Completes a rollBack that a process began that ended meanwhile, and gives `notice` a line about
/// it. Does nothing where the run has no journal. Takes the run's lock: to be called before the run
/// is read to be resumed.
void completeRollBack(
    const Path &run, const Notice &notice, const std::function<void()> &afterEach = [] {});

} // namespace sluice::runtime
