// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Train/Epochs.h"

#include "OpenedData.h"
#include "sluice/Runtime/Train/RollBack.h"

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
  bool isByLength = plan.batchTokens > 0;
  EpochSteps result{opened.source->rowsPerEpoch(),
                    isByLength ? 0 : plan.model.batch * plan.accumulate};
  int64_t passed = static_cast<int64_t>(start.position.epoch) * result.rows +
                   static_cast<int64_t>(start.position.index) - epochs * result.rows;
  // An update may have rows of two epochs, but each batch of lines by length has lines of one.
  int64_t updates = passed >= 0 ? 0
                                : opened.source->countBatches(start.position, epochs,
                                                              isByLength ? plan.model.batch
                                                                         : result.rowsOfUpdate);
  int64_t each = isByLength ? plan.accumulate : 1;
  result.steps = start.step + (updates + each - 1) / each;
  result.isOver = passed >= (isByLength ? 1 : result.rowsOfUpdate); // else the last step read these
  return result;
}

} // namespace sluice::runtime
