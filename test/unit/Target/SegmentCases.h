// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Dispatches of segments, found by a scan of bits, compared with plain loops: on any target.
#pragma once

#include "RowsText.h"

#include <functional>

namespace sluice::test {

/// Runs one kernel; null if it cannot be compiled.
using SegmentRun = std::function<std::vector<Floats>(const KernelInputs &)>;
/// Compiles the kernel of a dispatch op from its text.
using SegmentMake = std::function<SegmentRun(const std::string &text)>;

/// Bits of every density, at odd sizes, f32 and bf16, dense and in padded rows; more bits than
/// ends.
void checkSegmentScans(const SegmentMake &make);
/// Pools, their gradients and the gradient of the bits; rows spread and their gradient; selected
/// rows. Sums of small integers, which are exact.
void checkSegmentRows(const SegmentMake &make);
/// Weighted sums over the neighbours of each row, compared with a dense matrix.
void checkListSums(const SegmentMake &make);

} // namespace sluice::test
