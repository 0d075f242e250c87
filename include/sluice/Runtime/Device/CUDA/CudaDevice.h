// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs launches on an NVIDIA GPU.
#pragma once

#include "sluice/Runtime/Device/Device.h"

namespace sluice::runtime {

/// Creates a device for the first NVIDIA GPU that the driver reports. `target` selects the code
/// (sm_80, sm_90a); if it is empty, the best match is used. Throws UserError if there is no driver,
/// GPU, memory or matching code. The driver is libcuda.so.1, or the library in the environment
/// variable SLUICE_CUDA_DRIVER.
std::unique_ptr<Device> makeCudaDevice(std::shared_ptr<const Artifact> artifact,
                                       const std::string &target = "");

} // namespace sluice::runtime
