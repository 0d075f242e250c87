// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Computes resources and occupancy of GPU kernels from the plan alone, without a GPU.
#pragma once

#include "sluice/Runtime/Plan/Plan.h"

#include <string>
#include <vector>

namespace sluice::runtime {

/// A GPU according to its data sheet: dense bf16 with f32 accumulation, f32, memory.
struct Chip {
  std::string name;
  double tensorFlops = 0, flops = 0, bytes = 0; // per second
  int64_t sharedBytes = 0;                      // per multiprocessor
};

/// Returns the chip assumed in estimates for a target: an A100 for sm_80, an H200 for sm_90a.
const Chip &getChip(const std::string &target);

/// Returns the chip of this name ("NVIDIA H200"), null if its data sheet is not known.
const Chip *findChip(const std::string &name);

/// Returns the share of a multiprocessor's 64 warps that blocks of this stage can fill, limited by
/// registers, shared memory and threads: 0 to 1; -1 if the registers are unknown.
double computeOccupancy(const DeviceStage &stage, const Chip &chip);

/// Returns a lower bound on the time in seconds, from flops and bytes. It is an estimate, not a
/// measurement.
double rooflineSeconds(const PlanKernel &kernel, const Chip &chip);

enum class StepPhase { forward, backward, update };

/// A launch of a training step.
struct StepLaunch {
  const Launch *launch = nullptr;
  const PlanKernel *kernel = nullptr;
  StepPhase phase = StepPhase::forward;
  bool isOfBatch = false; ///< runs for each batch of the step: an entry other than `update`
  int64_t times = 1;      ///< repetitions in the step
};

/// Returns the launches of the entries of a training step (Plan::entriesOfUpdate) in order.
std::vector<StepLaunch> listLaunchesOfStep(const Plan &plan);

/// One kernel for one GPU target, aggregated over its stages. -1 if ptxas was not available.
struct LedgerLine {
  const PlanKernel *kernel = nullptr;
  std::string target;
  const DeviceVariant *variant = nullptr;
  int64_t registers = -1, spills = -1, sharedBytes = 0; // maximum, sum, maximum
  double occupancy = -1;                                // minimum
  double rooflineSeconds = 0;
};

/// Returns a lower bound on the bytes that a training step moves with the activations that this
/// plan saves, for any grouping of launches. Activations that the forward pass saves for the
/// backward pass (found by the offsets of operands) are written and read once; parameters and their
/// states are read and written once; gradients are written and read once; inputs are read once.
int64_t leastBytesOfStep(const Plan &plan);

/// Returns a line for each GPU kernel of a plan, grouped by target.
std::vector<LedgerLine> makeLedger(const Plan &plan);

} // namespace sluice::runtime
