// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Records the launches of an artifact on the emulator.
#pragma once

#include "sluice/Runtime/Device/Recording.h"

namespace sluice::runtime {

/// Runs a full training step, an evaluation and a prediction on the emulator, with random weights
/// and tokens, of which `length` tokens in `rows` rows are valid, and records each kernel once.
/// Throws JobError if a launch fails the emulator's checks.
Recording recordLaunches(const std::shared_ptr<const Artifact> &artifact, const std::string &target,
                         int64_t length, int64_t rows);

} // namespace sluice::runtime
