// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs launches on the CPU.
#pragma once

#include "sluice/Runtime/Device/Device.h"

namespace sluice::runtime {

/// Creates a CPU device. `threads` >= 1. Throws UserError if the artifact has no code for this CPU.
std::unique_ptr<Device> makeCpuDevice(std::shared_ptr<const Artifact> artifact, int threads);

} // namespace sluice::runtime
