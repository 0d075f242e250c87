// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Selects the GPU and the code of an artifact for it, and explains why none fits.
#pragma once

#include "CudaDriver.h"
#include "sluice/Runtime/Device/CUDA/CudaDevice.h"
#include "sluice/Runtime/Plan/Artifact.h"

#include <string>

namespace sluice::runtime::cuda {

/// A GPU and its capabilities.
struct Gpu {
  DeviceNumber number = 0;
  std::string name;
  int major = 0, minor = 0;
  int64_t mostSharedBytes = 0;

  std::string capability() const { return std::to_string(major) + "." + std::to_string(minor); }
};

/// Opens the driver if the artifact has GPU code; otherwise reports the missing code, not a missing
/// driver. Throws UserError.
const Driver &openDriver(const Artifact &artifact, const std::string &wanted);

/// Returns the chosen GPU. Throws UserError if there is none, if several processes find fewer GPUs
/// than processes, or if the driver is too old.
Gpu findGpu(const Driver &driver, const GpuChoice &choice = {});

/// Returns the best target of the artifact for `gpu`: sm_90a runs only on compute capability 9.0;
/// sm_80 runs on 8.0 and later, its cubin on 8.x. Throws UserError if none fits.
std::string chooseTarget(const Artifact &artifact, const Gpu &gpu, const std::string &wanted);

/// Returns the message for an arena of `arenaBytes` that does not fit into `free` bytes while
/// cuBLASLt's workspaces take `libraryBytes`: the planned peak, and the batch size that would fit.
std::string explainMemory(const Artifact &artifact, const Gpu &gpu, int64_t arenaBytes, size_t free,
                          size_t libraryBytes = 0);

/// Returns the bytes of pinned memory for one upload: the size of a batch's tokens, at most 4 MiB.
/// Larger ranges are uploaded from unpinned memory.
int64_t stagingBytes(const Plan &plan);

} // namespace sluice::runtime::cuda
