// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Arithmetic of the checker: its grammar, and comparisons with enumeration of points.
#include "Bound.h"
#include "Certify.h"
#include "Graph.h"

#include <gtest/gtest.h>
#include <random>

using namespace certify;

TEST(Bound, ParsesItsGrammar) {
  EXPECT_EQ(parseBound("max(-1)").at(5), -1);
  EXPECT_EQ(parseBound("max(-1, 3*p + 2)").at(2), 8);
  EXPECT_EQ(parseBound("max(-1, 4*floor((p - 3)/4))").candidates.size(), 1U);
  Bound bound = parseBound("max(-1, 4*floor((p - 3)/4) + 3, -7 + p)");
  EXPECT_EQ(bound.at(2), -1);
  EXPECT_EQ(bound.at(3), 3);
  EXPECT_EQ(bound.at(100), 99);
}

TEST(Bound, RejectsTextOutsideItsGrammar) {
  for (const char *text :
       {"", "p", "max(0, p)", "max(-2, p)", "max(-1, p", "max(-1,p)", "max(-1, p) ", "max(-1, q)",
        "max(-1, floor(p/0))", "max(-1, floor(p/-2))", "max(-1, 01*p)", "max(-1, 2 * p)",
        "max(-1, p*2)", "max(-1, floor(p/4)*4)", "max(-1, 99999999999999999999)", "max(-1, p + )",
        "max(-1, )", "unknown"}) {
    EXPECT_THROW(parseBound(text), Refusal) << text;
  }
}

TEST(Bound, RejectsExhaustingInput) {
  std::string deep = "max(-1, " + std::string(100000, '(') + "p", sum = "max(-1, p";
  for (int i = 0; i < 100000; ++i) {
    sum += " + p";
  }
  EXPECT_THROW(parseBound(deep), Refusal);
  EXPECT_THROW(parseBound(sum + ")"), Refusal);
}

TEST(Bound, NestedFloorsRoundDownBelowZero) {
  Bound bound = parseBound("max(-1, floor((p - 100)/7) + 10)");
  EXPECT_EQ(bound.at(0), -1);
  EXPECT_EQ(bound.at(29), -1);
  EXPECT_EQ(bound.at(30), 0);
}

TEST(Bound, ComparesBeyondTheFirstPeriod) {
  Bound left = parseBound("max(-1, p - 11)"), right = parseBound("max(-1, p - 12)");
  EXPECT_EQ(findAbove(left, right, false), 11);
  EXPECT_EQ(findAbove(right, left, false), std::nullopt);
}

TEST(Bound, FarBreakpointsAreCheap) {
  Bound left = parseBound("max(-1, 2*p - 2000000000000)"), right = parseBound("max(-1, p)");
  std::optional<int64_t> x = findAbove(left, right, false);
  ASSERT_TRUE(x);
  EXPECT_GT(left.at(*x), right.at(*x));
  EXPECT_EQ(findAbove(right, parseBound("max(-1, p, 2*p - 2000000000000)"), false), std::nullopt);
}

TEST(Bound, IncludesNegativePositionsOnRequest) {
  Bound left = parseBound("max(-1, -1*p)"), right = parseBound("max(-1, p)");
  EXPECT_EQ(findAbove(left, right, false), std::nullopt);
  EXPECT_TRUE(findAbove(left, right, true));
}

TEST(Bound, DecidesLongPeriodsByEliminationOrRejects) {
  Bound slow = parseBound("max(-1, floor(p/1000000007))"), p = parseBound("max(-1, p)");
  EXPECT_EQ(findAbove(slow, p, false), std::nullopt);
  EXPECT_TRUE(isNonDecreasing(slow));
  EXPECT_THROW(findAbove(p, slow, false), Refusal);
  EXPECT_THROW(isNonDecreasing(parseBound("max(-1, p - 2*floor(p/1000000007))")), Refusal);
  EXPECT_THROW(parseBound("max(-1, 9223372036854775807*p)").at(2), Refusal);
}

/// Groups by four coprime factors in sequence, and a shift by the tokens they wait for.
TEST(Bound, DecidesNestedGroupsOfCoprimeFactors) {
  std::string groups =
      "101*floor((103*floor((107*floor((109*floor(p/109) + 108)/107) + 106)/103) + "
      "102)/101) + 100";
  Bound ahead = parseBound("max(-1, " + groups + ")");
  EXPECT_EQ(findAbove(ahead, parseBound("max(-1, p + 416)"), false), std::nullopt);
  EXPECT_EQ(findAbove(ahead, ahead, true), std::nullopt);
  EXPECT_THROW(findAbove(ahead, parseBound("max(-1, p + 107)"), false), Refusal);
  EXPECT_TRUE(isNonDecreasing(ahead));
}

namespace {

int64_t below(std::mt19937 &generator, int64_t limit) {
  return static_cast<int64_t>(generator() % static_cast<uint64_t>(limit));
}

/// A function with slopes from -2 to 3 and nested floors.
Expression randomExpression(std::mt19937 &generator, int depth) {
  Expression linear = makeLinear(below(generator, 6) - 2, below(generator, 25) - 12);
  if (depth == 0) {
    return linear;
  }
  Expression inner = randomExpression(generator, depth - 1);
  Expression floor = makeFloor(std::move(inner), 1 + below(generator, 5));
  Expression multiple = {Expression::Multiple, below(generator, 5) - 1, {floor}};
  return generator() % 2 == 0 ? multiple : Expression{Expression::Sum, 0, {multiple, linear}};
}

Bound randomBound(std::mt19937 &generator) {
  Bound bound;
  for (int64_t i = below(generator, 3); i >= 0; --i) {
    bound.candidates.push_back(randomExpression(generator, static_cast<int>(below(generator, 3))));
  }
  return bound;
}

} // namespace

// Periods are at most 25, slopes at least 1/25 apart, constants below 200: two different functions
// differ within 6000.
TEST(Bound, ComparisonsAgreeWithEnumeration) {
  std::mt19937 generator(5);
  int above = 0, never = 0;
  for (int i = 0; i < 3000; ++i) {
    Bound left = randomBound(generator), right = randomBound(generator);
    bool everywhere = generator() % 2 == 0;
    std::optional<int64_t> tried, found = findAbove(left, right, everywhere);
    for (int64_t p = everywhere ? -6000 : 0; p <= 6000 && !tried; ++p) {
      tried = left.at(p) > right.at(p) ? std::optional(p) : std::nullopt;
    }
    ASSERT_EQ(found.has_value(), tried.has_value()) << i;
    if (found) {
      ASSERT_GT(left.at(*found), right.at(*found)) << i;
      ASSERT_TRUE(everywhere || *found >= 0) << i;
    }
    (found ? above : never) += 1;
  }
  EXPECT_GT(above, 500);
  EXPECT_GT(never, 200);
}

TEST(Bound, MonotoneBoundsAgreeWithEnumeration) {
  std::mt19937 generator(6);
  int rising = 0, falling = 0;
  for (int i = 0; i < 2000; ++i) {
    Bound bound = {{randomExpression(generator, 2)}};
    bool tried = true;
    for (int64_t p = -1000; p < 1000; ++p) {
      tried &= bound.candidates[0].at(p) <= bound.candidates[0].at(p + 1);
    }
    ASSERT_EQ(isNonDecreasing(bound), tried) << i;
    (tried ? rising : falling) += 1;
  }
  EXPECT_GT(rising, 200);
  EXPECT_GT(falling, 200);
}

TEST(RowRelation, HasASampleIfAnyRowReads) {
  for (const char *text :
       {"at p", "at p - 5", "at floor(p/4)", "rows 4*p to 4*p + 3", "rows 4*p + 2 to 4*p + 3",
        "rows p - 2 to p", "keys to p", "keys p - 3 to p - 3",
        "keys floor(p/4) to floor((p - 3)/4)", "keys floor((2*p + 1)/3) to floor((2*p - 1)/3)",
        "keys all", "keys to p from 3", "keys p - 8 to p step 4 from 3", "keys p - 2 to p - 3"}) {
    RowRelation relation = parseRelation(text);
    bool holds = false;
    for (int64_t p = 0; p < 20; ++p) {
      relation.each(p, 20, [&](int64_t q) { holds |= q >= 0; });
    }
    EXPECT_EQ(relation.hasSample(), holds) << text;
    EXPECT_EQ(holds, std::string(text) != "keys p - 2 to p - 3") << text;
  }
}

TEST(RowRelation, ComparesByFunctions) {
  auto same = [](const char *x, const char *y) {
    return parseRelation(x).isSame(parseRelation(y));
  };
  EXPECT_TRUE(same("at floor((3*p + 4)/2)", "at floor(3*p/2) + 2"));
  EXPECT_TRUE(same("at e4(p - 1)", "at e4(p - 1)"));
  EXPECT_FALSE(same("at floor(3*p/2)", "at floor((3*p + 1)/2)"));
  EXPECT_FALSE(same("at e4(p)", "at e4(p - 1)"));
  EXPECT_FALSE(same("keys to p", "keys 0 to p"));
  EXPECT_FALSE(same("keys to p", "keys to p from 1"));
  EXPECT_FALSE(same("keys p - 4 to p", "keys p - 4 to p step 2"));
  EXPECT_FALSE(same("rows p to p", "keys p to p"));
}

TEST(RowRelation, RejectsOtherText) {
  for (const char *text : {"",
                           "at",
                           "at ",
                           "at q",
                           "at p ",
                           "at p to p",
                           "rows to p",
                           "rows all",
                           "rows p to",
                           "keys",
                           "keys ",
                           "keys p",
                           "keys to",
                           "keys to p from",
                           "keys to p from -1",
                           "keys to p step 0",
                           "keys all step 2",
                           "keys to p from 1 step 2",
                           "rows p to p step 2",
                           "key to p",
                           "keysp to p",
                           "unknown",
                           "keys to max(-1, p)",
                           "keys p to p to p"}) {
    EXPECT_THROW(parseRelation(text), Refusal) << text;
  }
}
