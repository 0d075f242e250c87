// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Loading/DeviceOptions.h"

#include "sluice/Runtime/Device/Emulator/EmulatorDevice.h"

namespace sluice::loading {

using namespace sluice::runtime;

std::unique_ptr<Executor> openExecutor(const std::shared_ptr<const Artifact> &loaded,
                                       const DeviceOptions &options) {
  if (options.device == "cpu") {
    int threads = options.threads > 0 ? options.threads : availableThreads();
    return std::make_unique<Executor>(loaded, threads);
  }
  std::unique_ptr<Device> device = options.device == "cuda"
                                       ? makeCudaDevice(loaded, options.gpuTarget, options.gpu)
                                       : makeEmulatorDevice(loaded, options.gpuTarget);
  if (options.notice && !device->notice().empty()) {
    options.notice(device->notice());
  }
  return std::make_unique<Executor>(std::move(device));
}

} // namespace sluice::loading
