// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Functions that devices share: host memory, guards, and selection of GPU code.
#pragma once

#include "sluice/Runtime/Device/Device.h"

namespace sluice::runtime {

struct FreeHostMemory {
  void *mapping = nullptr;
  size_t mapped = 0; ///< bytes
  void operator()(uint8_t *memory) const;
};
using HostMemory = std::unique_ptr<uint8_t, FreeHostMemory>;

/// Allocates zeroed memory aligned to a huge page: without huge pages, an arena of hundreds of
/// megabytes would cause TLB misses in every matmul. Untouched pages take no memory. Throws
/// JobError if the address space is exhausted.
HostMemory allocateHost(size_t bytes);

/// Returns the complete pages of a part of memory from `allocateHost` to the system. They contain
/// zeros afterwards, and take no memory until they are written.
void releasePages(std::span<uint8_t> memory);

/// Allocates the artifact's arena in host memory and copies the constants.
HostMemory makeArena(const Artifact &artifact);

/// Checks that the integer scalar of `guard` has its value in the arena `host`; true without a
/// guard.
bool isAllowed(const Plan &plan, const std::optional<Guard> &guard, const uint8_t *host);

/// Checks that every position and every row of the batch is valid according to the scalars `length`
/// and `rows` that the host wrote.
bool isFullSize(const Plan &plan, const uint8_t *host);
/// Returns the number of rows of each text that a launch with an axis covers, in the arena `host`;
/// empty if all texts have the tokens' length.
std::span<int64_t> lengthsOfTexts(const Plan &plan, const Launch &launch, uint8_t *host);

/// Returns the code of `kernel` for a GPU target; throws UserError if there is none.
const DeviceVariant &requireVariant(const Artifact &artifact, const PlanKernel &kernel,
                                    const std::string &target);

} // namespace sluice::runtime
