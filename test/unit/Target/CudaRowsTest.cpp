// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Row kernels of the CUDA target, emulated and checked by the oracle, compared with the CPU's on
// the same operands. No GPU is used.
#include "EmulatedKernel.h"
#include "RowsText.h"

#include "mlir/Parser/Parser.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/IR/Instructions.h"
#include <iostream>
#include <numeric>

using namespace sluice;
using namespace sluice::test;

namespace {

/// Bytes of complete sectors moved by vector accesses of global memory in the last run, and the
/// bytes that contiguous accesses would have moved.
struct Traffic {
  double bytes = 0, least = 0;
};

Traffic rowTraffic(const EmulatedKernel &kernel) {
  Traffic traffic;
  for (const emulator::Report &report : kernel.reports) {
    for (const emulator::SiteTraffic &site : report.counters.sites) {
      bool vectors = site.instruction.find(" x float>") != std::string::npos ||
                     site.instruction.find(" x bfloat>") != std::string::npos;
      bool global = site.instruction.find("addrspace(3)") == std::string::npos;
      if (vectors && global) {
        traffic.bytes += 32.0 * double(site.units);
        traffic.least += 32.0 * double(site.leastUnits);
      }
    }
  }
  return traffic;
}

LoadedKernel cpuKernel(const std::string &text) {
  return LoadedKernel(text, cpu::Target::avx2(), cpu::generateKernel);
}

#define SKIP_WITHOUT_CPU()                                                                         \
  if (targets().empty()) {                                                                         \
    GTEST_SKIP() << "this machine runs no CPU kernel to compare with";                             \
  }

std::string scientific(double value) {
  std::ostringstream text;
  text << std::scientific << std::setprecision(9) << value;
  return text.str();
}

/// The mean of k rows, shifted, then layer norm with gain and bias: %h, %y, and the statistic
/// %rstd.
std::string normText(int64_t batch, int64_t fine, int64_t d, int64_t k, int64_t shift,
                     bool zeroInvalid, const std::string &element = "f32") {
  std::string row = tensor({d}), group = tensor({k, d});
  std::string body = "%sum = dispatch.reduce_group add %a0 : " + group + " -> ROW\n" +
                     "%share = arith.constant dense<" + scientific(1.0 / double(k)) +
                     "> : ROW\n%inverse = arith.constant " + scientific(1.0 / double(d)) +
                     R"( : f32
  %h = arith.mulf %sum, %share : ROW
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
  %scaled = arith.mulf %normalized, %a1 : ROW
  %y = arith.addf %scaled, %a2 : ROW
  dispatch.yield %h, %y, %rstd : ROW, ROW, f32)";
  int64_t coarse = (fine + k - 1) / k;
  TextAccess own{.factor = k}, vector{.kind = "vector"};
  std::string map = std::to_string(k) + " * p + i - " + std::to_string(shift);
  return rowsText({batch, coarse, k},
                  {{tensor({batch, fine, d}, element), TextAccess{.map = map, .group = k}, group},
                   {tensor({d}, element), vector, row},
                   {tensor({d}, element), vector, row}},
                  {{tensor({batch, coarse, d}, element), own},
                   {tensor({batch, coarse, d}, element), own},
                   {tensor({batch, coarse}), own}},
                  body, row, zeroInvalid);
}

struct NormCase {
  int64_t d, fine;
  bool zeroInvalid;
};

/// Integers over k = 4 are exact, so are h and its sum; the sums of squares have only positive
/// terms, and each of their d roundings is half an ulp of at most the sum, in any order. A dozen
/// more roundings follow. Widths take a lane, part of a warp, a warp, several warps; few rows take
/// more threads each.
TEST(CudaRows, NormOfMeanOfShiftedRowsMatchesCpu) {
  SKIP_WITHOUT_CPU();
  const int64_t batch = 2, k = 4;
  for (auto [d, fine, zeroInvalid] :
       {NormCase{1, 22, false}, NormCase{31, 22, true}, NormCase{40, 150, true},
        NormCase{257, 150, false}, NormCase{1100, 150, true}, NormCase{1100, 22, false}}) {
    // A shift below k - 1 makes the last valid group reach past the length.
    int64_t shift = zeroInvalid ? 1 : 3, coarse = (fine + k - 1) / k;
    std::string text = normText(batch, fine, d, k, shift, zeroInvalid);
    LoadedKernel cpu = cpuKernel(text);
    EmulatedKernel cuda(text);
    ASSERT_TRUE(cpu.loaded() && cuda.made());
    Floats gain = randomFloats(d, 2), bias = randomFloats(d, 3);
    for (int64_t length : {fine, fine / 2 - 2, int64_t(1)}) {
      KernelInputs launch{.operands = {randomIntegers(batch * fine * d, 1, 100), gain, bias},
                          .length = length,
                          .rows = length == 1 ? 1 : 2};
      auto expected = cpu.run(launch), found = cuda.run(getRun(launch));
      EXPECT_EQ(found[0], expected[0]) << "d " << d << " length " << length;
      double relative = double(d + 16) * 2 * unit;
      for (int64_t r = 0; r < batch * coarse; ++r) {
        ASSERT_NEAR(found[2][r], expected[2][r], relative * std::abs(expected[2][r]));
        for (int64_t c = 0; c < d; ++c) {
          float y = expected[1][r * d + c];
          ASSERT_NEAR(found[1][r * d + c], y, relative * (std::abs(y) + std::abs(bias[c])))
              << "d " << d << " row " << r << " column " << c;
        }
      }
    }
  }
}

/// The same in bf16 memory: operands are bf16 already, so the CPU's f32 results differ by the order
/// of sums and by one rounding to bf16.
TEST(CudaRows, NormInBf16RoundsOnce) {
  SKIP_WITHOUT_CPU();
  const int64_t batch = 2, k = 2, shift = 1;
  for (auto [d, fine, zeroInvalid] :
       {NormCase{24, 140, true}, NormCase{37, 140, false}, NormCase{520, 140, true}}) {
    int64_t coarse = (fine + k - 1) / k;
    LoadedKernel cpu = cpuKernel(normText(batch, fine, d, k, shift, zeroInvalid));
    EmulatedKernel cuda(normText(batch, fine, d, k, shift, zeroInvalid, "bf16"));
    ASSERT_TRUE(cpu.loaded() && cuda.made());
    auto rounded = [](Floats values) {
      llvm::transform(values, values.begin(), roundedToBf16);
      return values;
    };
    KernelInputs launch{.operands = {randomIntegers(batch * fine * d, 1, 100),
                                     rounded(randomFloats(d, 2)), rounded(randomFloats(d, 3))},
                        .length = fine - 5,
                        .rows = 2};
    auto expected = cpu.run(launch), found = cuda.run(getRun(launch));
    double relative = double(d + 16) * 2 * unit;
    for (int64_t i = 0; i < batch * coarse * d; ++i) {
      ASSERT_EQ(found[0][i], roundedToBf16(expected[0][i])) << "d " << d << " element " << i;
      double y = expected[1][i], b = launch.operands[2][i % d];
      double bound = relative * (std::abs(y) + std::abs(b));
      ASSERT_NEAR(found[1][i], y, bound + 0x1p-8 * (std::abs(y) + bound))
          << "d " << d << " element " << i;
    }
  }
}

/// Rows of f32 and of bf16 in one kernel: 16 bytes of f32, 8 of bf16 per thread.
TEST(CudaRows, Bf16AndF32Together) {
  const int64_t batch = 3, positions = 50, d = 200;
  std::string sequence = tensor({batch, positions, d}),
              half = tensor({batch, positions, d}, "bf16"), row = tensor({d});
  EmulatedKernel cuda(
      rowsText({batch, positions, 1}, {{sequence, TextAccess{}, row}, {half, TextAccess{}, row}},
               {{sequence, TextAccess{}}, {half, TextAccess{}}},
               "%y = arith.addf %a0, %a1 : ROW\ndispatch.yield %y, %y : ROW, ROW", row));
  ASSERT_TRUE(cuda.made());
  Floats x = randomFloats(batch * positions * d, 1), z = randomFloats(batch * positions * d, 2);
  auto found = cuda.run({.operands = {x, z}, .length = positions, .rows = batch});
  for (size_t i = 0; i < x.size(); ++i) {
    float y = x[i] + roundedToBf16(z[i]);
    ASSERT_EQ(found[0][i], y);
    ASSERT_EQ(found[1][i], roundedToBf16(y));
  }
}

/// The backward of a norm through the mean's adjoint: dx in place of the residual's gradient, and
/// the sums over rows for gain and bias.
std::string normBackwardText(int64_t batch, int64_t fine, int64_t d, int64_t k, int64_t shift,
                             int64_t parts, const std::string &element = "f32") {
  std::string row = tensor({d});
  std::string body = "%share = arith.constant dense<" + scientific(1.0 / double(k)) +
                     "> : ROW\n%inverse = arith.constant " + scientific(1.0 / double(d)) + R"( : f32
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
  int64_t coarse = (fine + k - 1) / k;
  return rowsText(
      {batch, fine, 1},
      {{tensor({batch, coarse, d}, element), TextAccess{.map = adjoint, .factor = k}, row},
       {tensor({batch, fine, d}, element), TextAccess{}, row},
       {tensor({d}), TextAccess{.kind = "vector"}, row},
       {tensor({batch, fine}), TextAccess{}, "f32"},
       {sequence, TextAccess{}, row}},
      {{sequence, TextAccess{}},
       {tensor({parts, d}), TextAccess{.kind = "columns"}},
       {tensor({parts, d}), TextAccess{.kind = "columns"}}},
      body, row);
}

struct BackwardCase {
  int64_t d, fine, k, parts;
  bool shared; ///< blocks share a part
};

/// |dx| differs by the order of the row's two sums, of d terms below 1 / k each, times rstd <= 2;
/// sums over n rows of terms below 1 / k by n roundings of at most n / k on either side.
TEST(CudaRows, NormBackwardSumsOverRows) {
  SKIP_WITHOUT_CPU();
  const int64_t batch = 2;
  for (auto [d, fine, k, parts, shared] :
       {BackwardCase{7, 13, 1, 40, false}, BackwardCase{40, 300, 2, 3, true},
        BackwardCase{16, 1200, 1, 1, true}, BackwardCase{257, 150, 3, 2, true},
        BackwardCase{700, 90, 1, 2, true}, BackwardCase{6000, 9, 2, 2, true}}) {
    std::string text = normBackwardText(batch, fine, d, k, k - 1, parts);
    LoadedKernel cpu = cpuKernel(text);
    EmulatedKernel cuda(text);
    ASSERT_TRUE(cpu.loaded() && cuda.made());
    EXPECT_EQ(cuda.kernel().stages.size(), 1u) << "d " << d;
    EXPECT_EQ(cuda.kernel().counters, shared ? parts : 0) << "d " << d;
    int64_t coarse = (fine + k - 1) / k, count = batch * fine * d;
    KernelInputs launch{.operands = {randomFloats(batch * coarse * d, 1), randomFloats(count, 2),
                                     randomFloats(d, 3), randomFloats(batch * fine, 4, 0.5f, 2.0f),
                                     randomFloats(count, 5)},
                        .length = fine - 3,
                        .rows = 2,
                        .shares = {{0, 4}}};
    auto expected = cpu.run(launch), found = cuda.run(getRun(launch));
    // A mean of d terms: d roundings of sums of at most d / 2, over d; twice, for two kernels.
    double bound = 2 * (double(d) / 2 + 8) * unit * 2 * 2;
    for (int64_t i = 0; i < count; ++i) {
      ASSERT_NEAR(found[0][i], expected[0][i], bound) << "d " << d << " element " << i;
    }
    auto rows = double((batch * fine + parts - 1) / parts);
    for (int64_t i = 0; i < parts * d; ++i) {
      for (int result : {1, 2}) {
        ASSERT_NEAR(found[result][i], expected[result][i], 2 * rows * rows / 2 * unit)
            << "d " << d << " result " << result << " element " << i;
      }
    }
  }
}

/// The order of a sum over rows depends on the shapes: another block order gives the same bits.
TEST(CudaRows, SumsOverRowsDoNotDependOnBlockOrder) {
  EmulatedKernel cuda(normBackwardText(2, 300, 24, 2, 1, 2, "bf16"));
  ASSERT_TRUE(cuda.made());
  KernelInputs launch{.operands = {randomFloats(2 * 150 * 24, 1), randomFloats(2 * 300 * 24, 2),
                                   randomFloats(24, 3), randomFloats(600, 4),
                                   randomFloats(600 * 24, 5)},
                      .length = 300,
                      .rows = 2};
  auto first = cuda.run(getRun(launch)), second = cuda.run(getRun(launch));
  EXPECT_EQ(first, second);
}

/// A row as wide as the number of parameters, summed by one block; rows of several widths in one
/// body; statistics alone. Integers are exact in any order.
TEST(CudaRows, SumsWideRowsExactly) {
  for (int64_t d : {37, 6342, 50001}) {
    EmulatedKernel cuda(rowsText(
        {},
        {{tensor({d}), TextAccess{.kind = "vector"}, tensor({d})},
         {"tensor<i64>", TextAccess{.kind = "scalar"}, "i64"}},
        {{"tensor<f32>", TextAccess{.kind = "scalar"}},
         {"tensor<f32>", TextAccess{.kind = "scalar"}}},
        "%s = dispatch.reduce add %a0 : ROW -> f32\n%m = dispatch.reduce max %a0 : ROW -> f32\n"
        "%f = arith.sitofp %a1 : i64 to f32\n%y = arith.mulf %s, %f : f32\n"
        "dispatch.yield %y, %m : f32, f32",
        tensor({d})));
    ASSERT_TRUE(cuda.made());
    Floats x = randomIntegers(d, 1, 15);
    x[d - 1] = 20;
    auto found = cuda.run({.operands = {x, {3}}, .length = 1, .rows = 1});
    EXPECT_EQ(found[0][0], 3 * float(std::accumulate(x.begin(), x.end(), 0.0))) << "d " << d;
    EXPECT_EQ(found[1][0], 20) << "d " << d;
  }
}

/// A row too wide for registers, with statistics, stored in place.
TEST(CudaRows, LongRowsTakeTwoPasses) {
  const int64_t batch = 1, positions = 3, d = 50002;
  std::string sequence = tensor({batch, positions, d}), row = tensor({d});
  EmulatedKernel cuda(
      rowsText({batch, positions, 1}, {{sequence, TextAccess{}, row}}, {{sequence, TextAccess{}}},
               "%s = dispatch.reduce add %a0 : ROW -> f32\n%t = tensor.splat %s : ROW\n"
               "%y = arith.subf %a0, %t : ROW\ndispatch.yield %y : ROW",
               row));
  ASSERT_TRUE(cuda.made());
  Floats x = randomIntegers(positions * d, 1, 9);
  auto found = cuda.run({.operands = {x}, .length = 2, .rows = 1, .shares = {{0, 0}}});
  for (int64_t p = 0; p < positions; ++p) {
    double sum = p < 2 ? std::accumulate(x.begin() + p * d, x.begin() + (p + 1) * d, 0.0) : 0;
    for (int64_t c = 0; c < d; ++c) {
      ASSERT_EQ(found[0][p * d + c], x[p * d + c] - float(sum)) << "row " << p << " column " << c;
    }
  }
}

/// The second stage of sums over rows: groups of any size, summed and stored, over a table. Small
/// integers are exact.
TEST(CudaRows, GroupsOfAnySize) {
  SKIP_WITHOUT_CPU();
  for (auto [k, d] : {std::pair{32, 256}, std::pair{13, 37}, std::pair{3, 70}}) {
    std::string row = tensor({d}), group = tensor({k, d});
    std::string text = rowsText(
        {},
        {{tensor({k, d}), TextAccess{.kind = "table", .map = "i", .group = k, .factor = 0}, group}},
        {{tensor({d}), TextAccess{.kind = "vector"}}},
        "%y = dispatch.reduce_group add %a0 : " + group + " -> ROW\ndispatch.yield %y : ROW", row);
    LoadedKernel cpu = cpuKernel(text);
    EmulatedKernel cuda(text);
    ASSERT_TRUE(cpu.loaded() && cuda.made());
    KernelInputs launch{.operands = {randomIntegers(k * d, 1, 50)}, .length = 1, .rows = 1};
    EXPECT_EQ(cuda.run(getRun(launch)), cpu.run(launch)) << "k " << k << " d " << d;
  }
  const int64_t batch = 2, fine = 40;
  for (auto [k, d] : {std::pair{2, 7}, std::pair{9, 40}}) {
    int64_t coarse = (fine + k - 1) / k;
    std::string row = tensor({d}), group = tensor({k, d});
    std::string text = rowsText(
        {batch, coarse, k},
        {{tensor({batch, fine, d}), TextAccess{.map = std::to_string(k) + " * p + i", .group = k},
          group}},
        {{tensor({batch, coarse, d}), TextAccess{.factor = k}},
         {tensor({batch, coarse, k * d}), TextAccess{.factor = k}},
         {tensor({batch, coarse}), TextAccess{.factor = k}}},
        "%t = arith.addf %a0, %a0 : " + group + "\n%s = dispatch.reduce_group add %t : " + group +
            " -> ROW\n%all = dispatch.reduce add %a0 : " + group +
            " -> f32\ndispatch.yield %s, %t, %all : ROW, " + group + ", f32",
        row, true);
    LoadedKernel cpu = cpuKernel(text);
    EmulatedKernel cuda(text);
    ASSERT_TRUE(cpu.loaded() && cuda.made());
    KernelInputs launch{
        .operands = {randomIntegers(batch * fine * d, 1, 50)}, .length = 30, .rows = 2};
    EXPECT_EQ(cuda.run(getRun(launch)), cpu.run(launch)) << "k " << k << " d " << d;
  }
}

/// Products and minima: the same operations in the same order.
TEST(CudaRows, CustomCombinersMatchCpu) {
  SKIP_WITHOUT_CPU();
  const int64_t batch = 2, fine = 29;
  for (auto [d, k, shift] : {std::tuple{7, 3, 2}, std::tuple{36, 9, 8}}) {
    std::string text = combinersText(batch, fine, d, k, shift);
    LoadedKernel cpu = cpuKernel(text);
    EmulatedKernel cuda(text);
    ASSERT_TRUE(cpu.loaded() && cuda.made());
    Floats x = randomFloats(batch * fine * d, 1, 0.5F, 1.5F);
    KernelInputs launch{.operands = {x, x}, .length = 26, .rows = batch};
    EXPECT_EQ(cuda.run(getRun(launch)), cpu.run(launch)) << "k " << k << " d " << d;
  }
}

/// Maxima of unrolled and looped groups, and their first positions: no arithmetic, so bitwise
/// equal. Few numbers, so many ties.
TEST(CudaRows, MaximumOfShiftedGroupsMatchesCpu) {
  SKIP_WITHOUT_CPU();
  const int64_t batch = 2, fine = 29;
  for (auto [d, k, shift] :
       {std::tuple{7, 3, 2}, std::tuple{64, 4, 9}, std::tuple{36, 9, 8}, std::tuple{20, 20, 21}}) {
    // Each harness marks unwritten memory in its own bf16, so all rows are valid here.
    for (auto [element, length] : {std::pair{"f32", 26}, std::pair{"bf16", 29}}) {
      int64_t coarse = (fine + k - 1) / k;
      std::string text = maxText(batch, fine, d, k, shift, element);
      LoadedKernel cpu = cpuKernel(text);
      EmulatedKernel cuda(text);
      ASSERT_TRUE(cpu.loaded() && cuda.made());
      Floats x = randomIntegers(batch * fine * d, 3, 3);
      for (float &value : x) {
        value -= 5;
      }
      KernelInputs launch{
          .operands = {x, randomIntegers(batch * coarse * d, 4, 50)}, .length = length, .rows = 2};
      EXPECT_EQ(cuda.run(getRun(launch)), cpu.run(launch))
          << "d " << d << " k " << k << " in " << element;
    }
  }
}

/// Rows of a token and of a position, under dropout, in rows of any alignment: gathers, tables, i32
/// operands, random numbers. No sums, so bitwise equal.
TEST(CudaRows, GatherWithDropoutMatchesCpu) {
  SKIP_WITHOUT_CPU();
  const int64_t batch = 2, positions = 11, vocabulary = 23;
  for (int64_t d : {7, 64, 6}) {
    std::string body =
        "%h = arith.addf %a1, %a2 : ROW\n%u = dispatch.random {id = 3 : i64, width = " +
        std::to_string(d) + " : i64} : ROW\n" + R"(%p = arith.constant dense<0.25> : ROW
      %zero = arith.constant dense<0.0> : ROW
      %kept = arith.cmpf oge, %u, %p : ROW
      %y = arith.select %kept, %h, %zero : tensor<)" +
        std::to_string(d) + "xi1>, ROW\n" + "dispatch.yield %y : ROW";
    std::string text =
        rowsText({batch, positions, 1},
                 {{tensor({batch, positions + 1}, "i32"), TextAccess{}, "i32"},
                  {tensor({vocabulary, d}), TextAccess{.kind = "gather", .index = 0}, tensor({d})},
                  {tensor({positions, d}), TextAccess{.kind = "table", .factor = 0}, tensor({d})}},
                 {{tensor({batch, positions, d}), TextAccess{}}}, body, tensor({d}));
    LoadedKernel cpu = cpuKernel(text);
    EmulatedKernel cuda(text);
    ASSERT_TRUE(cpu.loaded() && cuda.made());
    KernelInputs launch{.operands = {randomIntegers(batch * (positions + 1), 4, vocabulary),
                                     randomFloats(vocabulary * d, 5),
                                     randomFloats(positions * d, 6)},
                        .length = 8,
                        .rows = 2,
                        .step = 9,
                        .seed = 21};
    Floats expected = cpu.run(launch)[0];
    EXPECT_EQ(cuda.run(getRun(launch))[0], expected) << "d " << d;
    EXPECT_GT(std::count(expected.begin(), expected.end(), 0.0f), 0) << "nothing was dropped";
    EXPECT_EQ(expected.back(), untouched);
  }
}

/// Columns of a folded row, one row of d after the other: `column` moves the start.
TEST(CudaRows, UnfoldsFoldedRows) {
  SKIP_WITHOUT_CPU();
  const int64_t batch = 2, coarse = 6, k = 3;
  for (int64_t d : {5, 6, 16}) {
    std::string text = rowsText(
        {batch, k * coarse, 1},
        {{tensor({batch, coarse, k * d}),
          TextAccess{
              .map = "p floordiv 3", .factor = k, .column = "(p mod 3) * " + std::to_string(d)},
          tensor({d})}},
        {{tensor({batch, k * coarse, d}), TextAccess{}}},
        "%y = arith.addf %a0, %a0 : ROW\ndispatch.yield %y : ROW", tensor({d}));
    LoadedKernel cpu = cpuKernel(text);
    EmulatedKernel cuda(text);
    ASSERT_TRUE(cpu.loaded() && cuda.made());
    KernelInputs launch{
        .operands = {randomFloats(batch * coarse * k * d, 1)}, .length = 16, .rows = 2};
    EXPECT_EQ(cuda.run(getRun(launch)), cpu.run(launch)) << "d " << d;
  }
}

/// A row is cut, or put between zeros.
TEST(CudaRows, PadsAndCutsColumns) {
  SKIP_WITHOUT_CPU();
  for (ColumnRange range : columnRanges) {
    std::string text = range.text(2, 5);
    KernelInputs launch{.operands = {randomFloats(10 * range.d, 1)}, .length = 5, .rows = 2};
    EXPECT_EQ(EmulatedKernel(text).run(getRun(launch)), cpuKernel(text).run(launch));
  }
}

/// An optimizer's step: flat rows of 1,024, in place. A dozen roundings on either side.
TEST(CudaRows, ComputesFlatRowsInPlace) {
  SKIP_WITHOUT_CPU();
  const int64_t count = 70, d = 1024;
  std::string flat = tensor({count, d}), row = tensor({d});
  TextAccess rows{.kind = "flat"}, scalar{.kind = "scalar"};
  std::string text = rowsText({1, count, 0},
                              {{flat, rows, row},
                               {flat, rows, row},
                               {flat, rows, row},
                               {tensor({count}), rows, "f32"},
                               {"tensor<f32>", scalar, "f32"}},
                              {{flat, rows}, {flat, rows}}, R"(%decay = arith.mulf %a3, %a4 : f32
      %decays = tensor.splat %decay : ROW
      %shrink = arith.mulf %a0, %decays : ROW
      %w = arith.subf %a0, %shrink : ROW
      %squares = arith.mulf %a1, %a1 : ROW
      %v = arith.addf %a2, %squares : ROW
      %root = math.sqrt %v : ROW
      %one = arith.constant dense<1.0> : ROW
      %below = arith.addf %root, %one : ROW
      %step = arith.divf %a1, %below : ROW
      %y = arith.subf %w, %step : ROW
      dispatch.yield %y, %v : ROW, ROW)",
                              row);
  LoadedKernel cpu = cpuKernel(text);
  EmulatedKernel cuda(text);
  ASSERT_TRUE(cpu.loaded() && cuda.made());
  KernelInputs launch{.operands = {randomFloats(count * d, 1),
                                   randomFloats(count * d, 2),
                                   randomFloats(count * d, 3, 0, 1),
                                   randomFloats(count, 4),
                                   {0.5f}},
                      .length = 1,
                      .rows = 1,
                      .shares = {{0, 0}, {1, 2}}};
  auto expected = cpu.run(launch), found = cuda.run(getRun(launch));
  for (int64_t i = 0; i < count * d; ++i) {
    ASSERT_NEAR(found[0][i], expected[0][i], 2 * 12 * 4 * unit) << i;
    ASSERT_NEAR(found[1][i], expected[1][i], 2 * 2 * 2 * unit) << i;
  }
  // Three rows read and two written, all of them contiguous.
  Traffic traffic = rowTraffic(cuda);
  EXPECT_EQ(traffic.bytes, traffic.least);
  EXPECT_NEAR(traffic.bytes, cuda.kernel().bytes, 0.05 * cuda.kernel().bytes);
}

/// Traffic of a norm, both ways: complete sectors, and little more than the minimum.
TEST(CudaRows, NormTrafficIsNearTheMinimum) {
  const int64_t batch = 4, fine = 1024, d = 256;
  for (const char *element : {"f32", "bf16"}) {
    EmulatedKernel forward(normText(batch, fine, d, 1, 0, false, element));
    ASSERT_TRUE(forward.made());
    forward.run(
        {.operands = {randomFloats(batch * fine * d, 1), randomFloats(d, 2), randomFloats(d, 3)},
         .length = fine,
         .rows = batch});
    EmulatedKernel backward(normBackwardText(batch, fine, d, 1, 0, 32, element));
    ASSERT_TRUE(backward.made());
    backward.run({.operands = {randomFloats(batch * fine * d, 1), randomFloats(batch * fine * d, 2),
                               randomFloats(d, 3), randomFloats(batch * fine, 4),
                               randomFloats(batch * fine * d, 5)},
                  .length = fine,
                  .rows = batch});
    for (EmulatedKernel *cuda : {&forward, &backward}) {
      Traffic traffic = rowTraffic(*cuda);
      std::cout << element << ": " << traffic.bytes << " bytes in vectors, " << traffic.least
                << " side by side, " << cuda->kernel().bytes << " planned\n";
      EXPECT_LE(traffic.least, traffic.bytes);
      EXPECT_LT(0.9 * traffic.bytes, traffic.least);
      EXPECT_NEAR(traffic.bytes, cuda->kernel().bytes, 0.05 * cuda->kernel().bytes);
    }
  }
}

/// Without the barriers between the loads and the stores of a row.
void dropWarpBarriers(llvm::Module &module) {
  llvm::Function *barrier = module.getFunction("llvm.nvvm.bar.warp.sync");
  ASSERT_TRUE(barrier);
  for (llvm::User *user : llvm::make_early_inc_range(barrier->users())) {
    llvm::cast<llvm::CallInst>(user)->eraseFromParent();
  }
}

/// A result may use the memory of an operand: lanes past the last column read data that another
/// lane writes, so the warp must synchronize between. Numbers show it only if the lanes run in a
/// bad order.
TEST(CudaRows, InPlaceRowsNeedTheirWarpBarrier) {
  const int64_t batch = 2, positions = 9, d = 33;
  std::string row = tensor({d}), sequence = tensor({batch, positions, d});
  std::string text =
      rowsText({batch, positions, 1}, {{sequence, TextAccess{}, row}}, {{sequence, TextAccess{}}},
               "%y = arith.addf %a0, %a0 : ROW\ndispatch.yield %y : ROW", row);
  Floats x = randomFloats(batch * positions * d, 1);
  KernelInputs launch{.operands = {x}, .length = positions, .rows = batch, .shares = {{0, 0}}};
  EmulatedKernel right(text), wrong(text, dropWarpBarriers);
  ASSERT_TRUE(right.made() && wrong.made());
  Floats y = right.run(getRun(launch))[0];
  for (size_t i = 0; i < y.size(); ++i) {
    ASSERT_EQ(y[i], 2 * x[i]);
  }
  wrong.run(getRun(launch));
  ASSERT_FALSE(wrong.reports[0].passed());
  EXPECT_EQ(wrong.reports[0].violations[0].kind, emulator::ViolationKind::Race)
      << wrong.reports[0].str();
}

TEST(CudaRows, Assemble) {
  for (int64_t d : {40, 256, 1024, 8192}) {
    for (const char *element : {"f32", "bf16"}) {
      for (const std::string &text : {normText(4, 1024, d, 2, 1, false, element),
                                      normBackwardText(4, 1024, d, 2, 1, 32, element)}) {
        GeneratedKernel cuda(text);
        ASSERT_TRUE(cuda.made());
        std::cout << "d " << d << " " << element << ": ";
        cuda.checkAssembly();
      }
    }
  }
}

} // namespace
