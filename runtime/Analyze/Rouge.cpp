// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Analyze/Rouge.h"

#include <algorithm>
#include <utility>

namespace sluice::runtime {
namespace {

RougeScore scoreHits(int64_t hits, size_t words, size_t referenceWords) {
  if (hits == 0) {
    return {};
  }
  double precision = static_cast<double>(hits) / static_cast<double>(words),
         recall = static_cast<double>(hits) / static_cast<double>(referenceWords);
  return {precision, recall, 2 * precision * recall / (precision + recall)};
}

Words joinSentences(const Sentences &sentences) {
  Words words;
  for (const Words &sentence : sentences) {
    words.insert(words.end(), sentence.begin(), sentence.end());
  }
  return words;
}

RougeScore scoreGrams(const Words &text, const Words &reference, size_t n) {
  GramCounts own = countGrams(text, n);
  int64_t hits = 0;
  for (const auto &[gram, count] : countGrams(reference, n)) {
    auto found = own.find(gram);
    hits += found == own.end() ? 0 : std::min(count, found->second);
  }
  return scoreHits(hits, text.size() - n + 1, reference.size() - n + 1); // no hits of shorter texts
}

/// Marks the words of `reference` that are in its longest common subsequence with `text`. There may
/// be several: walking back from both ends, rouge-score takes equal words, else leaves out a word
/// of the text if the subsequence is longer than without the reference's word, else the
/// reference's. That takes a bit for each pair of words.
void markCommonWords(const Words &reference, const Words &text, std::vector<bool> &marked) {
  std::vector<bool> leavesText(reference.size() * text.size());
  std::vector<int32_t> above(text.size() + 1), row(text.size() + 1); // lengths of subsequences
  for (size_t i = 0; i < reference.size(); ++i) {
    for (size_t j = 0; j < text.size(); ++j) {
      row[j + 1] = reference[i] == text[j] ? above[j] + 1 : std::max(above[j + 1], row[j]);
      leavesText[i * text.size() + j] = row[j] > above[j + 1];
    }
    std::swap(above, row);
  }
  for (size_t i = reference.size(), j = text.size(); i > 0 && j > 0;) {
    if (reference[i - 1] == text[j - 1]) {
      marked[--i] = true;
      --j;
    } else if (leavesText[(i - 1) * text.size() + j - 1]) {
      --j;
    } else {
      --i;
    }
  }
}

RougeScore scoreSubsequences(const Sentences &text, const Sentences &reference, const Words &words,
                             const Words &referenceWords) {
  GramCounts left = countGrams(words, 1), referenceLeft = countGrams(referenceWords, 1);
  int64_t hits = 0;
  for (const Words &sentence : reference) {
    std::vector<bool> marked(sentence.size());
    for (const Words &other : text) {
      markCommonWords(sentence, other, marked);
    }
    for (size_t i = 0; i < sentence.size(); ++i) {
      if (marked[i] && left[sentence[i]] > 0 && referenceLeft[sentence[i]] > 0) {
        --left[sentence[i]];
        --referenceLeft[sentence[i]];
        ++hits;
      }
    }
  }
  return scoreHits(hits, words.size(), referenceWords.size());
}

} // namespace

Words splitRougeWords(std::string_view text) {
  constexpr std::string_view kelvin = "\xe2\x84\xaa", dottedI = "\xc4\xb0";
  Words words;
  std::string word;
  auto endWord = [&] {
    if (!word.empty()) {
      words.push_back(std::exchange(word, {}));
    }
  };
  for (size_t at = 0; at < text.size(); ++at) {
    char c = text[at];
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) {
      word += c;
    } else if (c >= 'A' && c <= 'Z') {
      word += static_cast<char>(c - 'A' + 'a');
    } else if (text.substr(at).starts_with(kelvin)) {
      word += 'k';
      at += kelvin.size() - 1;
    } else {
      word += text.substr(at).starts_with(dottedI) ? "i" : ""; // and U+0307, which ends the word
      endWord();
    }
  }
  endWord();
  return words;
}

Sentences splitSentences(std::string_view line, std::string_view separator) {
  Sentences sentences;
  size_t end = separator.empty() ? std::string_view::npos : line.find(separator);
  for (; end != std::string_view::npos; end = line.find(separator)) {
    sentences.push_back(splitRougeWords(line.substr(0, end)));
    line.remove_prefix(end + separator.size());
  }
  sentences.push_back(splitRougeWords(line));
  return sentences;
}

RougeScores computeRouge(const Sentences &text, const Sentences &reference) {
  Words words = joinSentences(text), referenceWords = joinSentences(reference);
  RougeScores scores;
  scores[Rouge1] = scoreGrams(words, referenceWords, 1);
  scores[Rouge2] = scoreGrams(words, referenceWords, 2);
  scores[RougeLsum] = scoreSubsequences(text, reference, words, referenceWords);
  return scores;
}

void CorpusRouge::add(const Sentences &text, std::span<const Sentences> references) {
  RougeScores best{};
  for (const Sentences &reference : references) {
    RougeScores scores = computeRouge(text, reference);
    for (size_t type = 0; type < best.size(); ++type) {
      if (scores[type].f1 > best[type].f1) { // the first one in ties
        best[type] = scores[type];
      }
    }
  }
  for (size_t type = 0; type < best.size(); ++type) {
    sums[type].precision += best[type].precision;
    sums[type].recall += best[type].recall;
    sums[type].f1 += best[type].f1;
  }
  ++texts;
}

RougeScores CorpusRouge::compute() const {
  RougeScores means = sums;
  for (RougeScore &mean : means) {
    double count = static_cast<double>(std::max<int64_t>(texts, 1));
    mean.precision /= count;
    mean.recall /= count;
    mean.f1 /= count;
  }
  return means;
}

} // namespace sluice::runtime
