// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Train/Epochs.h"

#include "OpenedData.h"
#include "sluice/Runtime/Train/RollBack.h"

#include <algorithm>

namespace sluice::runtime {

/// Returns the state that a resumed run continues from; the initial state if there is none.
static TrainingState readStart(const TrainingOptions &options) {
  bool hasCheckpoint =
      options.resume && isFolder(options.run) && newestCheckpoint(options.run) >= 0;
  return hasCheckpoint ? readTrainingState(options.run, options.from) : TrainingState();
}

EpochSteps countSteps(TrainingOptions &options, const Plan &plan, int64_t epochs) {
  std::optional<RunRecord> told =
      options.resume ? readRunRecordAt(options.run, options.from) : std::nullopt;
  int64_t seed = options.seed.value_or(told ? told->seed : plan.model.seed);
  options.opened =
      std::make_shared<OpenedData>(OpenedData{plan, RunData(options.run, options.resume), nullptr});
  OpenedData &opened = *options.opened;
  opened.source = opened.files.openTraining(options.data, opened.plan, static_cast<uint64_t>(seed));

  TrainingState start = readStart(options);
  EpochSteps result{opened.source->rowsPerEpoch(), plan.model.batch * plan.accumulate};
  int64_t left = epochs * result.rows - (static_cast<int64_t>(start.position.epoch) * result.rows +
                                         static_cast<int64_t>(start.position.index));
  int64_t more = std::max<int64_t>(0, left);
  result.steps = start.step + (more + result.rowsOfUpdate - 1) / result.rowsOfUpdate;
  result.isOver = -left >= result.rowsOfUpdate; // else the last step read these rows
  return result;
}

} // namespace sluice::runtime
