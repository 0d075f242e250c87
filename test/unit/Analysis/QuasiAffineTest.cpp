// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Decisions about quasi-affine functions, against evaluation at many points.
#include "sluice/Proof/QuasiAffine.h"
#include "sluice/Dialect/Sluice/Reference.h"
#include <gtest/gtest.h>
#include <random>

using namespace mlir;
using namespace sluice;

namespace {

/// A random expression of d0 with floordivs nested up to `depth`.
AffineExpr randomExpression(MLIRContext *context, std::mt19937 &generator, int depth) {
  auto number = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(generator() % (high - low + 1));
  };
  AffineExpr p = getAffineDimExpr(0, context);
  if (depth == 0) {
    return p * number(-2, 2) + number(-9, 9);
  }
  AffineExpr inner = randomExpression(context, generator, depth - 1);
  return inner.floorDiv(number(1, 6)) * number(-3, 3) + p * number(-2, 2) + number(-20, 20);
}

} // namespace

TEST(QuasiAffine, AgreesWithEvaluation) {
  MLIRContext context;
  std::mt19937 generator(7);
  int always = 0, fails = 0;
  for (int i = 0; i < 3000; ++i) {
    AffineExpr e = randomExpression(&context, generator, i % 3);
    int64_t first = -1;
    for (int64_t p = 0; p < 2000 && first < 0; ++p) {
      first = reference::evaluateAffine(e, p, 0, 0) > 0 ? p : -1;
    }
    SignAnswer answer = isNeverPositive(e);
    std::string text;
    llvm::raw_string_ostream(text) << e;
    ASSERT_NE(answer.kind, SignAnswer::Unknown) << text;
    ASSERT_EQ(answer.kind == SignAnswer::Fails, first >= 0);
    if (first >= 0) {
      ASSERT_EQ(answer.at, first);
    }
    (first >= 0 ? fails : always) += 1;
  }
  EXPECT_GT(always, 300);
  EXPECT_GT(fails, 300);
}

TEST(QuasiAffine, DecidesLargeFactors) {
  MLIRContext context;
  AffineExpr p = getAffineDimExpr(0, &context);
  int64_t k = (int64_t{1} << 31) - 1;
  EXPECT_EQ(isNeverPositive(p.floorDiv(k) * k - p).kind, SignAnswer::Always);
  EXPECT_EQ(isNeverPositive(p.floorDiv(k) * k + 1 - p).kind, SignAnswer::Fails);
  EXPECT_EQ(isNeverPositive(p - k - p.floorDiv(k) * k).kind, SignAnswer::Always);
}

TEST(QuasiAffine, NonAffineExpressionsAreUnknown) {
  MLIRContext context;
  AffineExpr p = getAffineDimExpr(0, &context);
  EXPECT_EQ(isNeverPositive(p * p).kind, SignAnswer::Unknown);
  EXPECT_EQ(isNeverPositive(getAffineSymbolExpr(0, &context) - 1).kind, SignAnswer::Unknown);
  EXPECT_EQ(isNeverPositive(p * (int64_t{1} << 62) - p).kind, SignAnswer::Unknown);
}
