// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Plan/Ledger.h"

#include <algorithm>
#include <map>

namespace sluice::runtime {
namespace {

/// Data sheets: SXM boards, without sparsity.
const Chip a100 = {"A100 SXM 80 GB", 312e12, 19.5e12, 2.039e12, 164 << 10};
const Chip h100 = {"H100 SXM", 989e12, 67e12, 3.35e12, 228 << 10};
const Chip h200 = {"H200", 989e12, 67e12, 4.8e12, 228 << 10};

int64_t roundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

} // namespace

const Chip &getChip(const std::string &target) { return target == "sm_90a" ? h200 : a100; }

const Chip *findChip(const std::string &name) {
  auto has = [&](const char *piece) { return name.find(piece) != std::string::npos; };
  if (has("H200")) {
    return &h200;
  }
  if (has("H100") && has("HBM3")) {
    return &h100;
  }
  return has("A100-SXM4-80GB") ? &a100 : nullptr;
}

double computeOccupancy(const DeviceStage &stage, const Chip &chip) {
  if (stage.registers < 0) {
    return -1;
  }
  // Limits from CUDA's occupancy tables for compute capability 8.0 and 9.0: registers are split
  // into four parts and allocated to warps in units of 256; shared memory is allocated to blocks in
  // units of 128 bytes, plus 1 KB that the system reserves.
  constexpr int64_t mostWarps = 64, mostBlocks = 32, parts = 4, registersOfPart = 65536 / parts,
                    threadsPerWarp = 32;
  int64_t warps = (stage.threads + threadsPerWarp - 1) / threadsPerWarp;
  int64_t registersOfWarp = roundUp(std::max<int64_t>(stage.registers, 1) * threadsPerWarp, 256);
  int64_t warpsByRegisters = registersOfPart / registersOfWarp * parts;
  int64_t shared = roundUp(stage.sharedBytes + stage.staticSharedBytes, 128) + 1024;
  int64_t blocks = std::min(
      {mostBlocks, mostWarps / warps, warpsByRegisters / warps, chip.sharedBytes / shared});
  return static_cast<double>(blocks * warps) / mostWarps;
}

double rooflineSeconds(const PlanKernel &kernel, const Chip &chip) {
  bool multiplies = kernel.kind == "matmul" || kernel.kind == "attention";
  double arithmetic =
      static_cast<double>(kernel.flops) / (multiplies ? chip.tensorFlops : chip.flops);
  return std::max(arithmetic, static_cast<double>(kernel.bytes) / chip.bytes);
}

std::vector<StepLaunch> listLaunchesOfStep(const Plan &plan) {
  std::vector<StepLaunch> launches;
  for (const auto &[entry, times] : plan.entriesOfUpdate()) {
    auto found = plan.entries.find(entry);
    if (found == plan.entries.end()) {
      continue;
    }
    for (const Launch &launch : found->second) {
      bool updates = launch.phase == "update" || (launch.phase.empty() && entry == "update");
      StepPhase phase = updates                      ? StepPhase::update
                        : launch.phase == "backward" ? StepPhase::backward
                                                     : StepPhase::forward;
      launches.push_back({&launch, &plan.kernels[static_cast<size_t>(launch.kernel)], phase,
                          entry != "update", times});
    }
  }
  return launches;
}

/// Returns the bytes that a forward launch writes last before a backward launch reads them.
static int64_t savedBytes(const Plan &plan) {
  struct Written {
    bool forward = false, counted = false;
    int64_t bytes = 0;
  };
  std::map<int64_t, Written> last; // by offset
  int64_t saved = 0;
  for (const Launch &launch : plan.entries.at("gradient")) {
    const std::vector<Operand> &operands =
        plan.kernels[static_cast<size_t>(launch.kernel)].operands;
    for (size_t i = 0; i < operands.size(); ++i) {
      auto known = last.find(launch.arguments[i]);
      bool reads = !operands[i].written && launch.phase == "backward" && known != last.end();
      if (reads && known->second.forward && !known->second.counted) {
        known->second.counted = true;
        saved += known->second.bytes;
      }
    }
    for (size_t i = 0; i < operands.size(); ++i) {
      if (operands[i].written) {
        last[launch.arguments[i]] = {launch.phase == "forward", false, operands[i].bytes};
      }
    }
  }
  return saved;
}

int64_t leastBytesOfStep(const Plan &plan) {
  if (!plan.entries.contains("gradient")) {
    return 0;
  }
  int64_t bytes = 2 * savedBytes(plan) + 2 * plan.gradientsBytes;
  for (const auto &[name, input] : plan.inputs) {
    int64_t elements = 1;
    for (int64_t size : input.shape) {
      elements *= size;
    }
    bytes += elements * getByteSize(input.type);
  }
  bytes *= plan.accumulate;
  for (const Tensor &tensor : plan.tensors) {
    int64_t copies = 1 + static_cast<int64_t>(tensor.states.size());
    bytes += 2 * copies * tensor.elements() * getByteSize(Type::f32);
  }
  return bytes;
}

std::vector<LedgerLine> makeLedger(const Plan &plan) {
  std::vector<LedgerLine> lines;
  for (const std::string &target : plan.gpuTargets()) {
    const Chip &chip = getChip(target);
    for (const PlanKernel &kernel : plan.kernels) {
      auto found = kernel.deviceVariants.find(target);
      if (found == kernel.deviceVariants.end()) {
        continue;
      }
      LedgerLine line{&kernel, target, &found->second};
      line.rooflineSeconds = rooflineSeconds(kernel, chip);
      for (const DeviceStage &stage : found->second.stages) {
        double occupancy = computeOccupancy(stage, chip);
        line.occupancy = line.occupancy < 0 ? occupancy : std::min(line.occupancy, occupancy);
        line.registers = std::max(line.registers, stage.registers);
        line.spills =
            stage.spills < 0 ? line.spills : std::max<int64_t>(line.spills, 0) + stage.spills;
        line.sharedBytes = std::max(line.sharedBytes, stage.sharedBytes + stage.staticSharedBytes);
      }
      lines.push_back(line);
    }
  }
  return lines;
}

} // namespace sluice::runtime
