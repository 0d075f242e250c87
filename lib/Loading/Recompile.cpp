// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Loading/Recompile.h"

#include "sluice/Driver/SpecFacts.h"
#include "sluice/Runtime/Device/Tuning.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/Text.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>

namespace sluice::loading {

using namespace sluice::runtime;

namespace {

/// Rejects an artifact of model IR, which is compiled only from a file.
void requireSpec(const Plan &plan, const std::vector<spec::SpecOverride> &settings) {
  size_t first = plan.model.spec.find_first_not_of(" \t\r\n");
  if (first == std::string::npos || plan.model.spec[first] != '{') {
    throw UserError((settings.empty() ? "" : settings.front().flag + ": ") +
                    "expected an artifact that was compiled from a spec, found one of model IR; "
                    "write the model as a spec");
  }
}

/// Returns the bytes of L2 cache that Linux reports for the first core, within the sizes that
/// kernels are blocked for; 0 if it reports none. Cores of a machine may differ, and the code must
/// not depend on the one that the process runs on.
int64_t getL2Bytes() {
  constexpr int64_t least = 256 << 10, most = 2 << 20;
  const std::string folder = "/sys/devices/system/cpu/cpu0/cache/index2/";
  int64_t level = 0, kibibytes = 0;
  std::ifstream(folder + "level") >> level;
  std::ifstream(folder + "size") >> kibibytes;
  return level == 2 && kibibytes > 0 ? std::clamp(kibibytes << 10, least, most) : 0;
}

/// Returns the file name of the model, so that a spec without a name keeps the model's name.
std::string getFileName(const Plan &plan) { return plan.model.name + ".json"; }

/// Settings of generation, for steps with sampled factors.
std::optional<int64_t> mainFactor(const Plan &plan) {
  return plan.factors.empty() ? std::nullopt : std::optional(plan.factors.front());
}

/// Returns the library products of the artifact.
std::vector<driver::LibraryProduct> libraryProducts(const Plan &plan) {
  std::vector<driver::LibraryProduct> list;
  for (const PlanKernel &kernel : plan.kernels) {
    for (const auto &[target, variant] : kernel.deviceVariants) {
      if (kernel.product && variant.library) {
        const Product &product = *kernel.product;
        list.push_back({target, product.rows, product.columns, product.depth, product.byInput,
                        product.type == Type::f32, variant.library->version,
                        showAlgorithm(variant.library->algorithm)});
      }
    }
  }
  return list;
}

/// Compiles in memory, with the options of `request`. `origin` names the result in messages.
std::unique_ptr<Executor> openCompiled(const driver::CompileRequest &request,
                                       const std::string &origin, const DeviceOptions &device) {
  driver::Outcome outcome = driver::compile(request);
  if (outcome.status == 3) {
    throw std::runtime_error("compiling a spec again: " + outcome.message);
  }
  if (outcome.status == 1) {
    throw JobError(outcome.message);
  }
  if (outcome.status != 0) {
    throw UserError(outcome.message);
  }
  return openExecutor(
      Artifact::fromBytes({outcome.output.begin(), outcome.output.end()}, origin, device.target),
      device);
}

} // namespace

void checkSettings(const Plan &plan, const std::vector<spec::SpecOverride> &settings) {
  requireSpec(plan, settings);
  if (auto error = driver::findSpecError(plan.model.spec, getFileName(plan), settings)) {
    throw UserError(error->format());
  }
}

const SpecFacts &requireFacts(const Plan &plan) {
  requireSpec(plan, {});
  if (!plan.facts) {
    throw UserError("expected an artifact whose plan has the facts of its spec, found one of an "
                    "earlier version; compile the spec again with this version of sluice");
  }
  return *plan.facts;
}

std::unique_ptr<Executor> recompile(const Artifact &artifact, driver::CompileRequest request,
                                    const DeviceOptions &device) {
  const Plan &plan = artifact.plan();
  requireSpec(plan, request.settings);
  request.spec = getFileName(plan);
  request.text = plan.model.spec;
  request.inMemory = true;
  request.kernelCache = device.kernelCache;
  request.factor = request.factor ? request.factor : mainFactor(plan);
  request.weights = plan.facts ? plan.facts->weights : "";
  if (device.device == "cpu") {
    artifact.requireCpu();
    request.targets = {artifact.target()};
  } else {
    request.targets = artifact.requireGpuTargets(device.device, device.gpuTarget);
    request.libraryProducts = libraryProducts(plan);
  }
  request.allowLeak = plan.verdict != "proved";
  return openCompiled(request, artifact.path(), device);
}

static std::vector<std::string> chooseCpuTargets() {
  const char *wanted = std::getenv("SLUICE_CPU_TARGET");
  if (wanted && *wanted) {
    std::string target = wanted;
    static const std::set<std::string> names{"cpu-amx", "cpu-avx512-bf16", "cpu-avx512-vnni",
                                             "cpu-avx512", "cpu-avx2"};
    if (!names.contains(target)) {
      throw UserError(
          "SLUICE_CPU_TARGET: expected cpu-amx, cpu-avx512-bf16, cpu-avx512-vnni, cpu-avx512 or "
          "cpu-avx2, found " +
          quote(target) + "; change or unset it");
    }
    return {target};
  }
  std::vector<std::string> machine = machineTargets();
  if (machine.empty()) {
    return {"cpu"};
  }
  machine.resize(machine.front() == "cpu-amx" ? 2 : 1);
  return machine;
}

void setMachine(driver::CompileRequest &request) {
  request.targets = chooseCpuTargets();
  std::vector<std::string> machine = machineTargets();
  auto runs = [&](const std::string &target) { return std::ranges::count(machine, target) > 0; };
  request.l2Bytes = std::ranges::all_of(request.targets, runs) ? getL2Bytes() : 0;
}

std::unique_ptr<Executor> compileForCpu(driver::CompileRequest request, DeviceOptions device) {
  setMachine(request);
  request.inMemory = true;
  request.allowLeak = true;
  device.device = "cpu";
  return openCompiled(request, request.spec, device);
}

} // namespace sluice::loading
