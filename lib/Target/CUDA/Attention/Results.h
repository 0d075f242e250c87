// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Stores of result rows from accumulators.
#pragma once

#include "Tiles.h"

namespace sluice::cuda::attention {

/// Treatment of result rows that exist but are invalid: not written, written as zeros, or written
/// as their sums because these are zeros.
enum class Padding { Left, Zeros, Summed };

/// Stores sums[row] * scale[row] (scale may be empty) to the columns of the part, in rows from
/// `first`, with the inverse rotation if `target.rotary` is set. All lanes of each warp must call
/// it.
void storeRows(AttentionFrame &f, const Values &sums, mlir::ArrayRef<mlir::Value> scale,
               const Source &target, mlir::Value first, int64_t fragments, Padding padding);

} // namespace sluice::cuda::attention
