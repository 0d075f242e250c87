// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "CutText.h"

#include "sluice/Runtime/Evaluator.h"

#include <cmath>

namespace sluice::cli {

using namespace sluice::runtime;

std::vector<spec::Primitive> findBoundaries(const spec::Model &model) {
  std::vector<spec::Primitive> found;
  for (spec::Primitive &stage : spec::expand(model)) {
    if (stage.op() == spec::Op::Boundaries) {
      found.push_back(std::move(stage));
    }
  }
  return found;
}

std::string describeCut(const spec::Primitive &boundaries) {
  if (!boundaries.segments.empty()) {
    return "the segments \"" + boundaries.segments + "\"";
  }
  return boundaries.factor == 1 ? "" : "groups of " + std::to_string(boundaries.factor);
}

std::string bitsOf(const spec::Primitive &boundaries) {
  const auto &made = std::get<spec::Boundaries>(boundaries.settings);
  if (made.hidden > 0) {
    return boundaries.prefix + ".out";
  }
  bool isChange = made.rule == spec::BoundaryRule::SpaceLike;
  bool isForced = made.begins && made.rule != spec::BoundaryRule::Every;
  return boundaries.prefix + (isForced           ? ".begun"
                              : made.documentEnd ? ".ended"
                              : isChange         ? ".change"
                                                 : ".rule");
}

SegmentedText cutText(Executor &executor, const spec::Primitive &boundaries, const ByteFile &text,
                      int64_t mostShown, const std::function<void(double)> &progress) {
  const auto &made = std::get<spec::Boundaries>(boundaries.settings);
  int64_t context = executor.plan().model.context;
  bool areLogits = made.hidden > 0;
  ByteCursor bytes(text.bytes);
  SegmentedText found;
  found.name = made.name;
  found.isRouted = made.ratio > 0;
  found.isPredicted = areLogits || found.isRouted;
  found.begins = made.begins;
  found.mostShown = mostShown;
  double shift = made.computeLogitShift();
  auto add = [&](std::span<const float> row) {
    double number = row.front();
    double probability = areLogits ? 1 / (1 + std::exp(-(number + shift))) : number;
    auto at = static_cast<size_t>(found.tokens);
    bool isFirst = made.begins && found.tokens % context == 0; // of a window
    bool isEnd =
        made.documentEnd && !isFirst && bytes.at(at - (made.begins ? 1 : 0)) == *made.documentEnd;
    probability = areLogits && (isFirst || isEnd) ? 1 : probability;
    found.add(bytes.at(at), probability);
  };
  computeRows(executor, text, 1, add, progress);
  found.finish();
  return found;
}

} // namespace sluice::cli
