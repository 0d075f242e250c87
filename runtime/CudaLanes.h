// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What of an entry may run beside what: a main lane, and a side lane for launches whose results
// nobody waits for.
#pragma once

#include "sluice/Runtime/Plan.h"

#include <vector>

namespace sluice::runtime::cuda {

/// Where a launch goes. Launches of a lane run in their order.
struct Lane {
  bool side = false;
  bool signals = false; ///< a later launch of the other lane waits for this one
  /// The launch of the other lane that must be done before, -1: none. All before it are then too.
  int64_t waitsFor = -1;
};

/// Lanes of launches [first, last) of an entry, indices as in the entry. To the side go launches
/// whose results no later one of them reads: weight gradients, sums of norms' gains, the mean loss.
/// Whatever touches memory that another writes waits for it. Workspaces count where both lanes
/// share one; `ownWorkspace`: the side lane has its own.
std::vector<Lane> assignLanes(const Plan &plan, const std::string &target,
                              const std::vector<Launch> &launches, size_t first, size_t last,
                              bool ownWorkspace);

/// A workspace, and right in front of it counters that are zero.
struct SideMemory {
  int64_t workspaceBytes = 0, counterBytes = 0;
  bool any() const { return workspaceBytes > 0 || counterBytes > 0; }
};
/// What a launch of a target's code needs.
SideMemory workspaceOf(const Plan &plan, const std::string &target, const Launch &launch);
/// What those launched on a side lane need at most.
SideMemory sideMemory(const Plan &plan, const std::string &target,
                      const std::vector<Launch> &launches, size_t first, size_t last);

} // namespace sluice::runtime::cuda
