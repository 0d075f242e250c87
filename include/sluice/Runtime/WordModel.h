// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Texts as words, and what is measured of samples: n-gram perplexity, BLEU, repeats.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace sluice::runtime {

/// What stands between whitespace (bytes 9 to 13 and 32).
std::vector<std::string> splitWords(std::string_view text);

/// Interpolated Kneser-Ney smoothing over words (Chen and Goodman 1999, section 3.3), with one
/// discount an order, D = n1 / (n1 + 2 n2). With c(h w) the occurrences of w behind h, of the
/// highest order, and below it the number of different words before h w,
///   P(w | h) = max(c(h w) - D, 0) / c(h .) + D N(h .) / c(h .) P(w | h'),     h' = h without its
///   first word,
/// N(h .) the number of different words behind h. Below one word stands 1 / (V + 1): V words are
/// known, and all others are one.
class WordModel {
public:
  /// `order` from 1 to 6: a word and order - 1 words of history.
  explicit WordModel(int order);

  /// Counts every word after the history that it has there. Once.
  void train(const std::vector<std::string> &words);

  /// P(word | the last order - 1 words of history).
  double probability(const std::vector<std::string> &history, const std::string &word) const;
  /// Sum of -log2 P of the words from the one numbered `first` on, each after those before it.
  double bits(const std::vector<std::string> &words, size_t first = 0) const;
  size_t vocabulary() const { return ids.size(); }

private:
  using Gram = std::u32string; // ids
  struct Follow {
    double total = 0, kinds = 0;
  };
  struct Order {
    std::unordered_map<Gram, double> counts;
    std::unordered_map<Gram, Follow> follows; // by history
    double discount = 0;
  };
  Gram idsOf(const std::vector<std::string> &words) const;
  double probability(const Gram &history, char32_t word) const;

  size_t order;
  std::unordered_map<std::string, char32_t> ids; // from 1; 0 is a word that was never seen
  std::vector<Order> orders;                     // [n - 1]: grams of n words
};

/// BLEU of a corpus (Papineni et al. 2002), without smoothing: the geometric mean of the clipped
/// precisions of 1- to 4-grams, counted over all texts, times the brevity penalty. A gram counts as
/// often as one reference has it at most; a text's reference length is the closest one, of two the
/// shorter.
class CorpusBleu {
public:
  void add(const std::vector<std::string> &text,
           const std::vector<std::vector<std::string>> &references);
  /// From 0 to 1; 0 where no gram of some size matches.
  double compute() const;

private:
  std::array<double, 4> matched{}, all{}; // [n - 1]: grams of n words
  double referenceWords = 0;
};

/// Of the n-grams of a text, n = 1 to 4, the shares that occurred in it before; 0 where it has
/// none.
std::array<double, 4> repeats(const std::vector<std::string> &words);

} // namespace sluice::runtime
