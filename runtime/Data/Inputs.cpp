// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Data/Inputs.h"

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
}

} // namespace sluice::runtime
