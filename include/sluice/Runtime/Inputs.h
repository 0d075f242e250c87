// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A batch's inputs, as the host writes them.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace sluice::runtime {

/// Of one text, the tokens of each named input.
using GivenLines = std::map<std::string, std::vector<int32_t>>;

struct BatchInputs {
  /// A named input: tokens [batch, capacity], and how many of them each row has, 0 to capacity.
  /// What stands behind a row's count is read, but reaches no prediction.
  struct Given {
    int64_t capacity = 0;
    std::span<int32_t> tokens;
    std::span<int64_t> counts;
  };

  std::span<int32_t> tokens; ///< [batch, context + 1]
  std::map<std::string, Given> given;
  /// Writes a text's named inputs as those of row `row`; none of an input that `lines` lacks.
  void write(int64_t row, const GivenLines &lines) const;
  /// [batch, context], 1 where a row counts in no loss, 0 elsewhere; empty where all count.
  std::span<float> padding;
  /// What data say of each token, [batch, width], 0 or 1: for losses alone.
  struct Labels {
    int64_t width = 0;
    std::span<float> rows;
  };
  std::map<std::string, Labels> labels = {};
  /// What data say of each token, [batch, context, width], rows `stride` numbers apart: named
  /// inputs of numbers.
  struct Numbers {
    int64_t context = 0, stride = 0;
    std::span<float> rows;
  };
  std::map<std::string, Numbers> numbers = {};
};

} // namespace sluice::runtime
