// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Opens an executor for a loaded artifact on the CPU, a GPU or the emulator.
#pragma once

#include "sluice/Runtime/Device/CUDA/CudaDevice.h"
#include "sluice/Runtime/Execute/Executor.h"

#include <functional>
#include <memory>
#include <string>

namespace sluice::loading {

struct DeviceOptions {
  std::string device = "cpu", target, gpuTarget;
  std::string kernelCache; // driver::CompileRequest::kernelCache, of commands that compile
  int threads = 0;         // 0: all that the process may use
  runtime::GpuChoice gpu = {};
  /// Receives a line for the user about the device; null: none is shown.
  std::function<void(const std::string &)> notice = {};
};

/// Opens the executor of a loaded artifact, without a message about a leak. Throws UserError for a
/// device that the machine or the artifact does not have.
std::unique_ptr<runtime::Executor>
openExecutor(const std::shared_ptr<const runtime::Artifact> &artifact,
             const DeviceOptions &options);

} // namespace sluice::loading
