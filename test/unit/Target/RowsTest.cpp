// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// Row kernels of activations compared with float64 loops: norms both ways, shifts, groups, gathers,
// cross-entropy.
#include "RowsText.h"

#include <algorithm>

using namespace sluice;
using namespace sluice::test;

namespace {

KernelGenerator rows() { return cpu::generateKernel; }

std::string number(double value) {
  std::ostringstream text;
  text << std::scientific << std::setprecision(9) << value;
  return text.str();
}

/// Layer norm of ROW %h, giving %normalized, %mean and %rstd.
std::string layerNorm(int64_t d) {
  return "%inverse = arith.constant " + number(1.0 / double(d)) + R"( : f32
  %epsilon = arith.constant 1.0e-05 : f32
  %total = dispatch.reduce add %h : ROW -> f32
  %mean = arith.mulf %total, %inverse : f32
  %means = tensor.splat %mean : ROW
  %centered = arith.subf %h, %means : ROW
  %squares = arith.mulf %centered, %centered : ROW
  %squared = dispatch.reduce add %squares : ROW -> f32
  %variance = arith.mulf %squared, %inverse : f32
  %shifted = arith.addf %variance, %epsilon : f32
  %deviation = math.sqrt %shifted : f32
  %one = arith.constant 1.0 : f32
  %rstd = arith.divf %one, %deviation : f32
  %rstds = tensor.splat %rstd : ROW
  %normalized = arith.mulf %centered, %rstds : ROW
)";
}

struct Statistics {
  double mean = 0, rstd = 0;
  explicit Statistics(const std::vector<double> &row) {
    double variance = 0;
    for (double x : row) {
      mean += x / double(row.size());
    }
    for (double x : row) {
      variance += (x - mean) * (x - mean) / double(row.size());
    }
    rstd = 1 / std::sqrt(variance + 1e-5);
  }
};

struct Size {
  int64_t d, k, shift;
};

/// Sums of d terms below 1 in lanes of eight or more, then a tree: d / 8 + 8 roundings at most,
/// each below one unit.
double sumBound(int64_t d) { return unit * double(d / 8 + 8); }

TEST(Rows, NormOfMeanOfShiftedGroups) {
  const int64_t batch = 2, fine = 13;
  for (Size size : {Size{1, 1, 0}, Size{7, 2, 1}, Size{16, 3, 2}, Size{40, 4, 3}, Size{257, 7, 6},
                    Size{40, 12, 11}}) {
    auto [d, k, shift] = size;
    int64_t coarse = (fine + k - 1) / k;
    std::string row = tensor({d}), group = tensor({k, d});
    std::string map = std::to_string(k) + " * p + i - " + std::to_string(shift);
    std::string body =
        (k == 1 ? "%sum = arith.addf %a0, %zeros : ROW\n"
                : "%sum = dispatch.reduce_group add %a0 : " + group + " -> ROW\n") +
        "%share = arith.constant dense<" + number(1.0 / double(k)) + "> : ROW\n" +
        "%h = arith.mulf %sum, %share : ROW\n" + layerNorm(d) +
        "%scaled = arith.mulf %normalized, %a1 : ROW\n%y = arith.addf %scaled, %a2 : ROW\n" +
        "dispatch.yield %h, %y, %mean, %rstd : ROW, ROW, f32, f32";
    body = "%zeros = arith.constant dense<0.0> : ROW\n" + body;
    TextAccess own{.factor = k}, vector{.kind = "vector"};
    std::string text = rowsText(
        {batch, coarse, k},
        {{tensor({batch, fine, d}), TextAccess{.map = map, .group = k}, k == 1 ? row : group},
         {tensor({d}), vector, row},
         {tensor({d}), vector, row}},
        {{tensor({batch, coarse, d}), own},
         {tensor({batch, coarse, d}), own},
         {tensor({batch, coarse}), own},
         {tensor({batch, coarse}), own}},
        body, row);
    Floats x = randomFloats(batch * fine * d, 1), gain = randomFloats(d, 2),
           bias = randomFloats(d, 3);
    for (const cpu::Target *target : targets()) {
      LoadedKernel kernel(text, *target, rows());
      ASSERT_TRUE(kernel.loaded());
      EXPECT_EQ(kernel.kernel().kind, "row");
      for (int64_t length : {13, 11, 1}) {
        auto results = runTwice(kernel, {.operands = {x, gain, bias}, .length = length, .rows = 2});
        for (int64_t b = 0; b < batch; ++b) {
          for (int64_t m = 0; m < coarse; ++m) {
            int64_t r = b * coarse + m;
            if (m >= (length + k - 1) / k) {
              EXPECT_EQ(results[0][r * d], untouched);
              continue;
            }
            std::vector<double> h(d);
            for (int64_t i = 0; i < k; ++i) {
              int64_t q = k * m + i - shift;
              for (int64_t c = 0; c < d && q >= 0 && q < length; ++c) {
                h[c] += double(x[(b * fine + q) * d + c]) / double(k);
              }
            }
            Statistics s(h);
            double bound = sumBound(d) * (2 + s.rstd * s.rstd);
            EXPECT_NEAR(results[2][r], s.mean, sumBound(d));
            EXPECT_NEAR(results[3][r], s.rstd, bound * s.rstd);
            for (int64_t c = 0; c < d; ++c) {
              ASSERT_NEAR(results[0][r * d + c], h[c], unit * double(k + 1));
              ASSERT_NEAR(results[1][r * d + c], (h[c] - s.mean) * s.rstd * gain[c] + bias[c],
                          2 * bound * (1 + s.rstd))
                  << "d " << d << " k " << k << " row " << r << " column " << c;
            }
          }
        }
      }
    }
  }
}

TEST(Rows, RepeatAddAndRootMeanSquareNormInPlace) {
  const int64_t batch = 3, fine = 9;
  for (Size size : {Size{7, 2, 0}, Size{40, 3, 0}, Size{257, 4, 0}}) {
    auto [d, k, shift] = size;
    int64_t coarse = (fine + k - 1) / k;
    std::string row = tensor({d});
    std::string body =
        "%h = arith.addf %a0, %a1 : ROW\n%squares = arith.mulf %h, %h : ROW\n"
        "%total = dispatch.reduce add %squares : ROW -> f32\n%inverse = arith.constant " +
        number(1.0 / double(d)) + R"( : f32
      %epsilon = arith.constant 1.0e-05 : f32
      %mean = arith.mulf %total, %inverse : f32
      %shifted = arith.addf %mean, %epsilon : f32
      %rstd = math.rsqrt %shifted : f32
      %rstds = tensor.splat %rstd : ROW
      %normalized = arith.mulf %h, %rstds : ROW
      %y = arith.mulf %normalized, %a2 : ROW
      dispatch.yield %h, %y : ROW, ROW)";
    std::string text = rowsText(
        {batch, fine, 1},
        {{tensor({batch, fine, d}), TextAccess{}, row},
         {tensor({batch, coarse, d}),
          TextAccess{.map = "p floordiv " + std::to_string(k), .factor = k}, row},
         {tensor({d}), TextAccess{.kind = "vector"}, row}},
        {{tensor({batch, fine, d}), TextAccess{}}, {tensor({batch, fine, d}), TextAccess{}}}, body,
        row);
    Floats x = randomFloats(batch * fine * d, 1), up = randomFloats(batch * coarse * d, 2),
           gain = randomFloats(d, 3);
    for (const cpu::Target *target : targets()) {
      LoadedKernel kernel(text, *target, rows());
      ASSERT_TRUE(kernel.loaded());
      auto results =
          runTwice(kernel, {.operands = {x, up, gain}, .length = 8, .rows = 2, .shares = {{0, 0}}});
      for (int64_t r = 0; r < batch * fine; ++r) {
        int64_t b = r / fine, p = r % fine;
        bool valid = b < 2 && p < 8;
        double total = 0;
        std::vector<double> h(d);
        for (int64_t c = 0; c < d; ++c) {
          h[c] = double(x[r * d + c]) + (valid ? double(up[(b * coarse + p / k) * d + c]) : 0.0);
          total += h[c] * h[c] / double(d);
        }
        double rstd = 1 / std::sqrt(total + 1e-5);
        for (int64_t c = 0; c < d; ++c) {
          ASSERT_NEAR(results[0][r * d + c], h[c], 2 * unit);
          double expected = valid ? h[c] * rstd * gain[c] : untouched;
          ASSERT_NEAR(results[1][r * d + c], expected,
                      valid ? (sumBound(d) + 8 * unit) * (1 + std::abs(expected)) : 0);
        }
      }
    }
  }
}

TEST(Rows, TwoGathersAndNorm) {
  const int64_t batch = 2, positions = 11, vocabulary = 23;
  for (int64_t d : {1, 16, 40, 257}) {
    std::string row = tensor({d});
    std::string body = "%h = arith.addf %a1, %a2 : ROW\n" + layerNorm(d) +
                       "dispatch.yield %h, %normalized : ROW, ROW";
    std::string text =
        rowsText({batch, positions, 1},
                 {{tensor({batch, positions + 1}, "i32"), TextAccess{}, "i32"},
                  {tensor({vocabulary, d}), TextAccess{.kind = "gather", .index = 0}, row},
                  {tensor({positions, d}), TextAccess{.kind = "table", .factor = 0}, row}},
                 {{tensor({batch, positions, d}), TextAccess{}},
                  {tensor({batch, positions, d}), TextAccess{}}},
                 body, row);
    Floats tokens = randomIntegers(batch * (positions + 1), 4, vocabulary);
    Floats table = randomFloats(vocabulary * d, 5), places = randomFloats(positions * d, 6);
    for (const cpu::Target *target : targets()) {
      LoadedKernel kernel(text, *target, rows());
      ASSERT_TRUE(kernel.loaded());
      auto results =
          runTwice(kernel, {.operands = {tokens, table, places}, .length = positions, .rows = 2});
      for (int64_t r = 0; r < batch * positions; ++r) {
        int64_t b = r / positions, p = r % positions,
                token = int64_t(tokens[b * (positions + 1) + p]);
        std::vector<double> h(d);
        for (int64_t c = 0; c < d; ++c) {
          h[c] = double(table[token * d + c] + places[p * d + c]);
          ASSERT_EQ(results[0][r * d + c], float(h[c]));
        }
        Statistics s(h);
        for (int64_t c = 0; c < d; ++c) {
          double bound = sumBound(d) * (2 + s.rstd * s.rstd) * (1 + s.rstd);
          ASSERT_NEAR(results[1][r * d + c], (h[c] - s.mean) * s.rstd, bound);
        }
      }
    }
  }
}

/// dx = residual + rstd (g - mean(g) - xhat mean(g xhat)), g = dy gain, with dy the mean's adjoint
/// through (q + s) div k; d gain and d bias are summed by parts.
TEST(Rows, NormBackwardThroughAdjointMaps) {
  const int64_t batch = 2, fine = 13;
  for (Size size : {Size{7, 1, 0}, Size{16, 2, 1}, Size{40, 3, 2}, Size{257, 4, 3}}) {
    auto [d, k, shift] = size;
    int64_t parts = k == 2 ? 40 : 5; // more parts than rows: the last ones are zeros
    int64_t coarse = (fine + k - 1) / k;
    std::string row = tensor({d});
    std::string body = "%share = arith.constant dense<" + number(1.0 / double(k)) +
                       "> : ROW\n%inverse = arith.constant " + number(1.0 / double(d)) + R"( : f32
      %dy = arith.mulf %a0, %share : ROW
      %g = arith.mulf %dy, %a2 : ROW
      %gx = arith.mulf %g, %a1 : ROW
      %sum = dispatch.reduce add %g : ROW -> f32
      %sumx = dispatch.reduce add %gx : ROW -> f32
      %mean = arith.mulf %sum, %inverse : f32
      %meanx = arith.mulf %sumx, %inverse : f32
      %means = tensor.splat %mean : ROW
      %meansx = tensor.splat %meanx : ROW
      %along = arith.mulf %a1, %meansx : ROW
      %flat = arith.subf %g, %means : ROW
      %rest = arith.subf %flat, %along : ROW
      %rstds = tensor.splat %a3 : ROW
      %back = arith.mulf %rest, %rstds : ROW
      %dx = arith.addf %back, %a4 : ROW
      %dgain = arith.mulf %dy, %a1 : ROW
      dispatch.yield %dx, %dgain, %dy : ROW, ROW, ROW)";
    std::string adjoint = "(p + " + std::to_string(shift) + ") floordiv " + std::to_string(k);
    std::string sequence = tensor({batch, fine, d});
    std::string text =
        rowsText({batch, fine, 1},
                 {{tensor({batch, coarse, d}), TextAccess{.map = adjoint, .factor = k}, row},
                  {sequence, TextAccess{}, row},
                  {tensor({d}), TextAccess{.kind = "vector"}, row},
                  {tensor({batch, fine}), TextAccess{}, "f32"},
                  {sequence, TextAccess{}, row}},
                 {{sequence, TextAccess{}},
                  {tensor({parts, d}), TextAccess{.kind = "columns"}},
                  {tensor({parts, d}), TextAccess{.kind = "columns"}}},
                 body, row);
    Floats dy = randomFloats(batch * coarse * d, 1), xhat = randomFloats(batch * fine * d, 2),
           gain = randomFloats(d, 3), rstd = randomFloats(batch * fine, 4, 0.5f, 2.0f),
           residual = randomFloats(batch * fine * d, 5);
    for (const cpu::Target *target : targets()) {
      LoadedKernel kernel(text, *target, rows());
      ASSERT_TRUE(kernel.loaded());
      EXPECT_EQ(kernel.items(), parts);
      for (int64_t length : {13, 10}) {
        auto results = runTwice(kernel, {.operands = {dy, xhat, gain, rstd, residual},
                                         .length = length,
                                         .rows = 2,
                                         .shares = {{0, 4}}});
        int64_t perPart = (batch * fine + parts - 1) / parts;
        std::vector<double> dgain(parts * d), dbias(parts * d);
        for (int64_t r = 0; r < batch * fine; ++r) {
          int64_t b = r / fine, p = r % fine, m = (p + shift) / k, part = r / perPart;
          if (p >= length) {
            continue;
          }
          bool inside = m < (length + k - 1) / k;
          std::vector<double> g(d);
          double mean = 0, meanx = 0;
          for (int64_t c = 0; c < d; ++c) {
            double dyc = inside ? double(dy[(b * coarse + m) * d + c]) / double(k) : 0.0;
            g[c] = dyc * gain[c];
            mean += g[c] / double(d);
            meanx += g[c] * xhat[r * d + c] / double(d);
            dgain[part * d + c] += dyc * xhat[r * d + c];
            dbias[part * d + c] += dyc;
          }
          for (int64_t c = 0; c < d; ++c) {
            double expected =
                residual[r * d + c] + rstd[r] * (g[c] - mean - xhat[r * d + c] * meanx);
            ASSERT_NEAR(results[0][r * d + c], expected, 4 * sumBound(d) + 8 * unit);
          }
        }
        for (int64_t i = 0; i < parts * d; ++i) {
          ASSERT_NEAR(results[1][i], dgain[i], 4 * unit * double(perPart)) << "part " << i / d;
          ASSERT_NEAR(results[2][i], dbias[i], 4 * unit * double(perPart)) << "part " << i / d;
        }
      }
    }
  }
}

/// Unrolled and looped groups; ignores rows outside.
TEST(Rows, CustomCombiners) {
  const int64_t batch = 2, fine = 29, length = 26;
  for (Size size : {Size{7, 3, 2}, Size{36, 9, 8}}) {
    auto [d, k, shift] = size;
    int64_t coarse = (fine + k - 1) / k;
    std::string text = combinersText(batch, fine, d, k, shift);
    Floats x = randomFloats(batch * fine * d, 1, 0.5F, 1.5F);
    for (const cpu::Target *target : targets()) {
      LoadedKernel kernel(text, *target, rows());
      ASSERT_TRUE(kernel.loaded());
      auto results = runTwice(kernel, {.operands = {x, x}, .length = length, .rows = batch});
      for (int64_t i = 0; i < batch * coarse * d; ++i) {
        int64_t c = i % d, m = i / d % coarse, b = i / d / coarse;
        double product = 1, least = INFINITY;
        for (int64_t q = k * m - shift; q < k * m - shift + k; ++q) {
          double number = q >= 0 && q < length ? x[(b * fine + q) * d + c] : NAN;
          product = std::isnan(number) ? product : product * number;
          least = std::fmin(least, number);
        }
        if (m < (length + k - 1) / k) {
          ASSERT_NEAR(results[0][i], product, double(k) * unit * product) << "row " << m;
          ASSERT_EQ(results[1][i], float(least)) << "row " << m;
        }
      }
    }
  }
}

TEST(Rows, GroupSumAdjointOfRepeat) {
  const int64_t batch = 2, fine = 13;
  for (Size size : {Size{7, 2, 0}, Size{40, 7, 0}, Size{257, 9, 0}}) {
    auto [d, k, shift] = size;
    int64_t coarse = (fine + k - 1) / k;
    std::string row = tensor({d}), group = tensor({k, d});
    std::string body = "%doubled = arith.addf %a0, %a0 : " + group +
                       "\n%s = dispatch.reduce_group add %doubled : " + group +
                       " -> ROW\n%all = dispatch.reduce add %a0 : " + group +
                       " -> f32\ndispatch.yield %s, %all : ROW, f32";
    std::string text =
        rowsText({batch, coarse, k},
                 {{tensor({batch, fine, d}),
                   TextAccess{.map = std::to_string(k) + " * p + i", .group = k}, group}},
                 {{tensor({batch, coarse, d}), TextAccess{.factor = k}},
                  {tensor({batch, coarse}), TextAccess{.factor = k}}},
                 body, row, true);
    Floats x = randomFloats(batch * fine * d, 1);
    for (const cpu::Target *target : targets()) {
      LoadedKernel kernel(text, *target, rows());
      ASSERT_TRUE(kernel.loaded());
      int64_t length = 10;
      auto results = runTwice(kernel, {.operands = {x}, .length = length, .rows = 1});
      for (int64_t r = 0; r < batch * coarse; ++r) {
        int64_t b = r / coarse, m = r % coarse;
        bool valid = b < 1 && m < (length + k - 1) / k;
        double all = 0;
        for (int64_t c = 0; c < d; ++c) {
          double sum = 0;
          for (int64_t q = k * m; valid && q < std::min(k * m + k, length); ++q) {
            sum += x[(b * fine + q) * d + c];
          }
          all += sum;
          ASSERT_NEAR(results[0][r * d + c], 2 * sum, 4 * unit * double(k * k));
        }
        ASSERT_NEAR(results[1][r], all, sumBound(d * k) * std::sqrt(double(d * k)));
      }
    }
  }
}

/// Few numbers, all below zero: many ties, and zeros outside would be greater. Long shifts leave
/// complete groups outside.
TEST(Rows, MaximumOfShiftedGroupsAndItsFirstRow) {
  const int64_t batch = 2, fine = 29;
  for (Size size : {Size{1, 2, 1}, Size{7, 3, 2}, Size{16, 4, 9}, Size{37, 5, 0}, Size{40, 8, 7},
                    Size{21, 9, 8}, Size{33, 20, 21}}) {
    auto [d, k, shift] = size;
    int64_t coarse = (fine + k - 1) / k;
    std::string text = maxText(batch, fine, d, k, shift);
    Floats x = randomIntegers(batch * fine * d, 3, 3), g = randomFloats(batch * coarse * d, 4);
    for (float &value : x) {
      value -= 5;
    }
    for (const cpu::Target *target : targets()) {
      LoadedKernel kernel(text, *target, rows());
      ASSERT_TRUE(kernel.loaded());
      for (int64_t length : {29, 17, 1}) {
        auto results = runTwice(kernel, {.operands = {x, g}, .length = length, .rows = 2});
        for (int64_t r = 0; r < batch * coarse; ++r) {
          int64_t b = r / coarse, m = r % coarse;
          for (int64_t c = 0; c < d && m < (length + k - 1) / k; ++c) {
            int64_t first = -1;
            auto at = [&](int64_t q) { return x[(b * fine + q) * d + c]; };
            for (int64_t q = k * m - shift; q < k * m + k - shift; ++q) {
              bool inside = q >= 0 && q < length;
              first = inside && (first < 0 || at(q) > at(first)) ? q : first;
            }
            ASSERT_EQ(results[0][r * d + c], first < 0 ? 0 : at(first))
                << "d " << d << " k " << k << " row " << m << " column " << c;
            for (int64_t i = 0; first >= 0 && i < k; ++i) {
              ASSERT_EQ(results[1][(r * k + i) * d + c],
                        k * m + i - shift == first ? g[r * d + c] : 0)
                  << "d " << d << " k " << k << " row " << m << " column " << c << " member " << i;
            }
          }
        }
      }
    }
  }
}

TEST(Rows, MaximumPropagatesNaN) {
  for (int64_t k : {3, 9}) {
    std::string text = maxText(1, k, 1, k, 0);
    for (const cpu::Target *target : targets()) {
      LoadedKernel kernel(text, *target, rows());
      ASSERT_TRUE(kernel.loaded());
      for (int64_t i = 0; i < k; ++i) {
        Floats x = randomIntegers(k, 5, 3);
        x[i] = NAN;
        auto results = kernel.run({.operands = {x, {1}}, .length = k, .rows = 1});
        EXPECT_TRUE(std::isnan(results[0][0])) << "member " << i << " of " << k;
        EXPECT_EQ(results[1], Floats(k)) << "member " << i << " of " << k;
      }
    }
  }
}

/// Rows of two widths in one body: each head's log-sum-exp scales its columns' total, and both are
/// normalized.
TEST(Rows, TwoWidthsAndThreeReductionsInARow) {
  const int64_t batch = 2, positions = 6, heads = 3;
  for (int64_t d : {5, 40, 257}) {
    std::string row = tensor({d}), few = tensor({heads});
    std::string body = R"(
      %m = dispatch.reduce max %a1 : FEW -> f32
      %ms = tensor.splat %m : FEW
      %low = arith.subf %a1, %ms : FEW
      %e = math.exp %low : FEW
      %z = dispatch.reduce add %e : FEW -> f32
      %zs = tensor.splat %z : ROW
      %x = arith.mulf %a0, %zs : ROW
      %t = dispatch.reduce add %x : ROW -> f32
      %ts = tensor.splat %t : FEW
      %y = arith.addf %e, %ts : FEW
      dispatch.yield %x, %y : ROW, FEW)";
    for (size_t at; (at = body.find("FEW")) != std::string::npos;) {
      body.replace(at, 3, few);
    }
    std::string wide = tensor({batch, positions, d}), narrow = tensor({batch, positions, heads});
    std::string text =
        rowsText({batch, positions, 1}, {{wide, TextAccess{}, row}, {narrow, TextAccess{}, few}},
                 {{wide, TextAccess{}}, {narrow, TextAccess{}}}, body, row);
    Floats x = randomFloats(batch * positions * d, 1),
           h = randomFloats(batch * positions * heads, 2);
    for (const cpu::Target *target : targets()) {
      LoadedKernel kernel(text, *target, rows());
      ASSERT_TRUE(kernel.loaded());
      auto results = runTwice(
          kernel,
          {.operands = {x, h}, .length = positions, .rows = batch, .shares = {{0, 0}, {1, 1}}});
      for (int64_t r = 0; r < batch * positions; ++r) {
        double m = *std::max_element(&h[r * heads], &h[r * heads] + heads), z = 0, t = 0;
        for (int64_t i = 0; i < heads; ++i) {
          z += std::exp(h[r * heads + i] - m);
        }
        for (int64_t c = 0; c < d; ++c) {
          t += z * x[r * d + c];
          ASSERT_NEAR(results[0][r * d + c], z * x[r * d + c], 24 * unit);
        }
        for (int64_t i = 0; i < heads; ++i) {
          double expected = std::exp(h[r * heads + i] - m) + t;
          ASSERT_NEAR(results[1][r * heads + i], expected,
                      (24 * unit + 3 * sumBound(d)) * double(d));
        }
      }
    }
  }
}

/// k rows of d become one row of k d columns, shifted, and back.
TEST(Rows, FoldAndUnfold) {
  const int64_t batch = 2, fine = 13;
  for (Size size : {Size{7, 2, 1}, Size{16, 3, 2}, Size{40, 4, 0}, Size{5, 9, 8}}) {
    auto [d, k, shift] = size;
    int64_t coarse = (fine + k - 1) / k, length = 11;
    std::string K = std::to_string(k), S = std::to_string(shift), D = std::to_string(d),
                group = tensor({k, d});
    std::string fold = rowsText(
        {batch, coarse, k},
        {{tensor({batch, fine, d}), TextAccess{.map = K + " * p + i - " + S, .group = k}, group}},
        {{tensor({batch, coarse, k * d}), TextAccess{.factor = k}}},
        "dispatch.yield %a0 : " + group);
    std::string unfold =
        rowsText({batch, fine, 1},
                 {{tensor({batch, coarse, k * d}),
                   TextAccess{.map = "(p + " + S + ") floordiv " + K,
                              .factor = k,
                              .column = "((p + " + S + ") mod " + K + ") * " + D},
                   tensor({d})}},
                 {{tensor({batch, fine, d}), TextAccess{}}}, "dispatch.yield %a0 : " + tensor({d}));
    Floats x = randomFloats(batch * fine * d, 1);
    for (const cpu::Target *target : targets()) {
      LoadedKernel folder(fold, *target, rows()), unfolder(unfold, *target, rows());
      ASSERT_TRUE(folder.loaded() && unfolder.loaded());
      Floats folded = runTwice(folder, {.operands = {x}, .length = length, .rows = 2})[0];
      Floats back = runTwice(unfolder, {.operands = {folded}, .length = length, .rows = 2})[0];
      for (int64_t b = 0; b < batch; ++b) {
        for (int64_t m = 0; m < (length + k - 1) / k; ++m) {
          for (int64_t j = 0; j < k * d; ++j) {
            int64_t q = k * m + j / d - shift;
            float expected = q >= 0 && q < length ? x[(b * fine + q) * d + j % d] : 0;
            ASSERT_EQ(folded[(b * coarse + m) * k * d + j], expected) << "d " << d << " k " << k;
          }
        }
        for (int64_t q = 0; q < length; ++q) {
          bool inside = (q + shift) / k < (length + k - 1) / k;
          for (int64_t c = 0; c < d; ++c) {
            ASSERT_EQ(back[(b * fine + q) * d + c], inside ? x[(b * fine + q) * d + c] : 0);
          }
        }
      }
    }
  }
}

/// A row is cut, or put between zeros.
TEST(Rows, PadsAndCutsColumns) {
  const int64_t batch = 2, positions = 5;
  for (ColumnRange range : columnRanges) {
    Floats x = randomFloats(batch * positions * range.d, 1);
    for (const cpu::Target *target : targets()) {
      LoadedKernel kernel(range.text(batch, positions), *target, rows());
      ASSERT_TRUE(kernel.loaded());
      Floats y = runTwice(kernel, {.operands = {x}, .length = positions, .rows = batch})[0];
      for (int64_t i = 0; i < int64_t(y.size()); ++i) {
        int64_t row = i / range.width, c = i % range.width + range.first;
        bool exists = row % positions > 0 && c >= 0 && c < range.d;
        ASSERT_EQ(y[i], exists ? x[(row - 1) * range.d + c] : 0) << "d " << range.d << " at " << i;
      }
    }
  }
}

} // namespace
