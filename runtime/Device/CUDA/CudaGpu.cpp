// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "CudaGpu.h"

#include "Device/HostLaunch.h"
#include "sluice/Support/Error.h"

#include <algorithm>

namespace sluice::runtime::cuda {

Gpu findGpu(const Driver &driver, const GpuChoice &choice) {
  Result started = driver.init(0);
  int count = 0;
  if (started == success) {
    started = driver.deviceGetCount(&count);
  }
  if (started == noDevice || (started == success && count == 0)) {
    throw UserError(
        "--device cuda: expected an NVIDIA GPU, found none that the driver shows; check "
        "CUDA_VISIBLE_DEVICES, or use --device cpu");
  }
  driver.check(started, "start");
  if (count < choice.processes) {
    throw UserError(
        "--device cuda: expected a GPU for each of the " + std::to_string(choice.processes) +
        " processes on this machine, found " + std::to_string(count) +
        " that the driver shows; start fewer processes on each machine (mpirun --map-by ppr:" +
        std::to_string(count) + ":node), or check CUDA_VISIBLE_DEVICES");
  }
  int version = 0;
  driver.check(driver.driverGetVersion(&version), "report its version");
  if (version < leastVersion) {
    throw UserError("--device cuda: expected a driver for CUDA 12.0 or later, found one for CUDA " +
                    std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10) +
                    "; update NVIDIA's driver");
  }
  Gpu gpu;
  driver.check(driver.deviceGet(&gpu.number, static_cast<int>(choice.number)),
               "open GPU " + std::to_string(choice.number));
  char name[256] = "";
  driver.check(driver.deviceGetName(name, sizeof name, gpu.number), "name the GPU");
  gpu.name = name;
  auto attribute = [&](Attribute which) {
    int value = 0;
    driver.check(driver.deviceGetAttribute(&value, which, gpu.number), "describe the GPU");
    return value;
  };
  gpu.major = attribute(computeCapabilityMajor);
  gpu.minor = attribute(computeCapabilityMinor);
  gpu.mostSharedBytes = attribute(mostSharedBytesOptin);
  return gpu;
}

std::string chooseTarget(const Artifact &artifact, const Gpu &gpu, const std::string &wanted) {
  if (gpu.major < 8) {
    throw UserError("--device cuda: expected a GPU of compute capability 8.0 (Ampere) or later, "
                    "found " +
                    gpu.name + " of " + gpu.capability() + "; use --device cpu");
  }
  bool isHopper = gpu.major == 9 && gpu.minor == 0;
  if (wanted == "sm_90a" && !isHopper) {
    throw UserError("--gpu-target: expected code that " + gpu.name + " of compute capability " +
                    gpu.capability() +
                    " runs, found sm_90a, which runs on 9.0 alone; leave out --gpu-target, or "
                    "give sm_80");
  }
  std::vector<std::string> targets = artifact.requireGpuTargets("cuda", wanted);
  auto has = [&](const char *target) {
    return std::count(targets.begin(), targets.end(), target) > 0;
  };
  if (isHopper && has("sm_90a")) {
    return "sm_90a";
  }
  if (!has("sm_80")) {
    throw UserError(artifact.path() + ": expected code that " + gpu.name +
                    " of compute capability " + gpu.capability() +
                    " runs (sm_80), found code for " + targets.front() +
                    "; compile the spec again with --target cpu,sm_80");
  }
  return "sm_80";
}

const Driver &openDriver(const Artifact &artifact, const std::string &wanted) {
  artifact.requireGpuTargets("cuda", wanted);
  return Driver::open();
}

/// Returns the bytes that do not grow with the batch: parameters, their gradients and states,
/// tables.
static int64_t fixedBytes(const Plan &plan) {
  int64_t bytes = 0;
  for (const Buffer &buffer : plan.buffers) {
    if (buffer.kind == "flat" || buffer.kind == "constant") {
      bytes += buffer.bytes;
    }
  }
  return bytes;
}

std::string explainMemory(const Artifact &artifact, const Gpu &gpu, int64_t arenaBytes, size_t free,
                          size_t libraryBytes) {
  const Plan &plan = artifact.plan();
  int64_t fixed = fixedBytes(plan), grows = arenaBytes - fixed;
  int64_t batch =
      (static_cast<int64_t>(free) - fixed) * plan.model.batch / std::max<int64_t>(grows, 1);
  std::string remedy = batch >= 1 && batch < plan.model.batch
                           ? "set the spec's batch to " + std::to_string(batch) +
                                 ", which would fit, and compile it again"
                           : "free memory of the GPU, or make the model smaller";
  std::string segments; // limit of the bucket
  for (const Bucket &bucket : plan.memoryBuckets) {
    if (bucket.arenaBytes == arenaBytes) {
      segments = " and at most " + std::to_string(bucket.rows) + " segments a text";
    }
  }
  return artifact.path() + ": expected " + std::to_string(arenaBytes) +
         " bytes of GPU memory for the arena at batch " + std::to_string(plan.model.batch) +
         segments + " (the plan's peak is " + std::to_string(plan.memory.peakBytes) + ")" +
         (libraryBytes > 0 ? " beside " + std::to_string(libraryBytes) + " for cuBLASLt" : "") +
         ", found " + std::to_string(free) + " free on " + gpu.name + "; " + remedy;
}

int64_t stagingBytes(const Plan &plan) {
  constexpr int64_t most = 4 << 20;
  return std::min(most, (plan.model.batch * (plan.model.context + 1) * 4 + 63) / 64 * 64);
}

} // namespace sluice::runtime::cuda
