// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Statistics of texts as sequences of words: n-gram perplexity, counts of n-grams, repeated
// n-grams.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace sluice::runtime {

using Words = std::vector<std::string>;

/// Returns the words of a text: maximal runs without whitespace (bytes 9 to 13 and 32).
Words splitWords(std::string_view text);

/// Occurrences by n-gram. A space separates the words of a gram.
using GramCounts = std::unordered_map<std::string, int64_t>;

/// Counts the n-grams, n >= 1, of words without spaces.
GramCounts countGrams(std::span<const std::string> words, size_t n);

/// Interpolated Kneser-Ney smoothing over words (Chen and Goodman 1999, section 3.3), with one
/// discount per order, D = n1 / (n1 + 2 n2). In the highest order c(h w) is the number of
/// occurrences of w after h; in lower orders it is the number of distinct words before h w:
///   P(w | h) = max(c(h w) - D, 0) / c(h .) + D N(h .) / c(h .) P(w | h'),
/// where h' is h without its first word, and N(h .) is the number of distinct words after h. The
/// recursion ends in 1 / (V + 1): V words are known, and all others count as one.
class WordModel {
public:
  /// `order` from 1 to 6: a word and order - 1 words of history.
  explicit WordModel(int order);

  /// Counts every word after its history in `words`. Call it once.
  void train(const Words &words);

  /// Returns P(word | the last order - 1 words of history).
  double probability(const Words &history, const std::string &word) const;
  /// Returns the sum of -log2 P over the words from index `first` on, each given the words before
  /// it.
  double bits(const Words &words, size_t first = 0) const;
  size_t vocabulary() const { return ids.size(); }

private:
  using Gram = std::u32string; // word ids
  struct Follow {
    double total = 0, kinds = 0;
  };
  struct GramOrder {
    std::unordered_map<Gram, double> counts;
    std::unordered_map<Gram, Follow> follows; // by history
    double discount = 0;
  };
  Gram getIds(const Words &words) const;
  double probability(const Gram &history, char32_t word) const;

  size_t order;
  std::unordered_map<std::string, char32_t> ids; // from 1; 0: an unknown word
  std::vector<GramOrder> orders;                 // [n - 1]: grams of n words
};

/// Returns the shares of the n-grams of a text, n = 1 to 4, that occurred in it before; 0 if it has
/// no n-grams.
std::array<double, 4> repeats(const Words &words);

} // namespace sluice::runtime
