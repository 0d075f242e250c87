// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Prepares the first step of a call of `train`: starts a run, or continues it from a checkpoint.
#pragma once

#include "TrainingContext.h"

namespace sluice::runtime {

/// Removes the files of a run that was killed before its first checkpoint.
void clearKilledRun(const TrainingContext &context);

/// Starts a run: initializes the weights and writes the first files of its folder.
void beginTraining(TrainingContext &context);

/// Continues a run from its checkpoint. Throws UserError if this call does not fit the run.
void resumeTraining(TrainingContext &context);

} // namespace sluice::runtime
