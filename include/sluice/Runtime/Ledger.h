// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a GPU kernel uses and what that allows, from the plan alone: no GPU is asked.
#pragma once

#include "sluice/Runtime/Plan.h"

#include <string>
#include <vector>

namespace sluice::runtime {

/// A GPU as its maker's data sheet has it: dense bf16 with f32 sums, f32, memory.
struct Chip {
  std::string name;
  double tensorFlops = 0, flops = 0, bytes = 0; // a second
  int64_t sharedBytes = 0;                      // a multiprocessor
};

/// The chip that estimates for a target are made for: sm_80 an A100, sm_90a an H200.
const Chip &chipOf(const std::string &target);

/// The chip of this name ("NVIDIA H200"), null where its data sheet is not known here.
const Chip *findChip(const std::string &name);

/// Share of a multiprocessor's 64 warps that blocks of this stage can fill, from registers, shared
/// memory and threads: 0 to 1. -1 where the registers are not known.
double occupancyOf(const Stage &stage, const Chip &chip);

/// Least time by flops and bytes, seconds: an estimate that no kernel beats, not a measurement.
double rooflineSeconds(const Kernel &kernel, const Chip &chip);

/// One kernel for one GPU target; numbers over its stages. -1 where ptxas was not there.
struct LedgerLine {
  const Kernel *kernel = nullptr;
  std::string target;
  const DeviceVariant *variant = nullptr;
  int64_t registers = -1, spills = -1, sharedBytes = 0; // most, sum, most
  double occupancy = -1;                                // least
  double rooflineSeconds = 0;
};

/// Least bytes of a training step that saves what this plan saves, however its launches are
/// grouped: what the forward pass leaves for the backward pass written and read once (found by the
/// offsets of operands), parameters and their states read and written once, their
/// gradients written and read once, inputs read once.
int64_t leastBytesOfStep(const Plan &plan);

/// Every GPU kernel of a plan, target by target.
std::vector<LedgerLine> makeLedger(const Plan &plan);

} // namespace sluice::runtime
