// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Data/RowOrder.h"

#include "sluice/Support/Hash.h"

#include <algorithm>

namespace sluice::runtime {

std::vector<int64_t> RowOrder::countFirstRows(std::span<const int64_t> sizes) const {
  std::vector<int64_t> firstRow{0};
  for (int64_t size : sizes) {
    int64_t rows = cyclic ? size / context : (size - 1) / context;
    // Using one row less than fits allows each epoch to cut at other offsets.
    firstRow.push_back(firstRow.back() + (rows > 1 && !cyclic ? rows - 1 : rows));
  }
  return firstRow;
}

RowPlace RowOrder::find(DataPosition position, std::span<const int64_t> firstRow,
                        const std::function<int64_t(size_t text)> &size) const {
  uint64_t key = getEpochKey(seed, position.epoch);
  auto index = static_cast<int64_t>(
      permute(static_cast<uint64_t>(position.index), static_cast<uint64_t>(firstRow.back()), key));
  auto text = static_cast<size_t>(std::upper_bound(firstRow.begin(), firstRow.end(), index) -
                                  firstRow.begin() - 1);
  int64_t tokens = size(text), rows = firstRow[text + 1] - firstRow[text];
  // Number of possible starts of the first row.
  int64_t slack = cyclic ? tokens : tokens - rows * context;
  auto phase = static_cast<int64_t>(mix64(key + text + 1) % static_cast<uint64_t>(slack));
  return {text, (phase + (index - firstRow[text]) * context) % tokens};
}

} // namespace sluice::runtime
