// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// Row kernels over flat memory and one-row domains: optimizer, gradient norm, schedule, second
// stages, random numbers.
#include "Philox.h"
#include "RowsText.h"

using namespace sluice;
using namespace sluice::test;

namespace {

KernelGenerator rows() { return cpu::generateKernel; }

const TextAccess flat{.kind = "flat"}, scalar{.kind = "scalar"}, vector{.kind = "vector"};

TEST(Stream, AdamWOverFlatArenasInPlace) {
  const int64_t count = 37;
  for (int64_t d : {1, 16, 257, 1024}) {
    std::string row = tensor({d}), arena = tensor({count, d});
    // Operands p, m, v, g, clip, rate, 1 / (1 - b1^t), 1 / (1 - b2^t).
    std::string body = R"(
      %b1 = arith.constant dense<0.9> : ROW
      %b2 = arith.constant dense<0.95> : ROW
      %r1 = arith.constant dense<0.1> : ROW
      %r2 = arith.constant dense<0.05> : ROW
      %epsilon = arith.constant dense<1.0e-8> : ROW
      %decay = arith.constant dense<0.1> : ROW
      %clip = tensor.splat %a4 : ROW
      %rate = tensor.splat %a5 : ROW
      %c1 = tensor.splat %a6 : ROW
      %c2 = tensor.splat %a7 : ROW
      %g = arith.mulf %a3, %clip : ROW
      %m0 = arith.mulf %a1, %b1 : ROW
      %m1 = arith.mulf %g, %r1 : ROW
      %m = arith.addf %m0, %m1 : ROW
      %gg = arith.mulf %g, %g : ROW
      %v0 = arith.mulf %a2, %b2 : ROW
      %v1 = arith.mulf %gg, %r2 : ROW
      %v = arith.addf %v0, %v1 : ROW
      %mh = arith.mulf %m, %c1 : ROW
      %vh = arith.mulf %v, %c2 : ROW
      %root = math.sqrt %vh : ROW
      %under = arith.addf %root, %epsilon : ROW
      %step = arith.divf %mh, %under : ROW
      %shrink = arith.mulf %a0, %decay : ROW
      %both = arith.addf %step, %shrink : ROW
      %move = arith.mulf %both, %rate : ROW
      %p = arith.subf %a0, %move : ROW
      dispatch.yield %p, %m, %v : ROW, ROW, ROW)";
    std::string text = rowsText({1, count, 0},
                                {{arena, flat, row},
                                 {arena, flat, row},
                                 {arena, flat, row},
                                 {arena, flat, row},
                                 {"tensor<f32>", scalar, "f32"},
                                 {"tensor<f32>", scalar, "f32"},
                                 {"tensor<f32>", scalar, "f32"},
                                 {"tensor<f32>", scalar, "f32"}},
                                {{arena, flat}, {arena, flat}, {arena, flat}}, body, row);
    Floats p = randomFloats(count * d, 1), m = randomFloats(count * d, 2),
           v = randomFloats(count * d, 3, 0.01f, 1), g = randomFloats(count * d, 4);
    for (const cpu::Target *target : targets()) {
      LoadedKernel kernel(text, *target, rows());
      ASSERT_TRUE(kernel.loaded());
      EXPECT_EQ(kernel.kernel().kind, "stream");
      auto results = runTwice(kernel, {.operands = {p, m, v, g, {0.5f}, {0.01f}, {2.0f}, {4.0f}},
                                       .shares = {{0, 0}, {1, 1}, {2, 2}}});
      for (int64_t i = 0; i < count * d; ++i) {
        double gi = 0.5 * g[i], mi = 0.9 * m[i] + 0.1 * gi, vi = 0.95 * v[i] + 0.05 * gi * gi;
        double pi = p[i] - double(0.01f) * (2 * mi / (std::sqrt(4 * vi) + 1e-8) + 0.1 * p[i]);
        // 0.9f and similar constants are themselves rounded once, hence one unit more than the
        // operations.
        ASSERT_NEAR(results[1][i], mi, 5 * unit);
        ASSERT_NEAR(results[2][i], vi, 5 * unit);
        ASSERT_NEAR(results[0][i], pi,
                    2 * unit + 0.01 * 40 * unit * (1 + std::abs(mi) / std::sqrt(vi)));
      }
    }
  }
}

TEST(Stream, SquaresAndTheirNormAndSchedule) {
  const int64_t count = 67, d = 1024;
  std::string row = tensor({d});
  std::string squares =
      rowsText({1, count, 0}, {{tensor({count, d}), flat, row}}, {{tensor({count}), flat}},
               "%s = arith.mulf %a0, %a0 : ROW\n%t = dispatch.reduce add %s : ROW -> f32\n"
               "dispatch.yield %t : f32",
               row);
  // norm, clip = min(1, 1 / norm), a cosine and a power of the step, and whether the norm is
  // finite.
  std::string second = rowsText(
      {1, 1, 0}, {{tensor({count}), vector, tensor({count})}, {"tensor<i64>", scalar, "i64"}},
      {{"tensor<f32>", scalar},
       {"tensor<f32>", scalar},
       {"tensor<f32>", scalar},
       {"tensor<f32>", scalar},
       {"tensor<i32>", scalar}},
      R"(
      %t = dispatch.reduce add %a0 : ROW -> f32
      %norm = math.sqrt %t : f32
      %one = arith.constant 1.0 : f32
      %over = arith.cmpf ogt, %norm, %one : f32
      %inverse = arith.divf %one, %norm : f32
      %clip = arith.select %over, %inverse, %one : f32
      %step = arith.sitofp %a1 : i64 to f32
      %tenth = arith.constant 0.1 : f32
      %angle = arith.mulf %step, %tenth : f32
      %cos = math.cos %angle : f32
      %base = arith.constant 0.9 : f32
      %log = math.log %base : f32
      %exponent = arith.mulf %log, %step : f32
      %power = math.exp %exponent : f32
      %huge = arith.constant 3.0e38 : f32
      %isFinite = arith.cmpf olt, %norm, %huge : f32
      %yes = arith.constant 1 : i32
      %no = arith.constant 0 : i32
      %finite = arith.select %isFinite, %yes, %no : i32
      dispatch.yield %norm, %clip, %cos, %power, %finite : f32, f32, f32, f32, i32)",
      tensor({count}));
  Floats g = randomFloats(count * d, 4);
  for (const cpu::Target *target : targets()) {
    LoadedKernel first(squares, *target, rows()), last(second, *target, rows());
    ASSERT_TRUE(first.loaded() && last.loaded());
    EXPECT_EQ(last.items(), 1);
    Floats sums = runTwice(first, {.operands = {g}})[0];
    double all = 0;
    for (int64_t r = 0; r < count; ++r) {
      double sum = 0;
      for (int64_t c = 0; c < d; ++c) {
        sum += double(g[r * d + c]) * g[r * d + c];
      }
      ASSERT_NEAR(sums[r], sum, sum * unit * (double(d) / 32 + 8));
      all += sum;
    }
    auto results = last.run({.operands = {sums, {7}}});
    EXPECT_NEAR(results[0][0], std::sqrt(all), std::sqrt(all) * unit * 48);
    EXPECT_NEAR(results[1][0], 1 / std::sqrt(all), 1 / std::sqrt(all) * unit * 50);
    EXPECT_NEAR(results[2][0], std::cos(0.7), 4 * unit);
    EXPECT_NEAR(results[3][0], std::pow(0.9, 7), 8 * unit);
    EXPECT_EQ(results[4][0], 1);
    sums[5] = NAN;
    EXPECT_EQ(last.run({.operands = {sums, {7}}})[4][0], 0);
  }
}

/// Losses [B, T] as one row; and the last valid row of each sequence, as generation reads it.
TEST(Stream, MatrixAsOneRowAndLastRows) {
  const int64_t batch = 3, positions = 13, d = 40;
  std::string all = tensor({batch * positions}), row = tensor({d});
  std::string total =
      rowsText({1, 1, 0}, {{tensor({batch, positions}), vector, all}}, {{"tensor<f32>", scalar}},
               "%t = dispatch.reduce add %a0 : ROW -> f32\ndispatch.yield %t : f32", all);
  std::string last =
      rowsText({batch, 1, 0}, {{tensor({batch, positions, d}), TextAccess{.map = "n - 1"}, row}},
               {{tensor({batch, 1, d}), TextAccess{.factor = 0}}}, "dispatch.yield %a0 : ROW", row);
  Floats losses = randomIntegers(batch * positions, 1, 100),
         x = randomFloats(batch * positions * d, 2);
  for (const cpu::Target *target : targets()) {
    LoadedKernel sum(total, *target, rows()), rowsOfLast(last, *target, rows());
    ASSERT_TRUE(sum.loaded() && rowsOfLast.loaded());
    float expected = 0;
    for (float loss : losses) {
      expected += loss;
    }
    EXPECT_EQ(runTwice(sum, {.operands = {losses}})[0][0], expected);
    for (int64_t length : {1, 13, 0}) {
      Floats y = runTwice(rowsOfLast, {.operands = {x}, .length = length, .rows = batch})[0];
      for (int64_t i = 0; i < batch * d; ++i) {
        ASSERT_EQ(y[i], length ? x[((i / d) * positions + length - 1) * d + i % d] : 0);
      }
    }
  }
}

TEST(Stream, SecondStageSumsParts) {
  for (int64_t d : {1, 7, 40, 257}) {
    for (int64_t parts : {3, 8, 50}) {
      std::string row = tensor({d}), group = tensor({parts, d});
      for (const char *kind : {"flat", "table"}) {
        std::string text = rowsText(
            {1, 1, 0},
            {{group, TextAccess{.kind = kind, .map = "i", .group = parts, .factor = 0}, group},
             {row, vector, row}},
            {{row, vector}},
            "%s = dispatch.reduce_group add %a0 : " + group + " -> ROW\n" +
                "%y = arith.addf %s, %a1 : ROW\ndispatch.yield %y : ROW",
            row);
        Floats x = randomFloats(parts * d, 1), start = randomFloats(d, 2);
        for (const cpu::Target *target : targets()) {
          LoadedKernel kernel(text, *target, rows());
          ASSERT_TRUE(kernel.loaded());
          Floats y = runTwice(kernel, {.operands = {x, start}, .shares = {{0, 1}}})[0];
          for (int64_t c = 0; c < d; ++c) {
            double sum = start[c];
            for (int64_t r = 0; r < parts; ++r) {
              sum += x[r * d + c];
            }
            ASSERT_NEAR(y[c], sum, unit * double(parts) * 4 * std::sqrt(double(parts)));
          }
        }
      }
    }
  }
}

//===----------------------------------------------------------------------===//
// Random numbers
//===----------------------------------------------------------------------===//

TEST(Stream, UniformNumbersArePhilox) {
  const int64_t count = 9;
  for (int64_t d : {1, 7, 16, 40, 257}) {
    std::string row = tensor({d});
    std::string text = rowsText(
        {1, count, 0}, {}, {{tensor({count, d}), flat}, {tensor({count, d}), flat}},
        "%u = dispatch.random {id = 5, width = " + std::to_string(d) +
            "} : ROW\n%w = dispatch.random {id = 6, fixed_step, width = " + std::to_string(d) +
            "} : ROW\ndispatch.yield %u, %w : ROW, ROW",
        row);
    for (const cpu::Target *target : targets()) {
      LoadedKernel kernel(text, *target, rows());
      ASSERT_TRUE(kernel.loaded());
      int64_t seed = 0x123456789abcdef;
      auto results = runTwice(kernel, {.operands = {}, .step = 77, .seed = seed});
      for (int64_t e = 0; e < count * d; ++e) {
        ASSERT_EQ(results[0][e], philoxUniform(e, 5, 77, seed))
            << "element " << e << " of rows of " << d;
        ASSERT_EQ(results[1][e], philoxUniform(e, 6, 0, seed))
            << "element " << e << " of rows of " << d;
      }
    }
  }
}

/// Numbers and columns of a folded row are counted through its members: element i d + c.
TEST(Stream, FoldedRowsCountTheirMembers) {
  const int64_t count = 5;
  for (auto [k, d] : {std::pair<int64_t, int64_t>{3, 7}, {3, 8}, {2, 40}, {9, 20}}) {
    std::string group = tensor({k, d}), integers = tensor({k, d}, "i32"),
                width = std::to_string(k * d);
    std::string body = "%u = dispatch.random {id = 5, width = " + width +
                       "} : ROW\n%c = dispatch.column : " + integers +
                       "\n%f = arith.sitofp %c : " + integers +
                       " to ROW\ndispatch.yield %u, %f : ROW, ROW";
    std::string text =
        rowsText({1, count, 0}, {},
                 {{tensor({count, k * d}), flat}, {tensor({count, k * d}), flat}}, body, group);
    for (const cpu::Target *target : targets()) {
      LoadedKernel kernel(text, *target, rows());
      ASSERT_TRUE(kernel.loaded());
      auto results = runTwice(kernel, {.operands = {}, .step = 2, .seed = 3});
      for (int64_t e = 0; e < count * k * d; ++e) {
        ASSERT_EQ(results[0][e], philoxUniform(e, 5, 2, 3))
            << "element " << e << " of " << k << " times " << d;
        ASSERT_EQ(results[1][e], float(e % (k * d)));
      }
    }
  }
}

TEST(Stream, NormalNumbersByBoxMuller) {
  const int64_t count = 64, d = 256;
  std::string row = tensor({d});
  std::string text = rowsText({1, count, 0}, {}, {{tensor({count, d}), flat}}, R"(
      %u = dispatch.random {id = 1, width = 256, fixed_step} : ROW
      %w = dispatch.random {id = 2, width = 256, fixed_step} : ROW
      %one = arith.constant dense<1.0> : ROW
      %minus2 = arith.constant dense<-2.0> : ROW
      %tau = arith.constant dense<6.2831853> : ROW
      %deviation = arith.constant dense<0.02> : ROW
      %above = arith.subf %one, %u : ROW
      %log = math.log %above : ROW
      %square = arith.mulf %log, %minus2 : ROW
      %radius = math.sqrt %square : ROW
      %angle = arith.mulf %w, %tau : ROW
      %cos = math.cos %angle : ROW
      %normal = arith.mulf %radius, %cos : ROW
      %y = arith.mulf %normal, %deviation : ROW
      dispatch.yield %y : ROW)",
                              row);
  for (const cpu::Target *target : targets()) {
    LoadedKernel kernel(text, *target, rows());
    ASSERT_TRUE(kernel.loaded());
    Floats y = runTwice(kernel, {.operands = {}, .seed = 3})[0];
    double mean = 0, square = 0;
    for (int64_t e = 0; e < count * d; ++e) {
      double radius = std::sqrt(-2 * std::log(1 - double(philoxUniform(e, 1, 0, 3))));
      double expected =
          0.02 * radius * std::cos(6.283185307179586 * double(philoxUniform(e, 2, 0, 3)));
      ASSERT_NEAR(y[e], expected, 0.02 * 64 * unit * (1 + radius));
      mean += y[e] / double(count * d);
      square += double(y[e]) * y[e] / double(count * d);
    }
    // Four standard errors of 16384 draws.
    EXPECT_NEAR(mean, 0, 4 * 0.02 / 128);
    EXPECT_NEAR(std::sqrt(square), 0.02, 4 * 0.02 / 181);
  }
}

/// The mask depends only on the element number: in two loops of one kernel, and after a reduction.
TEST(Stream, DropoutInRows) {
  const int64_t batch = 2, positions = 9;
  for (int64_t d : {7, 40, 257}) {
    std::string row = tensor({d}), sequence = tensor({batch, positions, d}),
                mask = tensor({d}, "i1");
    std::string body = "%u = dispatch.random {id = 9, width = " + std::to_string(d) + R"(} : ROW
      %rate = arith.constant dense<0.25> : ROW
      %scale = arith.constant dense<1.3333334> : ROW
      %zero = arith.constant dense<0.0> : ROW
      %drop = arith.cmpf olt, %u, %rate : ROW
      %scaled = arith.mulf %a0, %scale : ROW
      %kept = arith.select %drop, %zero, %scaled : )" +
                       mask + R"(, ROW
      %total = dispatch.reduce add %kept : ROW -> f32
      %totals = tensor.splat %total : ROW
      %e = math.exp %a0 : ROW
      %other = dispatch.reduce add %e : ROW -> f32
      %others = tensor.splat %other : ROW
      %share = arith.divf %e, %others : ROW
      %both = arith.addf %kept, %totals : ROW
      %y = arith.addf %both, %share : ROW
      dispatch.yield %y, %total : ROW, f32)";
    std::string text =
        rowsText({batch, positions, 1}, {{sequence, TextAccess{}, row}},
                 {{sequence, TextAccess{}}, {tensor({batch, positions}), TextAccess{}}}, body, row);
    Floats x = randomFloats(batch * positions * d, 1);
    for (const cpu::Target *target : targets()) {
      LoadedKernel kernel(text, *target, rows());
      ASSERT_TRUE(kernel.loaded());
      auto results = runTwice(
          kernel, {.operands = {x}, .length = positions, .rows = batch, .step = 4, .seed = 8});
      for (int64_t r = 0; r < batch * positions; ++r) {
        std::vector<double> kept(d);
        double total = 0, other = 0;
        for (int64_t c = 0; c < d; ++c) {
          other += std::exp(double(x[r * d + c]));
          kept[c] = philoxUniform(r * d + c, 9, 4, 8) < 0.25f ? 0.0 : x[r * d + c] / 0.75;
          total += kept[c];
        }
        double bound = unit * double(d / 8 + 10) * double(d) / 4;
        ASSERT_NEAR(results[1][r], total, bound);
        for (int64_t c = 0; c < d; ++c) {
          double share = std::exp(double(x[r * d + c])) / other;
          ASSERT_NEAR(results[0][r * d + c], kept[c] + total + share, bound + 8 * unit);
        }
      }
    }
  }
}

} // namespace
