// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Fixture.h"

#include "sluice/Runtime/Analyze/Ngram.h"
#include "sluice/Support/Error.h"

#include <cmath>

using namespace sluice;
using namespace sluice::runtime;
using namespace sluice::test;

namespace {

// "abab": empty history 4 occurrences, 2 kinds; after a: b twice, 1 kind; after b: a once, 1 kind.
TEST(Ngram, MatchesAHandComputedCase) {
  NgramModel model(2);
  model.train(asBytes("abab"));
  double a = (2 + 2.0 / 256) / 6, c = (0 + 2.0 / 256) / 6;
  EXPECT_DOUBLE_EQ(model.probability(asBytes(""), 'a'), a);
  EXPECT_DOUBLE_EQ(model.probability(asBytes("a"), 'b'), (2 + a) / 3); // P(a) = P(b) by symmetry
  EXPECT_DOUBLE_EQ(model.probability(asBytes("b"), 'a'), (1 + a) / 2);
  EXPECT_DOUBLE_EQ(model.probability(asBytes("b"), 'c'), (0 + c) / 2);
  EXPECT_DOUBLE_EQ(model.probability(asBytes("c"), 'a'), a); // history never seen
  EXPECT_DOUBLE_EQ(model.bits(asBytes("aba")), -std::log2((2 + a) / 3) - std::log2((1 + a) / 2));
}

TEST(Ngram, ProbabilitiesSumToOne) {
  std::string text = easyText(5000);
  for (int order : {1, 2, 3, 5, 7}) {
    NgramModel model(order);
    model.train(asBytes(text));
    for (const char *history : {"", "a", "zq", "never seen", "abcabcabc"}) {
      double sum = 0;
      for (int byte = 0; byte < 256; ++byte) {
        sum += model.probability(asBytes(history), static_cast<uint8_t>(byte));
      }
      EXPECT_NEAR(sum, 1, 1e-12) << order << " " << history;
    }
  }
}

TEST(Ngram, DistinguishesHistoriesOfZeroBytes) {
  NgramModel model(3);
  std::string text("\0\0\1\0\1\2", 6);
  model.train(asBytes(text));
  EXPECT_NE(model.probability(asBytes(std::string("\0", 1)), 1),
            model.probability(asBytes(std::string("\0\0", 2)), 1));
}

TEST(Ngram, RejectsOtherOrders) {
  EXPECT_THROW(NgramModel(0), UserError);
  EXPECT_THROW(NgramModel(8), UserError);
}

} // namespace
