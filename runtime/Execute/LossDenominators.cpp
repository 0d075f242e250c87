// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "LossDenominators.h"

#include <algorithm>

namespace sluice::runtime {

constexpr std::string_view paddingPrefix = "padding";

/// Returns the first row that a scalar of padding counts.
static int64_t getFirstRow(const std::string &scalar) {
  return scalar == paddingPrefix ? 0 : std::stoll(scalar.substr(paddingPrefix.size() + 1));
}

void ScoredRows::add(InputView &view, bool isMore) {
  std::span<const float> marks = view.inputs().padding;
  int64_t valid = view.scalarI64("rows"), length = view.scalarI64("length"),
          context = view.shape().context;
  for (const auto &[name, place] : view.plan().scalars) {
    if (!name.starts_with(paddingPrefix)) {
      continue;
    }
    int64_t &count = rows[name];
    count = isMore ? count : 0;
    for (int64_t row = 0; row < valid; ++row) {
      for (int64_t p = getFirstRow(name); p < length; ++p) {
        count += marks[static_cast<size_t>(row * context + p)] == 0;
      }
    }
  }
}

void ScoredRows::store(InputView &view, int64_t batches) const {
  int64_t valid = view.scalarI64("rows"), length = view.scalarI64("length");
  for (const auto &[name, count] : rows) {
    int64_t first = getFirstRow(name),
            each = first > 0 ? std::max<int64_t>(length - first, 1) : length;
    view.scalarI64(name) = batches * valid * each - count;
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
    auto given = all.numbers.find(name.substr(prefix.size(), dot - prefix.size()));
    if (given == all.numbers.end()) {
      continue; // the model computes it
    }
    const auto &numbers = given->second;
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

void CountedRows::add(InputView &view, bool isMore) {
  for (const CountedLoss &loss : view.plan().counted) {
    double &sum = sums[loss.loss];
    sum = (isMore ? sum : 0) + view.scalarF32(loss.sum);
  }
}

void CountedRows::store(InputView &view) const {
  for (const CountedLoss &loss : view.plan().counted) {
    double sum = sums.at(loss.loss);
    view.setScalarF32(loss.sum, static_cast<float>(sum));
    view.setScalarF32(loss.divisor, sum > 0 ? static_cast<float>(sum) : 1.0F);
  }
}

} // namespace sluice::runtime
