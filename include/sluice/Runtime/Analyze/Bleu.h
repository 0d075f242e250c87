// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// BLEU of a corpus, with the tokens and the smoothing of sacreBLEU.
#pragma once

#include "sluice/Runtime/Analyze/WordModel.h"

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace sluice::runtime {

/// Returns the words of a line: runs without white space of Unicode, as Python's str.split does. A
/// byte that is not UTF-8 is a character of its own.
Words splitUnicodeWords(std::string_view line);

/// Returns the tokens that sacreBLEU's tokenizer 13a computes for a line without line ends:
/// entities of HTML are replaced, and punctuation of ASCII is separated, except for periods and
/// commas between digits.
Words tokenize13a(std::string_view line);

enum class BleuSmoothing {
  None,
  Exponential, ///< the k-th precision without a match is 1 / 2^k of one match (sacreBLEU's "exp")
};

/// BLEU of a corpus and the numbers that it follows from; [n - 1]: n-grams.
struct BleuScore {
  double bleu = 0;                    ///< 0 to 100
  std::array<double, 4> precisions{}; ///< 0 to 100; all 0 if no word matches
  std::array<int64_t, 4> matched{}, grams{};
  double brevityPenalty = 1;
  int64_t tokens = 0, referenceTokens = 0;
};

/// BLEU of a corpus (Papineni et al. 2002): the geometric mean of the clipped precisions of 1- to
/// 4-grams, counted over all texts, times the brevity penalty. The count of a gram is clipped to
/// its maximum in one reference. The reference length of a text is the closest one, the shorter one
/// in a tie.
class CorpusBleu {
public:
  /// Adds a text and its references, as tokens without spaces.
  void add(std::span<const std::string> text, std::span<const Words> references);
  /// Returns BLEU; 0 if no token matches, if no text has four tokens or, without smoothing, if no
  /// gram of some size matches.
  BleuScore compute(BleuSmoothing smoothing) const;

private:
  std::array<int64_t, 4> matched{}, grams{};
  int64_t tokens = 0, referenceTokens = 0;
};

} // namespace sluice::runtime
