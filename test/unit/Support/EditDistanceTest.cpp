// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Support/EditDistance.h"

#include <gtest/gtest.h>
#include <string>

using namespace sluice;

namespace {

TEST(EditDistance, CountsEachKindOfTypoOnce) {
  EXPECT_EQ(computeEditDistance("steps", "steps"), 0u);
  EXPECT_EQ(computeEditDistance("step", "steps"), 1u);
  EXPECT_EQ(computeEditDistance("stepps", "steps"), 1u);
  EXPECT_EQ(computeEditDistance("staps", "steps"), 1u);
  EXPECT_EQ(computeEditDistance("setps", "steps"), 1u);
  EXPECT_EQ(computeEditDistance("kitten", "sitting"), 3u);
  EXPECT_EQ(computeEditDistance("", "abc"), 3u);
  EXPECT_EQ(computeEditDistance("", ""), 0u);
}

// The cost is the product of the sizes: a word of a megabyte would take minutes.
TEST(EditDistance, LongWordIsNoTypo) {
  EXPECT_EQ(computeEditDistance(std::string(64, 'a'), std::string(63, 'a')), 1u);
  EXPECT_EQ(computeEditDistance(std::string(65, 'a'), std::string(64, 'a')), 65u);
  EXPECT_EQ(computeEditDistance("a", std::string(1000000, 'a')), 1000000u);
}

} // namespace
