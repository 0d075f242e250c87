// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "CudaLaunch.h"

#include "Device/HostLaunch.h"
#include "sluice/Support/Error.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

namespace sluice::runtime::cuda {

LoadedFunctions::LoadedFunctions(const Driver &driver, const Artifact &artifact,
                                 const std::string &target, bool takesCubin,
                                 int64_t mostSharedBytes)
    : driver(driver), artifact(artifact), target(target) {
  for (const PlanKernel &kernel : artifact.plan().kernels) {
    const DeviceVariant &variant = requireVariant(artifact, kernel, target);
    modules.push_back(loadModule(variant.module, takesCubin));
    std::vector<Loaded> stages;
    for (const DeviceStage &stage : variant.stages) {
      Function function = nullptr;
      driver.check(driver.moduleGetFunction(&function, modules.back().get(), stage.symbol.c_str()),
                   "find the kernel " + stage.symbol + " in " + variant.module);
      reserveShared(kernel, stage, function, mostSharedBytes);
      stages.push_back({&stage, function});
    }
    kernels.push_back(std::move(stages));
  }
}

/// Requests the shared memory that the driver reports, since the compiler may not have run ptxas.
void LoadedFunctions::reserveShared(const PlanKernel &kernel, const DeviceStage &stage,
                                    Function function, int64_t mostSharedBytes) const {
  constexpr int64_t sharedWithoutAsking = 48 << 10;
  int fixed = 0;
  driver.check(driver.functionGetAttribute(&fixed, functionSharedBytes, function),
               "report the shared memory of " + stage.symbol);
  int64_t all = stage.sharedBytes + fixed;
  if (all > mostSharedBytes) {
    throw UserError(artifact.path() + ": kernel \"" + kernel.name + "\" needs " +
                    std::to_string(all) + " bytes of shared memory per block (" +
                    std::to_string(fixed) + " of them static), expected at most the " +
                    std::to_string(mostSharedBytes) +
                    " that this GPU has; run on a GPU with as much as an A100 or H100, or use "
                    "--device cpu");
  }
  if (all > sharedWithoutAsking) {
    driver.check(driver.functionSetAttribute(function, functionMaxDynamicSharedBytes,
                                             static_cast<int>(stage.sharedBytes)),
                 "reserve shared memory for " + stage.symbol);
  }
}

Owned<Module> LoadedFunctions::loadModule(const std::string &name, bool takesCubin) {
  std::span<const uint8_t> cubin = artifact.blob(name + "_cubin");
  if (!takesCubin || cubin.empty()) {
    return {compilePtx(name), driver.moduleUnload};
  }
  Module module = nullptr;
  Result result = driver.moduleLoadData(&module, cubin.data());
  if (result == success) {
    return {module, driver.moduleUnload};
  }
  auto start = std::chrono::steady_clock::now();
  Owned<Module> compiled(compilePtx(name), driver.moduleUnload);
  refusal.why = refusal.count++ == 0 ? driver.explain(result) : refusal.why;
  refusal.seconds +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return compiled;
}

std::string LoadedFunctions::notice() const {
  if (refusal.count == 0) {
    return "";
  }
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%.1f", refusal.seconds);
  return artifact.path() + ": expected a driver that takes the machine code for " + target +
         " in the artifact, found one that refused " + std::to_string(refusal.count) + " of " +
         std::to_string(modules.size()) + " kernels (" + refusal.why +
         "); it compiled their PTX instead, which took " + seconds +
         " s and may give slower kernels than the ledger has. Update the driver, or compile the "
         "spec with the ptxas of a CUDA release that the driver knows";
}

std::string joinNotices(const std::string &first, const std::string &second) {
  return first + (first.empty() || second.empty() ? "" : "\nsluice: ") + second;
}

Module LoadedFunctions::compilePtx(const std::string &name) const {
  std::span<const uint8_t> ptx = artifact.blob(name + "_ptx");
  if (ptx.empty()) {
    throw UserError(artifact.path() + ": expected the PTX of " + name +
                    ", found none; compile the spec again");
  }
  std::string text(ptx.begin(), ptx.end()); // with a terminating zero, which the driver requires
  std::string log(8192, '\0');              // the driver compiler's error messages
  int options[] = {jitErrorLog, jitErrorLogBytes};
  void *values[] = {log.data(), reinterpret_cast<void *>(log.size() - 1)};
  Module module = nullptr;
  Result result = driver.moduleLoadDataEx(&module, text.c_str(), 2, options, values);
  std::string said = log.c_str();
  driver.check(result, "compile the PTX of " + name + (said.empty() ? "" : " (" + said + ")"));
  return module;
}

void LoadedFunctions::launch(const Launch &launch, Address arena, Address arguments,
                             Stream stream) const {
  void *parameters[] = {&arena, &arguments};
  for (const Loaded &loaded : kernels[static_cast<size_t>(launch.kernel)]) {
    const DeviceStage &stage = *loaded.stage;
    driver.check(driver.launchKernel(loaded.function, static_cast<unsigned>(stage.blocks), 1, 1,
                                     static_cast<unsigned>(stage.threads), 1, 1,
                                     static_cast<unsigned>(stage.sharedBytes), stream, parameters,
                                     nullptr),
                 "launch " + stage.symbol + " of kernel \"" +
                     artifact.plan().kernels[static_cast<size_t>(launch.kernel)].name + "\"");
  }
}

} // namespace sluice::runtime::cuda
