// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Starts a training from given weights instead of an initialization.
#pragma once

#include "sluice/Runtime/Train/Checkpoint.h"
#include "sluice/Runtime/Train/RunRecord.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sluice::runtime {

/// Loads tensors into the executor from `path`: a run, whose checkpoint at `step` is used, a
/// checkpoint, or a safetensors file. Without `match`, the file must have exactly the model's
/// tensors. With `match`, loads the model's tensors whose names match one of these globs (* matches
/// any characters, including dots); the file may have others. Throws UserError, before anything is
/// changed, for a missing tensor, another shape, or a glob that matches nothing.
StartingWeights startFromWeights(const Path &path, const std::vector<std::string> &match,
                                 Executor &executor, const Notice &notice = {},
                                 const WeightNames &names = {}, std::optional<int64_t> step = {});

/// Throws UserError unless each frozen tensor of the plan is in `taken`, since it has no other
/// source of weights.
void requireFrozen(const std::vector<std::string> &taken, const Plan &plan);

/// Returns "took 3 of 17 tensors from W: a, b, c; left as initialized: d, e and 12 more".
std::string describeStart(const StartingWeights &weights);

} // namespace sluice::runtime
