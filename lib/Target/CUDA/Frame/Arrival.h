// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Arrival counters for blocks that store partial sums in the workspace. The last block to arrive
// adds all partial sums in a fixed order, so results do not depend on which block is last.
#pragma once

#include "Frame.h"

namespace sluice::cuda {

/// Returns i1, uniform in the block: this block is the last of `blocks` blocks to arrive at counter
/// `number` (index). All threads of the block must call it. If true, everything that these blocks
/// wrote before is visible to all threads. The counter is zero before the first and after the last
/// arrival. `slot` points to 4 unused bytes of shared memory (address space 3).
mlir::Value isLastToArrive(Frame &frame, mlir::Value number, int64_t blocks, mlir::Value slot);

} // namespace sluice::cuda
