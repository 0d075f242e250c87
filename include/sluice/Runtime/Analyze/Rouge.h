// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// ROUGE of a corpus, with the tokens and the counts of the Python package rouge-score.
#pragma once

#include "sluice/Runtime/Analyze/WordModel.h"

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace sluice::runtime {

/// Returns the words of a text: runs of a-z and 0-9 in lower case. Two characters other than ASCII
/// have such letters in lower case: U+212A (k), and U+0130, an i at which a word ends.
Words splitRougeWords(std::string_view text);

/// The words of each sentence of a text.
using Sentences = std::vector<Words>;

/// Splits a line at every `separator`, or not at all if it is empty.
Sentences splitSentences(std::string_view line, std::string_view separator);

/// Precision, recall and their harmonic mean, from 0 to 1.
struct RougeScore {
  double precision = 0, recall = 0, f1 = 0;
};

/// The ROUGE scores of Lin (2004) that this file computes.
enum RougeType { Rouge1, Rouge2, RougeLsum, rougeTypes };
using RougeScores = std::array<RougeScore, rougeTypes>; ///< by RougeType

/// Scores a text against one reference. ROUGE-1 and ROUGE-2 count common n-grams, also of words of
/// adjacent sentences. rougeLsum marks, in each sentence of the reference, the words of a longest
/// common subsequence with each sentence of the text; it counts marked words, each word at most as
/// often as it occurs in the text.
RougeScores computeRouge(const Sentences &text, const Sentences &reference);

/// Means over the texts of a corpus.
class CorpusRouge {
public:
  /// Adds a text. Of several references each score takes the one with the largest F1.
  void add(const Sentences &text, std::span<const Sentences> references);
  RougeScores compute() const;

private:
  RougeScores sums{};
  int64_t texts = 0;
};

} // namespace sluice::runtime
