// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compares the reference with closed forms and hand-computed numbers.
#include "Model.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace mlir;
using namespace sluice;
using namespace sluice::testing;
using reference::roundToBf16;
using reference::RuntimeValues;

namespace {

/// Known answers of the authors' own library (Random123, kat_vectors, philox4x32 10).
TEST(Philox, KnownAnswers) {
  using Words = std::array<uint32_t, 4>;
  EXPECT_EQ(reference::philox({0, 0, 0, 0}, {0, 0}),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(reference::philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(
      reference::philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
      (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, UniformTakesWordsInTurn) {
  auto words = reference::philox({5, 0, 7, 3}, {0x9abcdef0, 0x12345678});
  for (uint64_t w = 0; w < 4; ++w) {
    EXPECT_EQ(reference::uniform(0x123456789abcdef0, 3, 7, 20 + w), (words[w] >> 8) / 16777216.0);
  }
}

/// Results of a function of one result on arguments given as numbers.
Doubles run(const std::string &function, std::vector<Doubles> arguments, RuntimeValues setting) {
  DialectModel model(function);
  return evaluate<double>(model.getFunction(), Arguments{std::move(arguments)}, setting).front();
}

const std::string s1 = "!sluice.seq<@s1, 1, f32>", s2 = "!sluice.seq<@s2, 1, f32>",
                  s4 = "!sluice.seq<@s4, 1, f32>";

TEST(Storage, RoundsToTheNearestBf16) {
  EXPECT_EQ(roundToBf16(3.0), 3.0);
  EXPECT_EQ(roundToBf16(1 + 0x1p-8), 1.0);        // half a unit: the even one is below
  EXPECT_EQ(roundToBf16(1 + 0x3p-8), 1 + 0x1p-6); // and here above
  EXPECT_EQ(roundToBf16(-1 - 0x1p-8 - 0x1p-40), -1 - 0x1p-7);
  EXPECT_EQ(roundToBf16(0x1p-133), 0x1p-133); // the minimum
  EXPECT_EQ(roundToBf16(0x1p-134), 0.0);      // half of it
  EXPECT_EQ(roundToBf16(0x1.8p-134), 0x1p-133);
  EXPECT_EQ(roundToBf16(0x1.fep127), 0x1.fep127); // the maximum
  EXPECT_EQ(roundToBf16(0x1.ffp127), INFINITY);
  EXPECT_EQ(roundToBf16(-INFINITY), -INFINITY);
  EXPECT_TRUE(std::isnan(roundToBf16(NAN)));
}

TEST(Scales, ShortenOfShiftReadsTheUnshiftedSequence) {
  // x[4 m + i - 3], null outside 0 ... 5: groups {., ., ., 1} and {2, 3, 4, 5}; row 6 is never
  // read.
  std::string f = "(%x: " + s1 + ") -> " + s4 + " { %s = sluice.shift %x by 3 : (" + s1 + ") -> " +
                  s1 + " %y = sluice.shorten %s factor 4 sum : (" + s1 + ") -> " + s4 +
                  " return %y : " + s4 + " }";
  EXPECT_EQ(run(f, {{1, 2, 3, 4, 5, 6}}, {.rows = 1, .length = 6}), (Doubles{1, 14}));
}

TEST(Scales, AverageOfAPartialGroupIsDividedByTheFactor) {
  std::string f = "(%x: " + s1 + ") -> " + s4 + " { %y = sluice.shorten %x factor 4 : (" + s1 +
                  ") -> " + s4 + " return %y : " + s4 + " }";
  EXPECT_EQ(run(f, {{1, 2, 3, 4, 5, 6}}, {.rows = 1, .length = 6}), (Doubles{2.5, 2.75}));
}

/// -log softmax over the candidates of all texts at the next row; the last row has no loss.
TEST(Losses, ContrastChoosesAmongAllTexts) {
  std::string number = "!sluice.seq<@s1, 0, f32>";
  std::string f = "(%x: " + s1 + ", %v: " + s1 + ") -> " + number +
                  " { %l = sluice.contrast %x, %v : (" + s1 + ", " + s1 + ") -> " + number +
                  " return %l : " + number + " }";
  Doubles x = {0.5, -1, 2}, v = {1, -2, 0.25};
  Doubles one = run(f, {x, v}, {.rows = 1, .length = 3});
  EXPECT_NEAR(one[0], 1 + std::log(std::exp(0.5) + std::exp(-1) + std::exp(0.125)), 1e-15);
  EXPECT_NEAR(one[1], 0.25 + std::log(std::exp(-1) + std::exp(2) + std::exp(-0.25)), 1e-15);
  EXPECT_EQ(one[2], 0);
  auto twice = [](const Doubles &first, const Doubles &second) {
    Doubles both = first;
    both.insert(both.end(), second.begin(), second.end());
    return both;
  };
  // A batch that holds each text twice has each candidate twice.
  Doubles same = run(f, {twice(x, x), twice(v, v)}, {.rows = 2, .length = 3});
  Doubles y = {3, 0, -0.75}, w = {-1, 0.5, 0.125};
  Doubles two = run(f, {twice(x, y), twice(v, w)}, {.rows = 2, .length = 3});
  Doubles turned = run(f, {twice(y, x), twice(w, v)}, {.rows = 2, .length = 3});
  for (size_t p = 0; p < 2; ++p) {
    EXPECT_NEAR(same[p], one[p] + std::log(2), 1e-14);
    EXPECT_NEAR(same[p + 3], one[p] + std::log(2), 1e-14);
    EXPECT_NEAR(two[p], turned[p + 3], 1e-14); // the order of candidates adds rounding alone
    EXPECT_NEAR(two[p + 3], turned[p], 1e-14);
    EXPECT_GT(two[p], one[p]);
  }
}

TEST(Scales, MaximaIgnoreOutsideRows) {
  // Groups {., ., ., .}, {., -1, -2, -3} and {-4 ...}: nothing remains of the first, and -1 is the
  // maximum although outside rows read as zero elsewhere.
  std::string f = "(%x: " + s1 + ") -> " + s4 + " { %s = sluice.shift %x by 5 : (" + s1 + ") -> " +
                  s1 + " %y = sluice.shorten %s factor 4 max : (" + s1 + ") -> " + s4 +
                  " return %y : " + s4 + " }";
  Doubles x = {-1, -2, -3, -4, -5, -6, -7, -8, -9};
  EXPECT_EQ(run(f, {x}, {.rows = 1, .length = 9}), (Doubles{0, -1, -4}));
}

TEST(Scales, CombinersIgnoreOutsideAndMaskedRows) {
  // Groups {2, 3, 4, 5} and {6, 7, ., .}; the mask has 3 and 5.
  auto combined = [&](const std::string &op, const std::string &identity, bool isMasked) {
    std::string bits = "!sluice.seq<@s1, 0, f32>";
    std::string f = "(%x: " + s1 + ", %b: " + bits + ") -> " + s4 +
                    " { %y = sluice.shorten %x factor 4" + (isMasked ? " mask %b" : "") +
                    " combine identity " + identity + " {^bb0(%s: f32, %l: f32): %n = " + op +
                    " %s, %l : f32 sluice.yield %n : f32} : (" + s1 +
                    (isMasked ? ", " + bits : "") + ") -> " + s4 + " return %y : " + s4 + " }";
    return run(f, {{2, 3, 4, 5, 6, 7}, {0, 1, 0, 1, 0, 0}}, {.rows = 1, .length = 6});
  };
  EXPECT_EQ(combined("arith.mulf", "1.0", false), (Doubles{120, 42}));
  EXPECT_EQ(combined("arith.mulf", "1.0", true), (Doubles{15, 1}));
  EXPECT_EQ(combined("arith.minimumf", "0x7F800000", false), (Doubles{2, 6}));
  // The second group is completely masked: its infinite identity becomes zero.
  EXPECT_EQ(combined("arith.minimumf", "0x7F800000", true), (Doubles{3, 0}));
}

TEST(Scales, GradientOfMaximumFlowsToTheFirst) {
  std::string wide = "!sluice.seq<@s4, 4, f32>";
  std::string f = "(%x: " + s1 + ", %g: " + s4 + ") -> " + wide +
                  " { %z = sluice.shorten_max_backward %x, %g factor 4 : (" + s1 + ", " + s4 +
                  ") -> " + wide + " return %z : " + wide + " }";
  EXPECT_EQ(run(f, {{1, 3, 3, 2, -5, -5}, {10, 20}}, {.rows = 1, .length = 6}),
            (Doubles{0, 10, 0, 0, 20, 0, 0, 0}));
}

TEST(Scales, RepeatIsLazy) {
  // The repeat has value 7 at position 3, past the end of a sequence of three; the sum of its last
  // pair reads it.
  std::string f = "(%x: " + s4 + ") -> " + s2 + " { %u = sluice.upsample %x factor 4 : (" + s4 +
                  ") -> " + s1 + " %y = sluice.shorten %u factor 2 sum : (" + s1 + ") -> " + s2 +
                  " return %y : " + s2 + " }";
  EXPECT_EQ(run(f, {{7}}, {.rows = 1, .length = 3}), (Doubles{14, 14}));
}

TEST(Scales, UnfoldUndoesFold) {
  std::string wide = "!sluice.seq<@s4, 4, f32>";
  std::string f = "(%x: " + s1 + ") -> " + s1 + " { %w = sluice.fold %x factor 4 : (" + s1 +
                  ") -> " + wide + " %y = sluice.unfold %w factor 4 : (" + wide + ") -> " + s1 +
                  " return %y : " + s1 + " }";
  Doubles x = {1, 2, 3, 4, 5, 6, 7};
  EXPECT_EQ(run(f, {x}, {.rows = 1, .length = 7}), x);
}

TEST(Scales, LastReadsTheLastValidRow) {
  std::string one = "!sluice.seq<@one, 1, f32>";
  std::string f = "(%x: " + s2 + ") -> " + one + " { %y = sluice.last %x : (" + s2 + ") -> " + one +
                  " return %y : " + one + " }";
  EXPECT_EQ(run(f, {{1, 2, 3, 4, 5, 6}}, {.rows = 2, .length = 5}), (Doubles{3, 6}));
}

TEST(Norm, LayerNormMatchesHandComputation) {
  // x = (1, 3): mean 1, deviations -1 and 1 after centring at 2, variance 1; epsilon 3 makes rstd
  // 1/2.
  std::string s = "!sluice.seq<@s1, 2, f32>", n = "!sluice.seq<@s1, 0, f32>", v = "tensor<2xf32>";
  std::string f = "(%x: " + s + ", %g: " + v + ", %b: " + v + ") -> (" + s + ", " + n + ", " + n +
                  ") { %y, %m, %r = sluice.norm %x, %g, %b {epsilon = 3.0 : f64} : (" + s + ", " +
                  v + ", " + v + ") -> (" + s + ", " + n + ", " + n + ") return %y, %m, %r : " + s +
                  ", " + n + ", " + n + " }";
  DialectModel model(f);
  auto results = evaluate<double>(model.getFunction(), Arguments{{{1, 3}, {10, 20}, {100, 200}}},
                                  {.rows = 1, .length = 1});
  EXPECT_EQ(results[0], (Doubles{95, 210}));
  EXPECT_EQ(results[1], (Doubles{2}));
  EXPECT_EQ(results[2], (Doubles{0.5}));
}

TEST(Loss, EqualLogitsCostLogOfVocabulary) {
  std::string n = "!sluice.seq<@s1, 0, f32>", t = "!sluice.seq<@s1, 0, i32>";
  std::string f = "(%x: " + s1 + ", %w: tensor<5x1xf32>, %t: " + t + ") -> " + n +
                  " { %l = sluice.cross_entropy %x, %w, %t {offset = 1 : i64} : (" + s1 +
                  ", tensor<5x1xf32>, " + t + ") -> " + n + " return %l : " + n + " }";
  Doubles losses = run(f, {{1, 2}, {3, 3, 3, 3, 3}, {0, 4, 1, 0, 0, 0}}, {.rows = 1, .length = 2});
  EXPECT_DOUBLE_EQ(losses[0], std::log(5.0));
  EXPECT_DOUBLE_EQ(losses[1], std::log(5.0));
  // Logits 0, ln 2, 0, 0, 0: token 1 has probability 2 / 6.
  losses =
      run(f, {{1, 1}, {0, std::log(2.0), 0, 0, 0}, {4, 1, 0, 0, 0, 0}}, {.rows = 1, .length = 2});
  EXPECT_DOUBLE_EQ(losses[0], std::log(3.0));
  EXPECT_DOUBLE_EQ(losses[1], std::log(6.0));
  // Row 1 has three quarters on token 0 (1 / 6) and a twentieth on each of the five.
  std::string more = f;
  more.replace(more.find("offset"), 0, "first = 1 : i64, smoothing = 2.5e-1 : f32, ");
  losses = run(more, {{1, 1}, {0, std::log(2.0), 0, 0, 0}, {4, 1, 0, 0, 0, 0}},
               {.rows = 1, .length = 2});
  EXPECT_EQ(losses[0], 0);
  EXPECT_DOUBLE_EQ(losses[1], 0.95 * std::log(6.0) + 0.05 * std::log(3.0));
}

/// One head of 2, plain scores.
std::string attention(const std::string &mask, const std::string &more = "", bool rotary = false) {
  std::string s = "!sluice.seq<@s1, 2, f32>", l = "!sluice.seq<@s1, 1, f32>",
              table = rotary ? ", tensor<16x2xf32>" : "";
  return "(%q: " + s + ", %k: " + s + ", %v: " + s + (rotary ? ", %t: tensor<16x2xf32>" : "") +
         ") -> (" + s + ", " + l + ") { %o, %e = sluice.attention %q, %k, %v" +
         (rotary ? ", %t" : "") +
         " attributes {heads = 1 : i64, kv_heads = 1 : i64, head_size = 2 : i64, query_column = 0 "
         ": i64, key_column = 0 : i64, "
         "value_column = 0 : i64, mask = affine_set<(p, q)[n] : (" +
         mask + ")>" + more +
         "} {^bb0(%s: f32, %p: i32, %u: i32, %h: i32): sluice.yield %s : f32} : (" + s + ", " + s +
         ", " + s + table + ") -> (" + s + ", " + l + ") return %o, %e : " + s + ", " + l + " }";
}

TEST(Attention, ZeroQueriesAverageTheValues) {
  DialectModel model(attention("p - q >= 0"));
  Arguments arguments{{Doubles(6, 0), {1, 2, 3, 4, 5, 6}, {2, 10, 4, 20, 6, 60}}};
  auto results = evaluate<double>(model.getFunction(), arguments, {.rows = 1, .length = 3});
  Doubles expected = {2, 10, 3, 15, 4, 30};
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_DOUBLE_EQ(results[0][i], expected[i]);
  }
  for (int p = 0; p < 3; ++p) {
    EXPECT_DOUBLE_EQ(results[1][p], std::log(p + 1.0));
  }
}

TEST(Attention, FullyMaskedRowsAreZero) {
  DialectModel model(attention("p - q - 1 >= 0"));
  RandomEngine generator(1);
  RuntimeValues setting{.rows = 1, .length = 2};
  auto results = evaluate<double>(
      model.getFunction(), randomArguments(generator, model.getFunction(), setting, 2), setting);
  EXPECT_EQ(results[0][0], 0);
  EXPECT_EQ(results[0][1], 0);
  EXPECT_EQ(results[1][0], -std::numeric_limits<double>::infinity());
  EXPECT_NE(results[0][2], 0);
}

TEST(Attention, RotaryScoresDependOnlyOnTheDistance) {
  DialectModel model(attention("p - q >= 0, q - p + 1 >= 0", "", true));
  Doubles table;
  for (int p = 0; p < 16; ++p) {
    table.insert(table.end(), {std::cos(0.3 * p), std::sin(0.3 * p)});
  }
  Doubles q, k, v(32);
  for (int p = 0; p < 16; ++p) {
    q.insert(q.end(), {0.5, -1});
    k.insert(k.end(), {2, 0.25});
  }
  auto results =
      evaluate<double>(model.getFunction(), Arguments{{q, k, v, table}}, {.rows = 1, .length = 16});
  // Turning q by the distance: (q e^{i 0.3}) . k = the score with the key one row before.
  double turned =
      (0.5 * std::cos(0.3) + std::sin(0.3)) * 2 + (0.5 * std::sin(0.3) - std::cos(0.3)) * 0.25;
  double lse = std::log(std::exp(0.5 * 2 - 0.25) + std::exp(turned));
  for (int p = 1; p < 16; ++p) {
    EXPECT_NEAR(results[1][p], lse, 1e-14) << p;
  }
}

TEST(Attention, DropoutScalesItsSurvivors) {
  DialectModel model(attention("p - q == 0", ", dropout = 0.25 : f32, random_id = 4 : i64"));
  RuntimeValues setting{.rows = 3, .length = 16, .seed = 99, .step = 2};
  auto results = evaluate<double>(model.getFunction(),
                                  Arguments{{Doubles(96), Doubles(96), Doubles(96, 3)}}, setting);
  int kept = 0;
  for (int b = 0; b < 3; ++b) {
    for (int p = 0; p < 16; ++p) {
      bool keep = reference::uniform(99, 2, 4, (b * 16 + p) * 16 + p) >= 0.25;
      EXPECT_EQ(results[0][(b * 16 + p) * 2], keep ? 3 / 0.75 : 0);
      kept += keep;
    }
  }
  EXPECT_GT(kept, 24); // 36 expected, deviation 3
  EXPECT_LT(kept, 48);
}

TEST(Float, StaysCloseToDouble) {
  DialectModel model(attention("p - q >= 0"));
  RandomEngine generator(3);
  RuntimeValues setting{.rows = 2, .length = 16};
  Arguments arguments = randomArguments(generator, model.getFunction(), setting, 2);
  auto wide = evaluate<double>(model.getFunction(), arguments, setting);
  auto narrow = evaluate<float>(model.getFunction(), arguments, setting);
  double error = 0;
  for (size_t i = 0; i < wide[0].size(); ++i) {
    error = std::max(error, std::fabs(wide[0][i] - narrow[0][i]));
  }
  // Sums of 16 products of at most one: 16 roundings of 2^-24, a few more for the exponential and
  // the quotient.
  EXPECT_LT(error, 32 * 0x1p-24);
  EXPECT_GT(error, 0) << "the float evaluation is not in float";
}

} // namespace
