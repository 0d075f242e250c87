// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Describes the memory of a plan.
#pragma once

#include "sluice/Runtime/Plan/Plan.h"
#include <nlohmann/json.hpp>
#include <string>

namespace sluice::runtime {

/// The maximum memory in bytes that a training or an evaluation on the CPU needs beyond the arena:
/// code and libraries, of which other processes share most, stacks, and buffers of data and
/// checkpoints (docs/memory.md#a-process).
inline constexpr int64_t mostProcessBytes = int64_t(128) << 20;

/// Returns the member "memory" of describeArtifact: sizes of the arena, its contents at the peak by
/// scale and kind, the location of the peak in a step, and the memory budget of the compilation.
nlohmann::json describeMemory(const Plan &plan);

/// Returns the memory as a table; empty if the plan has no breakdown.
std::string showMemoryTable(const Plan &plan);

} // namespace sluice::runtime
