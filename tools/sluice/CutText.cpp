// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "CutText.h"

#include "sluice/Runtime/Execute/Predictions.h"
#include "sluice/Runtime/Generate/Generator.h"

#include <algorithm>
#include <cmath>

namespace sluice::cli {

using namespace sluice;
using namespace sluice::runtime;

namespace {

/// Reads single tokens of a text through a buffer, which suits nearly ascending indices.
class TokenCursor {
public:
  explicit TokenCursor(const ByteFile &text) : text(text) {}

  int32_t at(int64_t index) {
    constexpr int64_t pieceTokens = int64_t(1) << 16;
    if (index < start || index >= start + std::ssize(piece)) {
      start = std::max<int64_t>(0, index - 1);
      piece = text.readTokens(start, std::min(pieceTokens, text.tokenCount() - start));
    }
    return piece[static_cast<size_t>(index - start)];
  }
  /// Returns the bytes that the token adds to the text of the token before it.
  std::string spell(int64_t index) {
    if (!text.encoder) {
      return std::string(1, static_cast<char>(at(index)));
    }
    std::vector<int32_t> ids;
    for (int64_t each = std::max<int64_t>(0, index - 1); each <= index; ++each) {
      ids.push_back(at(each));
    }
    return spellText(text.encoder).spell(ids);
  }

private:
  const ByteFile &text;
  std::vector<int32_t> piece;
  int64_t start = 0;
};

} // namespace

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
  TokenCursor tokens(text);
  SegmentedText found;
  found.name = boundaries.name;
  found.isRouted = boundaries.numbers == BoundaryFacts::BoundaryEncoding::probabilities;
  found.isPredicted = areLogits || found.isRouted;
  found.begins = boundaries.begins;
  found.mostShown = mostShown;
  auto add = [&](std::span<const float> row) {
    double number = row.front();
    double probability = areLogits ? 1 / (1 + std::exp(-(number + boundaries.shift))) : number;
    int64_t at = found.tokens;
    bool isFirst = boundaries.begins && found.tokens % context == 0; // of a window
    bool isEnd = boundaries.documentEnd && !isFirst &&
                 tokens.at(at - (boundaries.begins ? 1 : 0)) == *boundaries.documentEnd;
    probability = areLogits && (isFirst || isEnd) ? 1 : probability;
    found.add(at < mostShown ? tokens.spell(at) : "", probability);
  };
  computeRows(executor, text, 1, add, progress);
  found.finish();
  return found;
}

} // namespace sluice::cli
