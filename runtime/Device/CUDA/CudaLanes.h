// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Assigns the launches of an entry to two streams that run concurrently: the main stream, and a
// side stream for launches whose results no other launch waits for.
#pragma once

#include "sluice/Runtime/Plan/Plan.h"

#include <vector>

namespace sluice::runtime::cuda {

/// The stream of a launch. Launches in a stream run in order.
struct Lane {
  bool side = false;
  bool signals = false; ///< a later launch of the other stream waits for this one
  /// Launch of the other stream that must finish first, and with it all launches before it; -1:
  /// none.
  int64_t waitsFor = -1;
};

/// Assigns launches [first, last) of an entry to streams; indices count from the entry's start. The
/// side stream gets launches whose results no later launch reads: gradients of weights, sums for
/// the gradients of norm gains, the mean loss. A launch waits for launches of the other stream that
/// write memory that it touches, or touch memory that it writes. Workspaces are included if both
/// streams share one; with `ownWorkspace`, the side stream has its own.
std::vector<Lane> assignLanes(const Plan &plan, const std::string &target,
                              const std::vector<Launch> &launches, size_t first, size_t last,
                              bool ownWorkspace);

/// A workspace with counters, initially zero, directly before it.
struct SideMemory {
  int64_t workspaceBytes = 0, counterBytes = 0;
  bool any() const { return workspaceBytes > 0 || counterBytes > 0; }
};
/// Returns the memory that a launch needs with a target's code.
SideMemory getWorkspace(const Plan &plan, const std::string &target, const Launch &launch);
/// Returns the maximum memory that launches in the side stream need.
SideMemory sideMemory(const Plan &plan, const std::string &target,
                      const std::vector<Launch> &launches, size_t first, size_t last);

} // namespace sluice::runtime::cuda
