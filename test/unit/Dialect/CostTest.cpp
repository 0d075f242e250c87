// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Costs computed by hand, and masks counted by bounds compared with pair-by-pair counts.
#include "Model.h"
#include "sluice/Dialect/Sluice/MaskBounds.h"

#include "mlir/AsmParser/AsmParser.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace sluice;
using namespace sluice::testing;

namespace {

constexpr const char *masks[] = {
    "(p, q)[n] : (p - q >= 0)",
    "(p, q)[n] : (n - 1 - q >= 0)",
    "(p, q)[n] : (p - q - 1 >= 0, q - p + 4 >= 0)",
    "(p, q)[n] : (p - q == 0)",
    "(p, q)[n] : ((p + 1) floordiv 3 - 1 - q >= 0)",
    "(p, q)[n] : (p floordiv 3 - q floordiv 3 - 1 >= 0)",
    "(p, q)[n] : (p floordiv 4 - q floordiv 4 == 0)",
    "(p, q)[n] : (p - 3 * q + 1 >= 0, 2 * q - p >= 0)",
    "(p, q)[n] : (p - q ceildiv 3 >= 0, (q + 2) ceildiv 2 - p >= 0)",
    "(p, q)[n] : (p - 4 >= 0, p - q >= 0)",
    "(p, q)[n] : (n - 3 - p >= 0, q + p - n >= 0)",
    "(p, q)[n] : (p - q >= 0, (q mod 3) == 0)", // not solved: counted pair by pair
    "(p, q)[n] : (p - q - q floordiv 2 >= 0)",  // nor this
};

TEST(Mask, CountMatchesEnumeration) {
  MLIRContext context;
  for (const char *text : masks) {
    IntegerSet mask = parseIntegerSet(text, &context);
    ASSERT_TRUE(static_cast<bool>(mask)) << text;
    for (int64_t n : {1, 2, 3, 7, 12, 25}) {
      int64_t expected = 0;
      for (int64_t p = 0; p < n; ++p) {
        for (int64_t q = 0; q < n; ++q) {
          expected += reference::contains(mask, p, q, n);
        }
      }
      EXPECT_EQ(countMask(mask, n, n), expected) << text << ", n " << n;
    }
  }
}

TEST(Mask, BoundsOfSolvedMasksAreExact) {
  MLIRContext context;
  for (const char *text : masks) {
    bool hard = StringRef(text).contains("mod") || StringRef(text).contains("q - q floordiv");
    EXPECT_EQ(solveMask(parseIntegerSet(text, &context)).exact, !hard) << text;
  }
}

TEST(Mask, ClassifiesNonDecreasingBounds) {
  MLIRContext context;
  AffineExpr p = getAffineDimExpr(0, &context), n = getAffineSymbolExpr(0, &context);
  EXPECT_TRUE(isNonDecreasing(p - 5));
  EXPECT_TRUE(isNonDecreasing((p * 2 + 1).floorDiv(3) - 1));
  EXPECT_FALSE(isNonDecreasing(-p));
  EXPECT_FALSE(isNonDecreasing(p % 3));
  EXPECT_FALSE(isNonDecreasing(p - p.floorDiv(2)));
  EXPECT_FALSE(isNonDecreasing(p + n));
}

/// Cost of the last op of @f that has one. The module's batch is 3, its context 16.
Cost estimateCost(const std::string &function) {
  DialectModel model(function);
  CostInterface found;
  for (Operation &op : model.getFunction().getBody().front()) {
    found = isa<CostInterface>(op) ? cast<CostInterface>(op) : found;
  }
  return found.getCost();
}

TEST(Cost, Linear) {
  // 3 * 8 rows, 5 x 4 weights and biases.
  Cost cost =
      estimateCost("(%x: !sluice.seq<@s2, 4, f32>, %w: tensor<5x4xf32>, %b: tensor<5xf32>) { %y "
                   "= sluice.linear %x, %w, %b : "
                   "(!sluice.seq<@s2, 4, f32>, tensor<5x4xf32>, tensor<5xf32>) -> "
                   "!sluice.seq<@s2, 5, f32> return }");
  EXPECT_EQ(cost.flops, 24 * 5 * (2 * 4 + 1));
  EXPECT_EQ(cost.bytes, 4 * (24 * 4 + 20 + 5 + 24 * 5));
  EXPECT_EQ(cost.savedBytes, 4 * 24 * 4);
}

std::string attention(const std::string &mask) {
  std::string s = "!sluice.seq<@s1, 12, f32>";
  return "(%x: " + s +
         ") { %o, %l = sluice.attention %x, %x, %x attributes {heads = 2 : i64, kv_heads = 2 : "
         "i64, "
         "head_size = 2 : i64, query_column = 0 : i64, key_column = 4 : i64, value_column = 8 : "
         "i64, mask = affine_set<" +
         mask +
         ">} {^bb0(%s: f32, %p: i32, %q: i32, %h: i32): %r = arith.mulf %s, %s : f32 sluice.yield "
         "%r : f32} : (" +
         s + ", " + s + ", " + s +
         ") -> (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 2, f32>) return }";
}

TEST(Cost, CausalAttentionCountsItsTriangleOnce) {
  // 16 * 17 / 2 pairs, two heads, batch 3; 4 D + the region's product + exponential and sum. The
  // packed operand counts once.
  Cost cost = estimateCost(attention("(p, q)[n] : (p - q >= 0)"));
  EXPECT_EQ(cost.flops, 3 * 2 * 136 * (4 * 2 + 1 + 2));
  EXPECT_EQ(cost.bytes, 4 * 3 * 16 * (12 + 4 + 2));
  EXPECT_EQ(cost.savedBytes, cost.bytes);
}

TEST(Cost, MapsStoreOnlyOperandsOfTheDerivative) {
  std::string s = "!sluice.seq<@s4, 2, f32>";
  auto map = [&](const std::string &body) {
    return "(%a: " + s + ", %b: " + s +
           ") { %y = sluice.map(%a, %b) {^bb0(%x: f32, %r: f32): " + body +
           " sluice.yield %z : f32 }"
           " : (" +
           s + ", " + s + ") -> " + s + " return }";
  };
  Cost sum = estimateCost(map(
      "%c = arith.constant 2.0 : f32 %t = arith.mulf %x, %c : f32 %z = arith.addf %t, %r : f32"));
  EXPECT_EQ(sum.flops, 2 * 3 * 4 * 2);
  EXPECT_EQ(sum.bytes, 3 * 4 * (3 * 4 * 2));
  EXPECT_EQ(sum.savedBytes, 0);
  EXPECT_EQ(estimateCost(map("%z = arith.mulf %x, %r : f32")).savedBytes, 2 * 4 * (3 * 4 * 2));
}

TEST(Cost, GraphSumCountsTheEntriesOfItsLists) {
  // Two entries per edge and 3 * 16 rows of 2 columns: a product and a sum each, and `left`.
  std::string x = "!sluice.seq<@g1, 2, f32>", n = "!sluice.seq<@g1, 0, f32>";
  Cost cost = estimateCost("(%x: " + x + ", %n: " + n +
                           ") { %y = sluice.graph_sum %x left(%n) right(%n) over \"links\" "
                           "capacity 5 : (" +
                           x + ", " + n + ", " + n + ") -> " + x + " return }");
  EXPECT_EQ(cost.flops, 2 * (3 * 10 * 2 + 3 * 16 * 2) + 3 * 16 * 2);
}

TEST(Cost, GraphAttentionCountsTheRowsThatItReads) {
  // A product and a sum for 2 columns of 3 * 16 rows and of two entries per edge. Each operand and
  // result is read or written once, and three sums are computed backward.
  std::string x = "!sluice.seq<@g1, 2, f32>", n = "!sluice.seq<@g1, 0, f32>";
  std::string lists = " over \"links\" capacity 5 leak 2.0e-01 : (" + n + ", " + n + ", " + x;
  std::string arguments = "(%s: " + n + ", %t: " + n + ", %z: " + x + ") { ";
  Cost cost = estimateCost(arguments + "%y, %lse = sluice.graph_attention %s, %t, %z" + lists +
                           ") -> (" + x + ", " + n + ") return }");
  EXPECT_EQ(cost.flops, 2 * (3 * 10 * 2 + 3 * 16 * 2));
  EXPECT_EQ(cost.bytes, 4 * 3 * 16 * (2 * 2 + 3));
  Cost backward = estimateCost(
      arguments + "%ds, %dt, %dz = sluice.graph_attention_backward %s, %t, %z result %z, %s by %z" +
      lists + ", " + x + ", " + n + ", " + x + ") -> (" + n + ", " + n + ", " + x + ") return }");
  EXPECT_EQ(backward.flops, 3 * cost.flops);
}

TEST(Cost, GraphAttentionOfARangeCountsEachRowOnce) {
  std::string x = "!sluice.seq<@g1, 7, f32>", n = "!sluice.seq<@g1, 0, f32>";
  std::string i = "!sluice.seq<@g1, 0, i32>";
  Cost cost = estimateCost("(%s: " + n + ", %z: " + x + ", %f: " + i +
                           ") { %y, %lse = sluice.graph_attention %s, %s, %z range(%f, %f) leak "
                           "2.0e-01 : (" +
                           n + ", " + n + ", " + x + ", " + i + ", " + i + ") -> (" + x + ", " + n +
                           ") return }");
  EXPECT_EQ(cost.flops, 2 * 3 * 16 * 7);
}

TEST(Cost, PositionsCostNothing) {
  Cost cost = estimateCost(
      "(%x: !sluice.seq<@s1, 2, f32>) { %y = sluice.shift %x by 1 : (!sluice.seq<@s1, 2, f32>) -> "
      "!sluice.seq<@s1, 2, f32> return }");
  EXPECT_EQ(cost.flops, 0);
  EXPECT_EQ(cost.bytes, 0);
}

} // namespace
