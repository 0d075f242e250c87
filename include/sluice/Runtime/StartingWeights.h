// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Weights that a training starts from instead of an initialization.
#pragma once

#include "sluice/Runtime/Checkpoint.h"
#include "sluice/Runtime/RunRecord.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sluice::runtime {

/// Puts tensors of `path` (a run, of which `step` chooses a checkpoint, a checkpoint or a
/// safetensors file) into the executor: all, which
/// the file must then hold exactly; or with `match` those of the model's that one of these globs
/// names (* stands for any characters, dots too), which the file must hold among others. Throws
/// UserError before anything is changed: a tensor that is missing or of another shape, a glob that
/// names none.
StartingWeights startFromWeights(const Path &path, const std::vector<std::string> &match,
                                 Executor &executor, const Notice &notice = {},
                                 const WeightNames &names = {}, std::optional<int64_t> step = {});

/// Whether each frozen tensor of the plan is among those `taken`: it has no other weights. Throws
/// UserError.
void requireFrozen(const std::vector<std::string> &taken, const Plan &plan);

/// "took 3 of 17 tensors from W: a, b, c; left as initialized: d, e and 12 more"
std::string describeStart(const StartingWeights &weights);

} // namespace sluice::runtime
