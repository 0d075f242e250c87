// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Saves checkpoints of a run.
#pragma once

#include "TrainingContext.h"

namespace sluice::runtime {

/// Saves a checkpoint of the last step, unless it has one. Does so only if its weights and its loss
/// are finite. The previous checkpoint stays until a step from the new one was finite too, so that
/// the run always has a checkpoint to continue from.
void saveTraining(TrainingContext &context);

/// Saves a checkpoint of the last step after an error that left its weights valid, and reports it.
/// With a sharded state of the optimizer nothing can be saved: other processes have parts of it.
void saveAfterError(TrainingContext &context);

/// Writes the checkpoint with the losses that the state has.
void writeTrainingCheckpoint(TrainingContext &context);

} // namespace sluice::runtime
