// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds arena offsets for tensors that are live at the same time.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace sluice {

/// Bytes of a tensor that are accessed in memory: `count` runs of `bytes`, `stride` apart. A whole
/// tensor is one run. If only the first rows of each text exist, there is one run per text, and
/// other tensors can use the gaps.
struct Runs {
  int64_t count = 1, stride = 0, bytes = 0;

  int64_t total() const { return count * bytes; }
  /// Returns the end of the last run.
  int64_t end() const { return (count - 1) * stride + bytes; }
};

/// Returns the lowest multiple of `alignment` at which no run overlaps one of `taken`, ranges
/// [begin, end) in any order.
int64_t lowestOffset(std::vector<std::pair<int64_t, int64_t>> taken, const Runs &runs,
                     int64_t alignment);

} // namespace sluice
