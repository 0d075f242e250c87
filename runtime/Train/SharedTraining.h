// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Training by several processes: checks that they compute the same.
#pragma once

#include "TrainingContext.h"

namespace sluice::runtime {

/// The text with which rank 0 asks the other processes to continue from a checkpoint.
inline constexpr const char *resumeText = "resume";

/// Throws UserError on all processes if one of them has another instruction set, artifact, spec,
/// seed, goal or other data than rank 0.
void compareProcesses(const TrainingContext &context);

/// Prepares a checkpoint: compares the weights of all processes, and collects the optimizer's state
/// on rank 0 if it is sharded. Throws JobError on all processes if the weights of one of them are
/// not equal to the weights of rank 0.
void meetForSave(TrainingContext &context);

} // namespace sluice::runtime
