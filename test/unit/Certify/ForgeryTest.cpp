// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Forged graphs: ops, relations, factors, operands, order, values that are missing, in certificates
// that count their lines and obligations right. Each is refused, by the table and the theorem or by
// the expansion of the spec's stages; the same graph in other words is not.
#include "Corpus.h"
#include "sluice/Proof/SegmentBounds.h"

#include <gtest/gtest.h>
#include <numeric>
#include <regex>
#include <set>

using namespace sluice::test;

namespace {

const std::vector<std::string> families = {"models/tiny/nested.json",
                                           "models/tiny/top-down.json",
                                           "models/tiny/copy.json",
                                           "models/tiny/retina.json",
                                           "test/causality/segments/words-late.json",
                                           "test/causality/segments/attend.json",
                                           "test/golden/lsh-causal.json"};

using TextLines = std::vector<std::string>;

/// Returns the texts of the line after each replacement.
TextLines rewrite(const std::string &line,
                  const std::vector<std::pair<std::string, std::string>> &replacements) {
  TextLines made;
  for (const auto &[from, to] : replacements) {
    std::string text = std::regex_replace(line, std::regex(from), to);
    if (text != line) {
      made.push_back(text);
    }
  }
  return made;
}

/// Relations, wrong by a row, a factor, a window or a word.
TextLines forgeRead(const std::string &line) {
  return rewrite(line, {{" at p$", " at p + 1"},
                        {" at p$", " at p - 1"},
                        {" at p$", " at 2*p"},
                        {" at p$", " at floor(p/2)"},
                        {" at p$", " rows p to p"},
                        {" at p$", " keys to p"},
                        {" at p - ", " at p - 1 - "},
                        {" at p - [0-9]+", " at p"},
                        {" floor\\(p/", " floor((p + 1)/"},
                        {" floor\\(p/", " floor(p/1"},
                        {" rows (.*) to ", " rows $1 + 1 to "},
                        {" rows (.*) to (.*)", " rows $1 to $2 + 1"},
                        {" rows ", " keys "},
                        {" keys to p$", " keys to p + 1"},
                        {" keys to p$", " keys to p - 1"},
                        {" keys to p$", " keys p to p"},
                        {" keys to p$", " keys to 2*p"},
                        {" keys to p$", " keys all"},
                        {" keys all$", " keys to p"},
                        {" keys (.*)$", " keys $1 from 1"},
                        {" keys (p.*) to (.*)$", " keys $1 to $2 step 2"},
                        {"e([0-9]+)\\(p\\)", "e$1(p - 1)"},
                        {"e([0-9]+)\\(p\\)", "e1$1(p)"},
                        {"c([0-9]+)\\(p\\) - 1", "c$1(p)"},
                        {"c([0-9]+)\\(p\\)", "c$1(p + 1)"}});
}

/// Ops, operands, scales, axes and storage.
TextLines forgeValue(const std::string &line) {
  return rewrite(line, {{" map of", " linear of"},
                        {" linear of", " map of"},
                        {" norm of", " shift of"},
                        {" attention of", " map of"},
                        {" shift of", " start of"},
                        {" shorten of", " fold of"},
                        {" upsample of", " unfold of"},
                        {" embed of", " conjure of"},
                        {" select_segments of", " pool_segments of"},
                        {" attend_segments of", " pool_segments of"},
                        {" hashed_attention of", " attention of"},
                        {" of ([0-9]+)", " of 1$1"},
                        {" of ([0-9]+)", " of 0"},
                        {" of ([0-9]+)(.*) scale", " of $1 $1$2 scale"},
                        {" of ([0-9]+)", " of"},
                        {" scale ", " scale 2"},
                        {" scale [0-9]+", " scale 0"},
                        {" segments [0-9]+", ""},
                        {" segments [0-9]+", " segments 1"},
                        {" (stored|lazy)$", " given"},
                        {" stored$", " lazy"},
                        {" lazy$", " stored"},
                        {" given$", " stored"},
                        {"^(value [0-9]+ [^ ]+)", "$1x"}});
}

/// Replaces each number of a value by the map: the first one, a read's operand, the list after
/// "of".
std::string renumber(const std::string &line, const std::function<size_t(size_t)> &number) {
  static const std::regex parts[] = {
      std::regex("^((?:value|bound|read|exist|token|no-leak|prefix-invariance) )([0-9]+)()"),
      std::regex("^(read [0-9]+ [0-9]+ )([0-9]+)()"), std::regex("( of)((?: [0-9]+)+)( scale)")};
  std::string text = line;
  for (const std::regex &part : parts) {
    std::smatch found;
    if (std::regex_search(text, found, part)) {
      std::istringstream words(found[2]);
      std::string list;
      for (size_t value; words >> value;) {
        list += (found[3].length() > 0 ? " " : "") + std::to_string(number(value));
      }
      text = found.prefix().str() + found[1].str() + list + found[3].str() + found.suffix().str();
    }
  }
  return text;
}

/// The evaluation part: its values' lines in the order of `order`, without absent ones.
std::string arrange(const TextLines &lines, const std::vector<size_t> &order,
                    const std::function<size_t(size_t)> &number) {
  std::vector<std::string> blocks;
  std::string head, tail;
  size_t at = 0, obligations = 0;
  for (; !lines[at].starts_with("value "); ++at) {
    head += lines[at];
  }
  std::vector<size_t> counts;
  for (; !lines[at].starts_with("no-leak "); ++at) {
    if (lines[at].starts_with("value ")) {
      blocks.emplace_back();
      counts.push_back(0);
    }
    blocks.back() += renumber(lines[at], number);
    bool isBound = lines[at].starts_with("value ") || lines[at].starts_with("bound ");
    counts.back() += isBound ? 0 : 1;
  }
  for (size_t value : order) {
    head += blocks[value];
    obligations += counts[value];
  }
  for (; !lines[at].starts_with("end eval "); ++at, ++obligations) {
    head += renumber(lines[at], number);
  }
  head += "end eval " + std::to_string(order.size()) + " values " + std::to_string(obligations) +
          " obligations\n";
  for (++at; at < lines.size(); ++at) {
    tail += lines[at];
  }
  return head + tail;
}

std::vector<size_t> countTo(size_t n) {
  std::vector<size_t> all(n);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

/// True if the checker rejects a text; counts which half of it did.
struct ForgeryChecker {
  CorpusCase original;
  int byTable = 0, byStages = 0;

  void refuses(const std::string &text, const std::string &what) {
    certify::Answer answer = original.checkText(text);
    EXPECT_EQ(answer.status, 1) << original.spec.name << ": " << what << answer.message;
    bool isOfStages = answer.message.find("as the stages of the spec expand") != std::string::npos;
    ++(isOfStages ? byStages : byTable);
  }
};

CorpusCase readFamily(const std::string &path) {
  CorpusCase original = readCase(std::string(SLUICE_SOURCE_DIR) + "/" + path);
  EXPECT_EQ(original.check().status, 0) << original.check().message;
  return original;
}

/// The line without its line end.
std::string bare(std::string line) {
  line.pop_back();
  return line;
}

} // namespace

TEST(Forgery, RejectsForgedOpOrRelation) {
  int byTable = 0, byStages = 0;
  std::set<std::string> tried; // alike: one of each
  for (const std::string &path : families) {
    ForgeryChecker checker{readFamily(path)};
    TextLines lines = splitLines(checker.original.certificate.text);
    for (size_t i = 0; i < lines.size(); ++i) {
      std::string line = bare(lines[i]);
      bool isValue = line.starts_with("value "), isRead = line.starts_with("read ");
      for (const std::string &forged : isValue  ? forgeValue(line)
                                       : isRead ? forgeRead(line)
                                                : TextLines()) {
        std::string kind = std::regex_replace(line + forged, std::regex("[0-9]+|stages[^ ]*"), "");
        if (tried.insert(kind).second) {
          checker.refuses(with(lines, i, forged + "\n"), line + " -> " + forged);
        }
      }
    }
    EXPECT_GT(checker.byTable + checker.byStages, 0) << path;
    byTable += checker.byTable;
    byStages += checker.byStages;
  }
  std::cout << byTable << " refused by the table and the theorem, " << byStages
            << " by the stages\n";
  EXPECT_GT(byTable, 100);
  EXPECT_GT(byStages, 15);
}

/// Each read of another operand, consistent in both lines.
TEST(Forgery, RejectsForgedOperand) {
  int count = 0;
  for (const std::string &path : families) {
    ForgeryChecker checker{readFamily(path)};
    TextLines lines = splitLines(checker.original.certificate.text);
    size_t end = std::find(lines.begin(), lines.end(), "mode generate\n") - lines.begin();
    for (size_t i = 0; i < end; i += 40) {
      std::smatch found;
      std::string line = bare(lines[i]), text = checker.original.certificate.text;
      if (std::regex_match(line, found, std::regex("(read )([0-9]+) ([0-9]+) ([0-9]+)( .*)")) &&
          found[4] != "1" && found[2] != "1") {
        std::string head = "\nvalue " + found[2].str() + " ", tail = " " + found[4].str() + " ";
        size_t at = text.find(head), of = text.find(" of ", at) + 3;
        std::string other = text;
        other.replace(text.find("\n" + line + "\n") + 1, line.size(),
                      "read " + found[2].str() + " " + found[3].str() + " 1" + found[5].str());
        size_t operand = of;
        for (int n = std::stoi(found[3]); n > 0; --n) {
          operand = text.find(' ', operand + 1);
        }
        other.replace(operand + 1, found[4].str().size(), "1");
        checker.refuses(other, line);
        ++count;
      }
    }
  }
  EXPECT_GT(count, 5);
}

/// Merges a value with its only operand: its readers read the operand, and all numbers are correct.
/// Also swaps two values.
TEST(Forgery, RejectsMissingValueOrOtherOrder) {
  int missing = 0, swapped = 0;
  for (const std::string &path : families) {
    ForgeryChecker checker{readFamily(path)};
    TextLines lines = splitLines(checker.original.certificate.text);
    certify::ModelGraph graph = certify::deriveModels(checker.original.spec.text).front().evaluate;
    std::vector<size_t> all = countTo(graph.values.size());
    EXPECT_EQ(checker.original.checkText(arrange(lines, all, [](size_t n) { return n; })).status,
              0);
    if (graph.hasSegments()) {
      continue; // ends have numbers in bounds
    }
    for (size_t gone = 3; gone + 1 < graph.values.size(); gone += 12) {
      const std::vector<size_t> &from = graph.values[gone].operands,
                                &next = graph.values[gone + 1].operands;
      if (from.size() == 1) {
        std::vector<size_t> order = all;
        order.erase(order.begin() + static_cast<std::ptrdiff_t>(gone));
        checker.refuses(
            arrange(lines, order,
                    [&](size_t n) { return n == gone ? from[0] : n - (n > gone ? 1 : 0); }),
            graph.values[gone].name);
        ++missing;
      }
      if (std::find(next.begin(), next.end(), gone) == next.end()) {
        std::vector<size_t> order = all;
        std::swap(order[gone], order[gone + 1]);
        checker.refuses(arrange(lines, order,
                                [&](size_t n) {
                                  return n == gone ? gone + 1 : n == gone + 1 ? gone : n;
                                }),
                        "order of " + graph.values[gone].name);
        ++swapped;
      }
    }
    EXPECT_GT(checker.byStages, 0) << path;
  }
  EXPECT_GT(missing, 5);
  EXPECT_GT(swapped, 0);
}

TEST(Forgery, AcceptsEquivalentStatements) {
  for (const std::string &path : families) {
    CorpusCase original = readFamily(path);
    std::string text = original.certificate.text;
    for (const auto &[from, to] : std::vector<std::pair<std::string, std::string>>{
             {" at p\n", " at 1*p\n"},
             {" at p\n", " at floor((2*p + 1)/2)\n"},
             {" at p - ([0-9]+)\n", " at -$1 + p\n"},
             {" at floor\\(p/([0-9]+)\\)\n", " at floor(2*p/2) - p + floor((p)/$1)\n"},
             {" keys to p\n", " keys to p + 1 - 1\n"}}) {
      std::string same = std::regex_replace(text, std::regex(from), to);
      certify::Answer answer = original.checkText(same, text.find(" segments ") == text.npos);
      EXPECT_EQ(answer.status, 0) << path << from << answer.message;
    }
  }
}

TEST(Forgery, RejectsEarlierVersionWithARemedy) {
  CorpusCase original = readFamily("models/tiny/vanilla.json");
  std::string text = original.certificate.text;
  text.replace(text.find(" 3\n"), 2, " 2");
  certify::Answer answer = original.checkText(text);
  EXPECT_EQ(answer.status, 1);
  EXPECT_NE(answer.message.find("write it again"), answer.message.npos) << answer.message;
}
