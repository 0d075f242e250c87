// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What devices share: host memory, guards, and which GPU code is meant.
#pragma once

#include "sluice/Runtime/Device.h"

namespace sluice::runtime {

struct FreeHostMemory {
  void *mapping = nullptr;
  size_t mapped = 0; ///< bytes
  void operator()(uint8_t *memory) const;
};
using HostMemory = std::unique_ptr<uint8_t, FreeHostMemory>;

/// Zeroed memory on a huge-page boundary: an arena of hundreds of megabytes would else miss the TLB
/// in every matmul. Pages that nobody touches take no memory. Throws JobError where there are not
/// as many addresses.
HostMemory allocateHost(size_t bytes);

/// The artifact's arena in host memory, with the constants.
HostMemory makeArena(const Artifact &artifact);

/// Whether the integer scalar of `guard` has its value in the arena `host`; true without a guard.
bool isAllowed(const Plan &plan, const std::optional<Guard> &guard, const uint8_t *host);

/// Whether every position and every row of the batch is valid, by the scalars `length` and `rows`
/// that the host wrote.
bool isFullSize(const Plan &plan, const uint8_t *host);
/// The rows of each text that a launch on an axis of segments reads, in the arena `host`; empty
/// where the length is that of the texts.
std::span<int64_t> lengthsOfSegments(const Plan &plan, const Launch &launch, uint8_t *host);

/// Code of `kernel` for a GPU target; throws UserError where it has none.
const DeviceVariant &requireVariant(const Artifact &artifact, const Kernel &kernel,
                                    const std::string &target);

} // namespace sluice::runtime
