// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "CutText.h"

#include "sluice/Runtime/Execute/Evaluator.h"

#include <cmath>

namespace sluice::cli {

using namespace sluice;
using namespace sluice::runtime;

std::string describeCut(const BoundaryFacts &boundaries) {
  if (!boundaries.parent.empty()) {
    return "the segments \"" + boundaries.parent + "\"";
  }
  return boundaries.factor == 1 ? "" : "groups of " + std::to_string(boundaries.factor);
}

SegmentedText cutText(Executor &executor, const BoundaryFacts &boundaries, const ByteFile &text,
                      int64_t mostShown, const std::function<void(double)> &progress) {
  int64_t context = executor.plan().model.context;
  bool areLogits = boundaries.numbers == BoundaryFacts::BoundaryEncoding::logits;
  ByteCursor bytes(text.bytes);
  SegmentedText found;
  found.name = boundaries.name;
  found.isRouted = boundaries.numbers == BoundaryFacts::BoundaryEncoding::probabilities;
  found.isPredicted = areLogits || found.isRouted;
  found.begins = boundaries.begins;
  found.mostShown = mostShown;
  auto add = [&](std::span<const float> row) {
    double number = row.front();
    double probability = areLogits ? 1 / (1 + std::exp(-(number + boundaries.shift))) : number;
    auto at = static_cast<size_t>(found.tokens);
    bool isFirst = boundaries.begins && found.tokens % context == 0; // of a window
    bool isEnd = boundaries.documentEnd && !isFirst &&
                 bytes.at(at - (boundaries.begins ? 1 : 0)) == *boundaries.documentEnd;
    probability = areLogits && (isFirst || isEnd) ? 1 : probability;
    found.add(bytes.at(at), probability);
  };
  computeRows(executor, text, 1, add, progress);
  found.finish();
  return found;
}

} // namespace sluice::cli
