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

/// The same for people; `withMemory` adds every buffer.
std::string describeForPeople(const Artifact &artifact, bool withMemory);

/// "1.5 KiB", "27.1 MiB".
std::string showBytes(double bytes);

} // namespace sluice::runtime
