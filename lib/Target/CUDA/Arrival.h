// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Blocks that leave parts of one sum in the workspace count themselves; the last to arrive adds all
// parts, in their own order: the bits do not depend on which block it is.
#pragma once

#include "Frame.h"

namespace sluice::cuda {

/// i1, the same for all threads of the block, which all come: whether this is the last of `blocks`
/// blocks to arrive at counter `number` (index). All that these blocks wrote before is then visible
/// to all threads of this one. The counter is zero before the first has arrived and after the last.
/// `slot` points to 4 bytes of shared memory (address space 3) that hold nothing any more.
mlir::Value isLastToArrive(Frame &frame, mlir::Value number, int64_t blocks, mlir::Value slot);

} // namespace sluice::cuda
