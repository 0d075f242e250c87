// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Analyze/WordModel.h"

#include "gtest/gtest.h"
#include <cmath>

using namespace sluice;
using namespace sluice::runtime;

namespace {

const std::vector<std::string> text = splitWords(
    "a b c a b d a c\tb b a\nc c a b c d a b a d d a b c a b c e f e f e f a b c d a e b a c d");

TEST(WordModel, SplitsAtWhitespace) {
  EXPECT_EQ(splitWords(" one\ntwo\t\r three"), (std::vector<std::string>{"one", "two", "three"}));
  EXPECT_TRUE(splitWords(" \n").empty());
}

TEST(WordModel, ProbabilitiesSumToOne) {
  for (int order = 1; order <= 4; ++order) {
    WordModel model(order);
    model.train(text);
    for (std::vector<std::string> history : {std::vector<std::string>{},
                                             {"a"},
                                             {"a", "b"},
                                             {"e", "f", "e"},
                                             {"never"},
                                             {"never", "a"}}) {
      double sum = 0;
      for (std::string word : {"a", "b", "c", "d", "e", "f", "unknown"}) {
        sum += model.probability(history, word);
      }
      EXPECT_NEAR(sum, 1, 1e-12) << order;
    }
  }
}

/// By hand: bigrams of "x y x y x z": xy 2, yx 2, xz 1. D2 = 1 / (1 + 4) = 0.2. Different words
/// before x: 1 (y), y: 1 (x), z: 1 (x): D1 falls back to 0.75 (no count is 2), P1(z) = (0.25 + 0.75
/// * 3 / 4) / 3.
TEST(WordModel, AgreesWithTheFormula) {
  WordModel model(2);
  model.train(splitWords("x y x y x z"));
  double one = (0.25 + 0.75 * 3 / 4.0) / 3;
  EXPECT_NEAR(model.probability({}, "z"), one, 1e-12);
  EXPECT_NEAR(model.probability({"x"}, "z"), (0.8 + 0.2 * 2 * one) / 3, 1e-12);
  EXPECT_NEAR(model.probability({"y"}, "z"), 0.2 * 1 * one / 2, 1e-12);
  EXPECT_NEAR(model.bits(splitWords("x z"), 1), -std::log2((0.8 + 0.4 * one) / 3), 1e-12);
}

TEST(WordModel, CountsGrams) {
  std::vector<std::string> words = splitWords("a b a b");
  EXPECT_EQ(countGrams(words, 1), (GramCounts{{"a", 2}, {"b", 2}}));
  EXPECT_EQ(countGrams(words, 2), (GramCounts{{"a b", 2}, {"b a", 1}}));
  EXPECT_TRUE(countGrams(words, 5).empty());
}

TEST(WordModel, RepeatsAreFractionsOfNgrams) {
  std::array<double, 4> shares = repeats(splitWords("a b a b"));
  EXPECT_NEAR(shares[0], 2 / 4.0, 1e-12);
  EXPECT_NEAR(shares[1], 1 / 3.0, 1e-12);
  EXPECT_EQ(shares[2], 0);
  EXPECT_EQ(repeats({})[0], 0);
}

} // namespace
