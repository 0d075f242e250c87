// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "LossDenominators.h"

namespace sluice::runtime {

void countPadding(InputView &view, bool isMore) {
  constexpr std::string_view prefix = "padding";
  std::span<const float> marks = view.inputs().padding;
  int64_t rows = view.scalarI64("rows"), length = view.scalarI64("length"),
          context = view.plan().model.context;
  for (const auto &[name, place] : view.plan().scalars) {
    if (!name.starts_with(prefix)) {
      continue;
    }
    int64_t count = 0, first = name == prefix ? 0 : std::stoll(name.substr(prefix.size() + 1));
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t p = first; p < length; ++p) {
        count += marks[static_cast<size_t>(row * context + p)] != 0;
      }
    }
    view.scalarI64(name) = count + (isMore ? view.scalarI64(name) : 0);
  }
}

void WeightSums::add(InputView &view, bool isMore) {
  constexpr std::string_view prefix = "weights.";
  int64_t rows = view.scalarI64("rows"), length = view.scalarI64("length");
  for (const auto &[name, place] : view.plan().scalars) {
    if (!name.starts_with(prefix) || place.type != Type::f32) {
      continue;
    }
    size_t dot = name.rfind('.');
    int64_t first = std::stoll(name.substr(dot + 1));
    const BatchInputs all = view.inputs();
    const auto &numbers = all.numbers.at(name.substr(prefix.size(), dot - prefix.size()));
    double &sum = sums[name];
    sum = isMore ? sum : 0;
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t p = first; p < length; ++p) {
        sum += numbers.rows[static_cast<size_t>(row * numbers.context + p)];
      }
    }
    view.setScalarF32(name, sum > 0 ? static_cast<float>(sum) : 1.0F);
  }
}

} // namespace sluice::runtime
