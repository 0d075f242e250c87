// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "CudaDriver.h"

#include "sluice/Support/Error.h"

#include <cstdlib>
#include <dlfcn.h>

namespace sluice::runtime::cuda {
namespace {

std::string driverPath() {
  const char *named = std::getenv("SLUICE_CUDA_DRIVER");
  return named && *named ? named : "libcuda.so.1";
}

template <typename T> void find(void *library, const char *symbol, T &function) {
  function = reinterpret_cast<T>(::dlsym(library, symbol));
  if (!function) {
    throw UserError("--device cuda: expected a driver for CUDA 12.0 or later, found one without " +
                    std::string(symbol) + "; update NVIDIA's driver");
  }
}

Driver load(void *library) {
  Driver d{};
  auto get = [&](const char *symbol, auto &function) { find(library, symbol, function); };
  get("cuInit", d.init);
  get("cuDriverGetVersion", d.driverGetVersion);
  get("cuGetErrorName", d.getErrorName);
  get("cuGetErrorString", d.getErrorString);
  get("cuDeviceGetCount", d.deviceGetCount);
  get("cuDeviceGet", d.deviceGet);
  get("cuDeviceGetName", d.deviceGetName);
  get("cuDeviceGetAttribute", d.deviceGetAttribute);
  get("cuDevicePrimaryCtxRetain", d.primaryContextRetain);
  get("cuDevicePrimaryCtxRelease_v2", d.primaryContextRelease);
  get("cuCtxSetCurrent", d.contextSetCurrent);
  get("cuCtxGetStreamPriorityRange", d.contextGetPriorities);
  get("cuModuleLoadData", d.moduleLoadData);
  get("cuModuleLoadDataEx", d.moduleLoadDataEx);
  get("cuModuleUnload", d.moduleUnload);
  get("cuModuleGetFunction", d.moduleGetFunction);
  get("cuFuncGetAttribute", d.functionGetAttribute);
  get("cuFuncSetAttribute", d.functionSetAttribute);
  get("cuMemGetInfo_v2", d.memoryGetInfo);
  get("cuMemAlloc_v2", d.memoryAllocate);
  get("cuMemFree_v2", d.memoryFree);
  get("cuMemAllocHost_v2", d.hostAllocate);
  get("cuMemFreeHost", d.hostFree);
  get("cuMemcpyHtoDAsync_v2", d.copyToDevice);
  get("cuMemcpyDtoHAsync_v2", d.copyToHost);
  get("cuMemcpyDtoDAsync_v2", d.copyOnDevice);
  get("cuMemsetD8Async", d.memset8);
  get("cuStreamCreateWithPriority", d.streamCreate);
  get("cuStreamDestroy_v2", d.streamDestroy);
  get("cuStreamSynchronize", d.streamSynchronize);
  get("cuStreamWaitEvent", d.streamWaitEvent);
  get("cuStreamBeginCapture_v2", d.streamBeginCapture);
  get("cuStreamEndCapture", d.streamEndCapture);
  get("cuGraphInstantiateWithFlags", d.graphInstantiate);
  get("cuGraphLaunch", d.graphLaunch);
  get("cuGraphDestroy", d.graphDestroy);
  get("cuGraphExecDestroy", d.graphExecDestroy);
  get("cuEventCreate", d.eventCreate);
  get("cuEventDestroy_v2", d.eventDestroy);
  get("cuEventRecord", d.eventRecord);
  get("cuEventRecordWithFlags", d.eventRecordWithFlags);
  get("cuEventQuery", d.eventQuery);
  get("cuEventSynchronize", d.eventSynchronize);
  get("cuEventElapsedTime", d.eventElapsedTime);
  get("cuLaunchKernel", d.launchKernel);
  return d;
}

} // namespace

const Driver &Driver::open() {
  static const Driver driver = [] {
    std::string path = driverPath();
    void *library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) {
      const char *error = ::dlerror();
      throw UserError("--device cuda: expected NVIDIA's driver, found none that loads (" +
                      std::string(error ? error : path.c_str()) +
                      "); install the driver, or use --device cpu");
    }
    return load(library);
  }();
  return driver;
}

std::string Driver::explain(Result result) const {
  const char *name = nullptr, *text = nullptr;
  getErrorName(result, &name);
  getErrorString(result, &text);
  return std::string(name ? name : "error " + std::to_string(result)) +
         (text ? std::string(", ") + text : "");
}

/// Checks for errors that only a kernel can cause: bad addresses, instructions and alignment.
static bool isFault(Result result) {
  constexpr int illegalAddress = 700, illegalInstruction = 715, launchFailed = 719;
  int code = static_cast<int>(result);
  return code == illegalAddress || (code >= illegalInstruction && code <= launchFailed);
}

void Driver::check(Result result, const std::string &doing) const {
  if (isFault(result)) {
    throw JobError(
        "a GPU kernel of this artifact failed (noticed as the driver was to " + doing +
        "): " + explain(result) +
        "; this is a defect of sluice, please report it; --device emulator may report more");
  }
  if (result != success) {
    throw UserError("--device cuda: the driver failed to " + doing + ": " + explain(result));
  }
}

void Driver::copyAndWait(Address to, const void *from, size_t bytes, Stream stream,
                         const std::string &doing) const {
  check(copyToDevice(to, from, bytes, stream), doing);
  check(streamSynchronize(stream), doing);
}

} // namespace sluice::runtime::cuda
