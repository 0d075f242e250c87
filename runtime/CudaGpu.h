// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which GPU runs an artifact, which of its code, and what to say where none can.
#pragma once

#include "CudaDriver.h"
#include "sluice/Runtime/Artifact.h"

#include <string>

namespace sluice::runtime::cuda {

/// The GPU, and what it can run.
struct Gpu {
  DeviceNumber number = 0;
  std::string name;
  int major = 0, minor = 0;
  int64_t mostSharedBytes = 0;

  std::string capability() const { return std::to_string(major) + "." + std::to_string(minor); }
};

/// The driver, once the artifact has code for a GPU: without it nobody wants to hear of drivers.
/// Throws UserError.
const Driver &openDriver(const Artifact &artifact, const std::string &wanted);

/// The first GPU that the driver shows. Throws UserError where there is none, or the driver is too
/// old.
Gpu findGpu(const Driver &driver);

/// The target whose code `gpu` runs best: sm_90a runs on compute capability 9.0 alone; sm_80 on all
/// from 8.0 on, its cubin on 8.x. Throws UserError where none fits.
std::string chooseTarget(const Artifact &artifact, const Gpu &gpu, const std::string &wanted);

/// What to say where an arena of `arenaBytes` does not fit into the `free` bytes, those of
/// cuBLASLt's workspaces
/// (`libraryBytes`) being taken: the planned peak, and the batch that would fit.
std::string explainMemory(const Artifact &artifact, const Gpu &gpu, int64_t arenaBytes, size_t free,
                          size_t libraryBytes = 0);

/// Bytes of pinned memory for one upload: the tokens of a batch, and no more than 4 MiB. What is
/// larger is uploaded from memory that is not pinned.
int64_t stagingBytes(const Plan &plan);

} // namespace sluice::runtime::cuda
