// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs launches on an NVIDIA GPU.
#pragma once

#include "sluice/Runtime/Device/Device.h"

namespace sluice::runtime {

/// The GPU of a process among those that the driver reports.
struct GpuChoice {
  int64_t number = 0;    ///< of the GPU, from 0: the rank among the processes of the machine
  int64_t processes = 1; ///< processes of the machine that take a GPU each
};

/// Creates a device for an NVIDIA GPU. `target` selects the code (sm_80, sm_90a); if it is empty,
/// the best match is used. Throws UserError if there is no driver, memory or matching code, or if
/// there are fewer GPUs than processes. The driver is libcuda.so.1, or the library in the
/// environment variable SLUICE_CUDA_DRIVER.
std::unique_ptr<Device> makeCudaDevice(std::shared_ptr<const Artifact> artifact,
                                       const std::string &target = "",
                                       const GpuChoice &choice = {});

} // namespace sluice::runtime
