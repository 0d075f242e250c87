// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Describes the contents and costs of an artifact from its plan.
#pragma once

#include "sluice/Runtime/Plan/Artifact.h"

#include <nlohmann/json.hpp>

#include <string>

namespace sluice::runtime {

/// Returns the object that `sluice inspect --json` prints: parameters, tensors, targets, kernels
/// (one per target, for GPUs with the ledger's columns), launches (forward, backward, update),
/// flops and bytes per training step, memory, and the proof.
nlohmann::json describeArtifact(const Artifact &artifact);

/// Formats describeArtifact for people; `withMemory` adds the table of memory and every buffer.
std::string describeForPeople(const Artifact &artifact, bool withMemory);

/// Formats a size: "1.5 KiB", "27.1 MiB".
std::string showBytes(double bytes);

} // namespace sluice::runtime
