// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What an artifact holds and costs, from its plan.
#pragma once

#include "sluice/Runtime/Artifact.h"

#include <nlohmann/json.hpp>

#include <string>

namespace sluice::runtime {

/// The object that `sluice inspect --json` prints: parameters, tensors, targets, kernels (one a
/// target, for GPUs with the ledger's columns), launches (forward, backward, update), flops and
/// bytes a training step, memory, proof.
nlohmann::json describeArtifact(const Artifact &artifact);

/// Its "memory": sizes of the arena, what it holds when it is fullest, by scale and kind, and where
/// in a step that is; the budget it was compiled for.
nlohmann::json describeMemory(const Plan &plan);

/// The same as a table; empty where the plan does not say.
std::string showMemoryTable(const Plan &plan);

/// What describeArtifact says, for people; `withMemory` adds that table and every buffer.
std::string describeForPeople(const Artifact &artifact, bool withMemory);

/// "1.5 KiB", "27.1 MiB".
std::string showBytes(double bytes);

} // namespace sluice::runtime
