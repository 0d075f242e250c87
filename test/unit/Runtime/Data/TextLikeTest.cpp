// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Data/TextLike.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <vector>

using namespace sluice;
using namespace sluice::runtime;

namespace {

/// Share of each id among many samples.
std::vector<double> countShares(int64_t vocabulary, int64_t count) {
  std::vector<int32_t> tokens(static_cast<size_t>(count), -1);
  fillTextLike(tokens, vocabulary);
  std::vector<double> shares(static_cast<size_t>(vocabulary), 0);
  for (int32_t token : tokens) {
    shares.at(static_cast<size_t>(token)) += 1.0 / static_cast<double>(count);
  }
  return shares;
}

// Four standard deviations of a share p of 100,000 samples are at most 4 sqrt(p / 100,000).
TEST(TextLike, ByteFrequenciesMatchAnEnglishDictionary) {
  std::vector<double> shares = countShares(256, 100000);
  EXPECT_NEAR(shares[' '], 0.238, 4 * std::sqrt(0.238e-5));
  EXPECT_NEAR(shares['e'], 0.0748, 4 * std::sqrt(0.0748e-5));
  EXPECT_NEAR(shares['z'], 0.0007, 4 * std::sqrt(0.0007e-5));
  EXPECT_EQ(shares[0], 0);
  EXPECT_EQ(shares[255], 0);
}

TEST(TextLike, OtherVocabulariesFollowZipf) {
  for (int64_t vocabulary : {1, 2, 255, 1000, 50257}) {
    double sum = 0;
    for (int64_t i = 0; i < vocabulary; ++i) {
      sum += 1 / (static_cast<double>(i) + 1);
    }
    std::vector<double> shares = countShares(vocabulary, 100000);
    for (int64_t i = 0; i < std::min<int64_t>(vocabulary, 10); ++i) {
      double expected = 1 / (static_cast<double>(i) + 1) / sum;
      EXPECT_NEAR(shares[static_cast<size_t>(i)], expected, 4 * std::sqrt(expected * 1e-5));
    }
  }
}

TEST(TextLike, IsDeterministic) {
  std::vector<int32_t> a(100), b(50);
  fillTextLike(a, 256);
  fillTextLike(b, 256);
  EXPECT_TRUE(std::equal(b.begin(), b.end(), a.begin()));
}

} // namespace
