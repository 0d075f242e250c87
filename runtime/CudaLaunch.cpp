// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "CudaLaunch.h"

#include "HostLaunch.h"
#include "sluice/Runtime/Error.h"

#include <algorithm>

namespace sluice::runtime::cuda {

Code::Code(const Driver &driver, const Artifact &artifact, const std::string &target,
           bool takesCubin, int64_t mostSharedBytes)
    : driver(driver), artifact(artifact) {
  constexpr int64_t sharedWithoutAsking = 48 << 10;
  for (const Kernel &kernel : artifact.plan().kernels) {
    const DeviceVariant &variant = requireVariant(artifact, kernel, target);
    modules.push_back(loadModule(variant.module, takesCubin));
    std::vector<Loaded> stages;
    for (const Stage &stage : variant.stages) {
      Function function = nullptr;
      driver.check(driver.moduleGetFunction(&function, modules.back().get(), stage.symbol.c_str()),
                   "find the kernel " + stage.symbol + " in " + variant.module);
      if (stage.sharedBytes > mostSharedBytes) {
        throw UserError(artifact.path() + ": kernel \"" + kernel.name + "\" needs " +
                        std::to_string(stage.sharedBytes) +
                        " bytes of shared memory a block, expected at most the " +
                        std::to_string(mostSharedBytes) +
                        " that this GPU has; run on a GPU that has as much as " + target +
                        "'s data-centre chips");
      }
      if (stage.sharedBytes + stage.staticSharedBytes > sharedWithoutAsking) {
        driver.check(driver.functionSetAttribute(function, functionMaxDynamicSharedBytes,
                                                 static_cast<int>(stage.sharedBytes)),
                     "reserve shared memory for " + stage.symbol);
      }
      stages.push_back({&stage, function});
    }
    kernels.push_back(std::move(stages));
  }
}

Owned<Module> Code::loadModule(const std::string &name, bool takesCubin) const {
  Module module = nullptr;
  std::span<const uint8_t> cubin = artifact.blob(name + "_cubin");
  if (takesCubin && !cubin.empty() && driver.moduleLoadData(&module, cubin.data()) == success) {
    return {module, driver.moduleUnload};
  }
  std::span<const uint8_t> ptx = artifact.blob(name + "_ptx");
  if (ptx.empty()) {
    throw UserError(artifact.path() + ": expected the PTX of " + name +
                    ", found none; compile the spec again");
  }
  std::string text(ptx.begin(), ptx.end()); // terminated, as the driver wants it
  driver.check(driver.moduleLoadData(&module, text.c_str()), "compile the PTX of " + name);
  return {module, driver.moduleUnload};
}

void Code::launch(const Launch &launch, Address arena, Address arguments, Stream stream) const {
  void *parameters[] = {&arena, &arguments};
  for (const Loaded &loaded : kernels[static_cast<size_t>(launch.kernel)]) {
    const Stage &stage = *loaded.stage;
    driver.check(driver.launchKernel(loaded.function, static_cast<unsigned>(stage.blocks), 1, 1,
                                     static_cast<unsigned>(stage.threads), 1, 1,
                                     static_cast<unsigned>(stage.sharedBytes), stream, parameters,
                                     nullptr),
                 "launch " + stage.symbol + " of kernel \"" +
                     artifact.plan().kernels[static_cast<size_t>(launch.kernel)].name + "\"");
  }
}

/// Whether a launch may write a scalar; one whose kernel does not say what it writes may.
static bool writesScalar(const Plan &plan, const Launch &launch) {
  const std::vector<Operand> &operands = plan.kernels[static_cast<size_t>(launch.kernel)].operands;
  if (operands.empty()) {
    return true;
  }
  for (size_t i = 0; i < operands.size(); ++i) {
    for (const auto &[name, scalar] : plan.scalars) {
      int64_t begin = launch.arguments[i], end = begin + operands[i].bytes;
      if (operands[i].written && begin < scalar.offset + sizeOf(scalar.type) &&
          scalar.offset < end) {
        return true;
      }
    }
  }
  return false;
}

std::vector<Segment> cutSegments(const Plan &plan, const std::vector<Launch> &launches) {
  auto same = [](const std::optional<Guard> &a, const std::optional<Guard> &b) {
    return a.has_value() == b.has_value() &&
           (!a || (a->scalar == b->scalar && a->equals == b->equals));
  };
  std::vector<Segment> segments;
  for (size_t i = 0; i < launches.size(); ++i) {
    const std::optional<Guard> &guard = launches[i].guard;
    if (segments.empty() || !same(segments.back().guard, guard) ||
        (guard && segments.back().writesScalars)) {
      segments.push_back({guard, i, i, false, {}});
    }
    segments.back().last = i + 1;
    segments.back().writesScalars |= writesScalar(plan, launches[i]);
  }
  return segments;
}

} // namespace sluice::runtime::cuda
