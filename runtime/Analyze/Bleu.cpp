// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Analyze/Bleu.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace sluice::runtime {
namespace {

bool isAscii(char c) { return (static_cast<unsigned char>(c) & 0x80) == 0; }
bool isAsciiDigit(char c) { return c >= '0' && c <= '9'; }
bool isPeriodOrComma(char c) { return c == '.' || c == ','; }

/// Returns the number of bytes of the white space at the start of a text, by Python's str.split; 0
/// if it starts with none. Its first byte can only be the first one of a character, in texts that
/// are not UTF-8 too, so no text needs to be decoded.
size_t measureUnicodeSpace(std::string_view text) {
  char first = text.front();
  if ((first >= '\t' && first <= '\r') || (first >= '\x1c' && first <= ' ')) {
    return 1;
  }
  if (isAscii(first)) {
    return 0;
  }
  for (std::string_view space :
       {"\u0085", "\u00a0", "\u1680", "\u2000", "\u2001", "\u2002", "\u2003", "\u2004", "\u2005",
        "\u2006", "\u2007", "\u2008", "\u2009", "\u200a", "\u2028", "\u2029", "\u202f", "\u205f",
        "\u3000"}) {
    if (text.starts_with(space)) {
      return space.size();
    }
  }
  return 0;
}

/// Checks for [{-~[-` -&(-+:-@/]: printable ASCII without letters, digits, apostrophe, comma, dash
/// and period.
bool isSeparated(char c) {
  return (c >= ' ' && c <= '@' && !isAsciiDigit(c) && !isPeriodOrComma(c) && c != '\'' &&
          c != '-') ||
         (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

std::string replaceAll(std::string_view text, std::string_view from, std::string_view to) {
  std::string result;
  for (size_t at; (at = text.find(from)) != std::string_view::npos;
       text.remove_prefix(at + from.size())) {
    (result += text.substr(0, at)) += to;
  }
  return result += text;
}

/// Puts `left`, `between` and `right` around the two characters of each match, from the left and
/// without overlaps, as Python's re.sub does. A match of bytes is a match of characters: of the two
/// characters one is ASCII, and the other one is compared with ASCII.
template <typename First, typename Second>
std::string separatePairs(const std::string &text, First isFirst, Second isSecond,
                          std::string_view left, std::string_view between, std::string_view right) {
  std::string result;
  size_t at = 0;
  while (at < text.size()) {
    if (at + 1 == text.size() || !isFirst(text[at]) || !isSecond(text[at + 1])) {
      result += text[at++];
      continue;
    }
    ((((result += left) += text[at]) += between) += text[at + 1]) += right;
    at += 2;
  }
  return result;
}

} // namespace

Words splitUnicodeWords(std::string_view line) {
  Words words;
  size_t start = 0; // of the word
  auto endWord = [&](size_t end) {
    if (end > start) {
      words.emplace_back(line.substr(start, end - start));
    }
  };
  for (size_t at = 0; at < line.size();) {
    size_t space = measureUnicodeSpace(line.substr(at));
    if (space > 0) {
      endWord(at);
      start = at + space;
    }
    at += std::max<size_t>(space, 1);
  }
  endWord(line.size());
  return words;
}

Words tokenize13a(std::string_view line) {
  std::string text = replaceAll(line, "<skipped>", "");
  for (auto [entity, character] :
       {std::pair("&quot;", "\""), {"&amp;", "&"}, {"&lt;", "<"}, {"&gt;", ">"}}) {
    text = replaceAll(text, entity, character);
  }
  std::string separated = " ";
  for (char c : text) {
    isSeparated(c) ? separated.append({' ', c, ' '}) : separated += c;
  }
  separated += ' ';
  auto isOther = [](char c) { return !isAsciiDigit(c); };
  auto isDash = [](char c) { return c == '-'; };
  separated = separatePairs(separated, isOther, isPeriodOrComma, "", " ", " ");
  separated = separatePairs(separated, isPeriodOrComma, isOther, " ", " ", "");
  separated = separatePairs(separated, isAsciiDigit, isDash, "", " ", " ");
  return splitUnicodeWords(separated);
}

void CorpusBleu::add(std::span<const std::string> text, std::span<const Words> references) {
  for (size_t n = 1; n <= grams.size(); ++n) {
    GramCounts known; // maximum count of each gram in one reference
    for (const Words &reference : references) {
      for (const auto &[gram, count] : countGrams(reference, n)) {
        int64_t &most = known[gram];
        most = std::max(most, count);
      }
    }
    for (const auto &[gram, count] : countGrams(text, n)) {
      auto found = known.find(gram);
      matched[n - 1] += std::min(count, found == known.end() ? 0 : found->second);
      grams[n - 1] += count;
    }
  }
  auto distance = [&](size_t size) {
    size_t larger = std::max(size, text.size());
    return std::pair(larger - std::min(size, text.size()), size); // shorter one in ties
  };
  std::pair<size_t, size_t> closest = {SIZE_MAX, 0};
  for (const Words &reference : references) {
    closest = std::min(closest, distance(reference.size()));
  }
  tokens += std::ssize(text);
  referenceTokens += static_cast<int64_t>(closest.second);
}

BleuScore CorpusBleu::compute(BleuSmoothing smoothing) const {
  BleuScore score{
      .matched = matched, .grams = grams, .tokens = tokens, .referenceTokens = referenceTokens};
  if (tokens < referenceTokens) {
    double ratio = static_cast<double>(referenceTokens) / static_cast<double>(tokens);
    score.brevityPenalty = tokens > 0 ? std::exp(1 - ratio) : 0;
  }
  if (matched[0] == 0) {
    return score; // nor does a longer gram match
  }
  double logs = 0, share = 1;
  for (size_t n = 0; n < grams.size(); ++n) {
    double count = static_cast<double>(matched[n]);
    if (matched[n] == 0 && smoothing == BleuSmoothing::Exponential) {
      count = share /= 2;
    }
    if (grams[n] == 0 || count == 0) {
      return score;
    }
    score.precisions[n] = 100 * count / static_cast<double>(grams[n]);
    logs += std::log(score.precisions[n]) / static_cast<double>(grams.size());
  }
  score.bleu = score.brevityPenalty * std::exp(logs);
  return score;
}

} // namespace sluice::runtime
