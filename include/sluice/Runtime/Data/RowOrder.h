// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The order in which training draws rows of texts.
#pragma once

#include "sluice/Runtime/Data/Data.h"

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace sluice::runtime {

/// The start of a row: the number of its text and its first token.
struct RowPlace {
  size_t text = 0;
  int64_t start = 0;
};

/// Rows of `context` + 1 tokens of several texts, as TrainingData draws them.
struct RowOrder {
  int64_t context = 0;
  uint64_t seed = 0;
  bool cyclic = false; ///< a row wraps around at the end of its text

  /// Returns the number of the first row of each text, and then the number of all rows. `sizes` are
  /// the texts' tokens, at least context + 1 (cyclic: at least context) for a text that has rows.
  std::vector<int64_t> countFirstRows(std::span<const int64_t> sizes) const;
  /// Returns the place of the row at `position`, whose index is below the number of all rows.
  /// `size` returns the tokens of a text.
  RowPlace find(DataPosition position, std::span<const int64_t> firstRow,
                const std::function<int64_t(size_t text)> &size) const;
};

} // namespace sluice::runtime
