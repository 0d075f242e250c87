// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Taking a run back to one of its checkpoints (`sluice train --resume --from STEP`).
#pragma once

#include "sluice/Runtime/RunRecord.h"

#include <optional>

namespace sluice::runtime {

/// What the run was told up to its checkpoint of step `from`: without settings that were changed
/// after it. Without `from`, all. None where the run has no record. Throws UserError where it has
/// no such checkpoint.
std::optional<RunRecord> readRunRecordAt(const Path &run, std::optional<int64_t> from);

/// Makes `latest` name the run's checkpoint of `step`. Later checkpoints move to
/// RUN/abandoned/N/checkpoints, N the first free number from 1; a copy of run.json and of the later
/// lines of metrics.jsonl and samples.jsonl is written next to them. Returns RUN/abandoned/N, or an
/// empty path where there is nothing later. Where it is interrupted, a second call completes it.
/// The later lines are still in the run's own files: keepLinesUpTo removes them.
Path rollBack(const Path &run, int64_t step);

} // namespace sluice::runtime
