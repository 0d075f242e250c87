// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Data/Inputs.h"

#include "sluice/Runtime/Data/Edges.h"

#include <algorithm>

namespace sluice::runtime {

void BatchInputs::write(int64_t row, const GivenLines &lines) const {
  if (!lengths.empty()) {
    lengths[static_cast<size_t>(row)] = std::ssize(tokens) / std::ssize(lengths) - 1;
  }
  for (const auto &[name, into] : given) {
    auto capacity = static_cast<size_t>(into.capacity);
    std::span<int32_t> ids = into.tokens.subspan(static_cast<size_t>(row) * capacity, capacity);
    std::ranges::fill(ids, 0);
    auto line = lines.find(name);
    auto count = line == lines.end() ? 0 : std::min(line->second.size(), capacity);
    std::copy_n(count == 0 ? nullptr : line->second.data(), count, ids.begin());
    if (!into.counts.empty()) {
      into.counts[static_cast<size_t>(row)] = static_cast<int64_t>(count);
    }
  }
  for (const auto &[name, into] : edges) {
    auto size = static_cast<size_t>(into.rows + into.entries);
    Edges pairs;
    auto line = lines.find(name);
    std::span<int32_t> own = into.lists.subspan(static_cast<size_t>(row) * size, size);
    if (into.entries == 0) {
      bool isGiven = line != lines.end() && line->second.size() == 2;
      auto rows = isGiven ? std::min(static_cast<size_t>(line->second[1]), own.size()) : 0;
      std::ranges::fill(own, -1);
      std::ranges::fill(own.first(rows), isGiven ? line->second[0] : -1);
      continue;
    }
    for (size_t i = 0; line != lines.end() && i + 1 < line->second.size(); i += 2) {
      pairs.emplace_back(line->second[i], line->second[i + 1]);
    }
    pairs.resize(std::min(pairs.size(), static_cast<size_t>(into.entries / 2)));
    writeEdgeLists(pairs, into.rows, own);
  }
}

} // namespace sluice::runtime
