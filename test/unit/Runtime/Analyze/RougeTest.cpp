// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Analyze/Rouge.h"
#include "Analyze/RecordedMetrics.h"

using namespace sluice::runtime;
using namespace sluice::test;

namespace {

TEST(Rouge, WordsAreLettersAndDigitsOfAscii) {
  EXPECT_EQ(splitRougeWords("The U.S.-based na\u00efve x2\xff z"),
            (Words{"the", "u", "s", "based", "na", "ve", "x2", "z"}));
  EXPECT_EQ(splitRougeWords("5\u212a\u0130x \u0130"), (Words{"5ki", "x", "i"}));
  EXPECT_TRUE(splitRougeWords("\u00e9 ...").empty());
}

TEST(Rouge, SentencesEndAtASeparator) {
  EXPECT_EQ(splitSentences("a b<q>C<q>", "<q>"), (Sentences{{"a", "b"}, {"c"}, {}}));
  EXPECT_EQ(splitSentences("a b<q>c", ""), (Sentences{{"a", "b", "q", "c"}}));
}

/// The example of Lin (2004), section 3.2: sentences w1 w2 w6 w7 w8 and w1 w3 w8 w9 w5 have the
/// common subsequences w1 w2 and w1 w3 w5 with w1 w2 w3 w4 w5, and 4 words in their union.
TEST(Rouge, SubsequencesOfAllSentencesAreUnited) {
  Sentences text = splitSentences("w1 w2 w6 w7 w8 . w1 w3 w8 w9 w5", ".");
  RougeScore score = computeRouge(text, splitSentences("w1 w2 w3 w4 w5", ""))[RougeLsum];
  EXPECT_NEAR(score.recall, 4 / 5.0, 1e-12);
  EXPECT_NEAR(score.precision, 4 / 10.0, 1e-12);
  // A word that several sentences of the reference contain counts as often as the text has it.
  score = computeRouge(splitSentences("a b", ""), splitSentences("a b . a c . a", "."))[RougeLsum];
  EXPECT_NEAR(score.recall, 2 / 5.0, 1e-12);
}

TEST(Rouge, BigramsCrossSentences) {
  Sentences text = splitSentences("a b . c d", "."), reference = splitSentences("b c", "");
  EXPECT_NEAR(computeRouge(text, reference)[Rouge2].recall, 1, 1e-12);
}

TEST(Rouge, BestReferenceCounts) {
  CorpusRouge corpus;
  corpus.add({{"a", "b"}}, std::vector<Sentences>{{{"a", "c"}}, {{"b", "a"}}});
  corpus.add(Sentences(1), std::vector<Sentences>{{{"a"}}});
  RougeScores means = corpus.compute();
  EXPECT_NEAR(means[Rouge1].f1, 0.5, 1e-12);
  EXPECT_EQ(means[Rouge2].f1, 0);
  EXPECT_NEAR(means[RougeLsum].f1, 0.25, 1e-12);
}

TEST(Rouge, CorporaAgreeWithRougeScore) {
  for (const RecordedCorpus &corpus : readRecordedCorpora()) {
    CorpusRouge rouge;
    auto split = [&](const std::string &line) { return splitSentences(line, corpus.separator); };
    for (size_t text = 0; text < corpus.texts.size(); ++text) {
      rouge.add(split(corpus.texts[text]), corpus.getReferences(text, split));
    }
    RougeScores means = rouge.compute();
    for (auto [type, name] : {std::pair(Rouge1, "rouge1"), std::pair(Rouge2, "rouge2"),
                              std::pair(RougeLsum, "rougeLsum")}) {
      auto expected = corpus.values[name].get<std::array<double, 3>>();
      EXPECT_NEAR(means[type].precision, expected[0], 1e-9) << corpus.values;
      EXPECT_NEAR(means[type].recall, expected[1], 1e-9) << corpus.values;
      EXPECT_NEAR(means[type].f1, expected[2], 1e-9) << corpus.values;
    }
  }
}

} // namespace
