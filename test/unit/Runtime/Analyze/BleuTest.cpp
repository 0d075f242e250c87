// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Analyze/Bleu.h"
#include "Analyze/RecordedMetrics.h"

#include <cmath>

using namespace sluice::runtime;
using namespace sluice::test;

namespace {

double computeBleu(const std::string &text, const Words &references,
                   BleuSmoothing smoothing = BleuSmoothing::None) {
  CorpusBleu corpus;
  std::vector<Words> split;
  for (const std::string &reference : references) {
    split.push_back(splitUnicodeWords(reference));
  }
  corpus.add(splitUnicodeWords(text), split);
  return corpus.compute(smoothing).bleu / 100;
}

TEST(Bleu, ReferenceItselfHasOne) {
  EXPECT_NEAR(computeBleu("a b c d e", {"a b c d e"}), 1, 1e-12);
  EXPECT_NEAR(computeBleu("a b c d e", {"v w x y z", "a b c d e"}), 1, 1e-12);
  EXPECT_EQ(computeBleu("a b c d", {"a b c x"}), 0); // no 4-gram matches: no smoothing
  EXPECT_EQ(computeBleu("", {"a b c d"}), 0);
  EXPECT_EQ(computeBleu("a b c d", {}), 0);
  // A correct text of half the reference's length: only the brevity penalty.
  EXPECT_NEAR(computeBleu("a b c d", {"a b c d e f g h"}), std::exp(-1), 1e-12);
}

/// Precisions are 5/6, 4/5, 3/4 and 2/3; swapping text and reference gives another number.
TEST(Bleu, CountsAreClippedByTheReferences) {
  double expected = std::pow(5 / 6.0 * 4 / 5.0 * 3 / 4.0 * 2 / 3.0, 0.25);
  EXPECT_NEAR(computeBleu("a b c d e x", {"a b c d e"}), expected, 1e-12);
  EXPECT_NEAR(computeBleu("a b c d e", {"a b c d e x"}), std::exp(-0.2), 1e-12);
  // Three references: a counts twice, as one of them contains it twice, and not three times.
  EXPECT_NEAR(computeBleu("a a a b c d e", {"a a z", "a b c d e", "a"}),
              std::pow(6 / 7.0 * 5 / 6.0 * 3 / 5.0 * 2 / 4.0, 0.25), 1e-12);
}

/// Counts n-grams of all texts before taking the mean, and adds lengths.
TEST(Bleu, IsComputedOverTheCorpus) {
  CorpusBleu corpus;
  corpus.add(Words{"a", "b", "c", "d"},
             std::vector<Words>{{"a", "b", "c", "d"}, {"a", "b", "c", "d", "e"}});
  corpus.add(Words{"x", "y"}, std::vector<Words>{{"x", "z", "w"}, {"v"}});
  // Closest lengths: 4, and of 1 and 3 the shorter.
  BleuScore score = corpus.compute(BleuSmoothing::None);
  EXPECT_NEAR(score.bleu, 100 * std::pow(5 / 6.0 * 3 / 4.0, 0.25), 1e-12);
  EXPECT_EQ(score.matched, (std::array<int64_t, 4>{5, 3, 2, 1}));
  EXPECT_EQ(score.grams, (std::array<int64_t, 4>{6, 4, 2, 1}));
  EXPECT_EQ(score.tokens, 6);
  EXPECT_EQ(score.referenceTokens, 5);
}

/// Precisions are 3/4 and 1/3, and of half a match and of a quarter.
TEST(Bleu, PrecisionsWithoutAMatchAreSmoothed) {
  EXPECT_NEAR(computeBleu("a b x d", {"a b c d"}, BleuSmoothing::Exponential),
              std::pow(3 / 4.0 * 1 / 3.0 * (0.5 / 2) * (0.25 / 1), 0.25), 1e-12);
  EXPECT_EQ(computeBleu("a b c", {"a b c"}, BleuSmoothing::Exponential), 0); // has no 4-gram
  EXPECT_EQ(computeBleu("v w x y", {"a b c d"}, BleuSmoothing::Exponential), 0);
}

TEST(Bleu, WordsEndAtSpacesOfUnicode) {
  EXPECT_EQ(splitUnicodeWords(" a\u00a0b\u2003\u3000c\x1c\x1f\u0085d\t\r"),
            (Words{"a", "b", "c", "d"}));
  EXPECT_EQ(splitUnicodeWords("a\u200bb\u2007c\u180e"), (Words{"a\u200bb", "c\u180e"}));
  EXPECT_TRUE(splitUnicodeWords("\u2028 \u205f").empty());
  // Bytes that are not UTF-8, the last of which precedes U+0085.
  EXPECT_EQ(splitUnicodeWords("a\xff \x85\xa0 \xe2\xc2\x85z"),
            (Words{"a\xff", "\x85\xa0", "\xe2", "z"}));
}

TEST(Bleu, Tokenizer13aAgreesWithSacrebleu) {
  for (const nlohmann::json &line : readRecorded("tokens_13a")) {
    EXPECT_EQ(tokenize13a(line[0].get<std::string>()), line[1].get<Words>()) << line[0];
  }
}

TEST(Bleu, CorporaAgreeWithSacrebleu) {
  for (const RecordedCorpus &corpus : readRecordedCorpora()) {
    for (auto [name, tokenize] : {std::pair("13a", &tokenize13a), {"none", &splitUnicodeWords}}) {
      CorpusBleu bleu;
      for (size_t text = 0; text < corpus.texts.size(); ++text) {
        bleu.add(tokenize(corpus.texts[text]), corpus.getReferences(text, tokenize));
      }
      BleuScore score = bleu.compute(BleuSmoothing::Exponential);
      const nlohmann::json &values = corpus.values;
      EXPECT_NEAR(score.bleu, values["bleu-" + std::string(name)], 1e-9) << values;
      EXPECT_EQ((nlohmann::json{score.tokens, score.referenceTokens}),
                values["tokens-" + std::string(name)]);
    }
  }
}

} // namespace
