// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Transforms/PackMemory.h"

#include <algorithm>

/// Sorts ranges and merges the ones that overlap or touch.
static void mergeRanges(std::vector<std::pair<int64_t, int64_t>> &ranges) {
  std::sort(ranges.begin(), ranges.end());
  size_t last = 0;
  for (size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[i].first <= ranges[last].second) {
      ranges[last].second = std::max(ranges[last].second, ranges[i].second);
    } else {
      ranges[++last] = ranges[i];
    }
  }
  ranges.resize(ranges.empty() ? 0 : last + 1);
}

/// A run that overlaps a range does so until it starts after the range, so no offset is missed.
int64_t sluice::lowestOffset(std::vector<std::pair<int64_t, int64_t>> taken, const Runs &runs,
                             int64_t alignment) {
  mergeRanges(taken);
  int64_t offset = 0;
  for (int64_t free = 0, run = 0; free < runs.count; run = (run + 1) % runs.count) {
    int64_t begin = offset + run * runs.stride;
    auto met = std::upper_bound(taken.begin(), taken.end(), begin,
                                [](int64_t at, const auto &range) { return at < range.second; });
    if (met == taken.end() || met->first >= begin + runs.bytes) {
      ++free;
      continue;
    }
    int64_t behind = met->second - run * runs.stride;
    offset = (behind + alignment - 1) / alignment * alignment;
    free = 0;
    run = runs.count - 1; // restart from the first run
  }
  return offset;
}
