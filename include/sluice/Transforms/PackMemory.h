// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Where a tensor fits among others that are alive at the same time.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace sluice {

/// Bytes that are written and read of a tensor in memory: `count` runs of `bytes`, `stride` apart.
/// All of it is one run. Where only the first rows of each text are, there is a run a text, and
/// other tensors fit between them.
struct Runs {
  int64_t count = 1, stride = 0, bytes = 0;

  int64_t total() const { return count * bytes; }
  /// The first byte behind the last run.
  int64_t end() const { return (count - 1) * stride + bytes; }
};

/// The lowest multiple of `alignment` at which no run meets one of `taken`, ranges [begin, end) in
/// any order.
int64_t lowestOffset(std::vector<std::pair<int64_t, int64_t>> taken, const Runs &runs,
                     int64_t alignment);

} // namespace sluice
