// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// Weight gradients on the CPU compared with sums in f64.
#include "KernelHarness.h"

#include "gtest/gtest.h"
#include <cmath>
#include <random>

using namespace sluice;
using namespace sluice::test;

namespace {

struct WeightCase {
  int64_t batch = 1, positions = 1, factor = 0, height = 1, width = 1;
  bool initWeight = false, initBias = false, weight = true, bias = true;
  bool bf16 = false; ///< both factors

  int64_t rows() const { return batch * positions; }
  bool valid(int64_t row, int64_t length, int64_t validRows) const {
    return factor == 0 ||
           (row / positions < validRows && row % positions < (length + factor - 1) / factor);
  }
  std::string text() const;
};

std::string tensor(std::initializer_list<int64_t> shape, const std::string &element = "f32") {
  std::string result = "tensor<";
  for (int64_t size : shape) {
    result += std::to_string(size) + "x";
  }
  return result + element + ">";
}

std::string WeightCase::text() const {
  std::string left = tensor({batch, positions, height}, bf16 ? "bf16" : "f32");
  std::string right = tensor({batch, positions, width}, bf16 ? "bf16" : "f32");
  std::string names = "%l, %r", types = left + ", " + right;
  std::string parameters = "%l: " + left + ", %r: " + right;
  std::string results;
  auto add = [&](bool wanted, const std::string &name, const std::string &type) {
    if (wanted) {
      names += ", " + name;
      types += ", " + type;
      parameters += ", " + name + ": " + type;
    }
  };
  add(initWeight, "%iw", tensor({height, width}));
  add(initBias, "%ib", tensor({height}));
  results = weight ? tensor({height, width}) : "";
  results += bias ? (weight ? ", " : "") + tensor({height}) : "";
  int64_t count = int64_t(weight) + int64_t(bias);
  auto flag = [](bool set) { return set ? std::string("1") : std::string("0"); };
  return "func.func @f(" + parameters + ") -> (" + results + ") {\n  %g:" + std::to_string(count) +
         " = dispatch.weight_gradient " + names +
         " attributes {domain = #dispatch.domain<batch = " + std::to_string(batch) +
         ", positions = " + std::to_string(positions) + ", factor = " + std::to_string(factor) +
         ">, operandSegmentSizes = array<i32: 1, 1, " + flag(initWeight) + ", " + flag(initBias) +
         ">, resultSegmentSizes = array<i32: " + flag(weight) + ", " + flag(bias) + ">} : (" +
         types + ") -> (" + results + ")\n  return " + (count == 2 ? "%g#0, %g#1" : "%g#0") +
         " : " + results + "\n}";
}

mlir::FailureOr<cpu::Kernel> generate(mlir::Operation *op, mlir::ModuleOp module,
                                      llvm::StringRef name, const cpu::Target &target) {
  return cpu::generateKernel(op, module, name, target);
}

std::vector<float> numbers(int64_t count, unsigned seed, bool integers) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<float> real(-1, 1);
  std::uniform_int_distribution<int> whole(-3, 3);
  std::vector<float> result(count);
  for (float &x : result) {
    x = integers ? float(whole(engine)) : real(engine);
  }
  return result;
}

KernelInputs buildLaunch(const WeightCase &c, bool integers = true) {
  KernelInputs launch{.operands = {numbers(c.rows() * c.height, 1, integers),
                                   numbers(c.rows() * c.width, 2, integers)}};
  if (c.bf16) {
    for (std::vector<float> &factor : launch.operands) {
      llvm::transform(factor, factor.begin(), toBf16);
    }
  }
  if (c.initWeight) {
    launch.operands.push_back(numbers(c.height * c.width, 3, integers));
  }
  if (c.initBias) {
    launch.operands.push_back(numbers(c.height, 4, integers));
  }
  launch.length = c.positions * std::max<int64_t>(c.factor, 1);
  launch.rows = c.batch;
  launch.shuffle = 7;
  launch.threads = 2;
  return launch;
}

/// Compares with sums in f64; the bound of a sequential sum, zero for integers.
void check(const WeightCase &c, const cpu::Target &target, const LoadedKernel &kernel,
           const KernelInputs &launch, bool integers) {
  auto results = kernel.run(launch);
  const std::vector<float> &left = launch.operands[0], &right = launch.operands[1];
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < c.rows(); ++i) {
    if (c.valid(i, launch.length, launch.rows)) {
      rows.push_back(i);
    }
  }
  // Column `width` of this reference is the bias: a right factor of ones.
  for (int64_t m = 0; m < c.height; ++m) {
    for (int64_t n = c.weight ? 0 : c.width; n < c.width + int64_t(c.bias); ++n) {
      bool isBias = n == c.width;
      double sum = 0;
      if (isBias ? c.initBias : c.initWeight) {
        sum = isBias ? launch.operands.back()[m] : launch.operands[2][m * c.width + n];
      }
      double magnitude = std::abs(sum);
      for (int64_t row : rows) {
        double term = double(left[row * c.height + m]) * (isBias ? 1 : right[row * c.width + n]);
        sum += term;
        magnitude += std::abs(term);
      }
      float found = isBias ? results.back()[m] : results[0][m * c.width + n];
      // A sum of two products is rounded twice where pairs are multiplied.
      double roundings = double(rows.size()) * (c.bf16 ? 2 : 1) + 2;
      double tolerance = integers ? 0 : roundings * magnitude * 0x1p-24;
      ASSERT_NEAR(found, sum, tolerance)
          << target.name.str() << " M " << c.height << " N " << c.width << " rows " << c.rows()
          << " at " << m << ", " << n;
    }
  }
}

void checkCase(const WeightCase &c, const cpu::Target &target, bool integers = true) {
  LoadedKernel kernel(c.text(), target, generate);
  ASSERT_TRUE(kernel.loaded());
  check(c, target, kernel, buildLaunch(c, integers), integers);
}

constexpr int64_t shapes[][3] = {{1, 1, 1},     {2, 2, 2},     {3, 5, 15},    {159, 3, 8},
                                 {191, 6, 16},  {192, 11, 17}, {193, 12, 31}, {161, 5, 9},
                                 {40, 13, 32},  {7, 25, 33},   {131, 37, 97}, {20, 150, 64},
                                 {10, 97, 300}, {9, 200, 40},  {385, 13, 33}};

/// Even and odd numbers of rows, and of valid ones before and between invalid ones of NaN.
TEST(WeightGradient, PairsOfBf16) {
  if (pairTargets().empty()) {
    GTEST_SKIP() << "no AVX-512";
  }
  for (const cpu::Target *target : pairTargets()) {
    for (auto [rows, height, width] : shapes) {
      WeightCase c{.positions = rows, .height = height, .width = width, .bf16 = true};
      LoadedKernel kernel(c.text(), *target, generate);
      ASSERT_TRUE(kernel.loaded());
      check(c, *target, kernel, buildLaunch(c), /*integers=*/true);
      check(c, *target, kernel, buildLaunch(c, /*integers=*/false), /*integers=*/false);
      if (HasFatalFailure()) {
        return;
      }
    }
    checkCase({.positions = 31, .height = 20, .width = 40, .weight = false, .bf16 = true}, *target);
    WeightCase c{
        .batch = 3, .positions = 100, .factor = 1, .height = 14, .width = 35, .bf16 = true};
    LoadedKernel kernel(c.text(), *target, generate);
    ASSERT_TRUE(kernel.loaded());
    for (int64_t length : {1, 2, 99, 100}) {
      KernelInputs launch = buildLaunch(c);
      launch.length = length;
      launch.rows = 2;
      for (int64_t r = 0; r < c.rows(); ++r) {
        if (!c.valid(r, length, 2)) {
          std::fill_n(launch.operands[0].begin() + r * 14, 14, NAN);
          std::fill_n(launch.operands[1].begin() + r * 35, 35, NAN);
        }
      }
      check(c, *target, kernel, launch, true);
    }
  }
}

TEST(WeightGradient, ShapesAroundTiles) {
  for (const cpu::Target *target : targets()) {
    for (auto [rows, height, width] : shapes) {
      checkCase({.positions = rows, .height = height, .width = width}, *target);
      if (HasFatalFailure()) {
        return;
      }
    }
  }
}

/// Blocks follow from the size of L2; no bit does.
TEST(WeightGradient, IsEqualForAnySizeOfL2) {
  WeightCase c{.positions = 300, .height = 192, .width = 1024};
  KernelInputs launch = buildLaunch(c, /*integers=*/false);
  expectEqualForAnyL2(c.text(), launch, generate);
}

TEST(WeightGradient, RealNumbersWithinRounding) {
  for (const cpu::Target *target : targets()) {
    checkCase({.batch = 2,
               .positions = 300,
               .height = 40,
               .width = 50,
               .initWeight = true,
               .initBias = true},
              *target, false);
  }
}

TEST(WeightGradient, AbsentResultsAndInits) {
  for (const cpu::Target *target : targets()) {
    checkCase({.positions = 30, .height = 20, .width = 40, .bias = false}, *target);
    checkCase({.positions = 30, .height = 20, .width = 40, .weight = false}, *target);
    checkCase({.positions = 30, .height = 200, .width = 40, .initBias = true, .weight = false},
              *target);
    checkCase({.positions = 30, .height = 20, .width = 40, .initWeight = true}, *target);
  }
}

TEST(WeightGradient, InitsInPlace) {
  WeightCase c{.positions = 300, .height = 30, .width = 70, .initWeight = true, .initBias = true};
  for (const cpu::Target *target : targets()) {
    LoadedKernel kernel(c.text(), *target, generate);
    KernelInputs launch = buildLaunch(c);
    launch.shares = {{0, 2}, {1, 3}};
    check(c, *target, kernel, launch, true);
  }
}

TEST(WeightGradient, InvalidRowsAddNothing) {
  WeightCase c{.batch = 3, .positions = 100, .factor = 2, .height = 14, .width = 35};
  for (const cpu::Target *target : targets()) {
    LoadedKernel kernel(c.text(), *target, generate);
    KernelInputs launch = buildLaunch(c);
    for (int64_t length : {1, 2, 3, 101, 199, 200}) {
      for (int64_t rows : {1, 2, 3}) {
        // Invalid rows hold NaN: a product with it would show.
        launch = buildLaunch(c);
        launch.length = length;
        launch.rows = rows;
        for (int64_t r = 0; r < 300; ++r) {
          if (!c.valid(r, length, rows)) {
            std::fill_n(launch.operands[0].begin() + r * 14, 14, NAN);
            std::fill_n(launch.operands[1].begin() + r * 35, 35, NAN);
          }
        }
        check(c, *target, kernel, launch, true);
      }
    }
  }
}

TEST(WeightGradient, ResultsDoNotDependOnItemOrder) {
  WeightCase c{.positions = 700, .height = 64, .width = 256};
  for (const cpu::Target *target : targets()) {
    LoadedKernel kernel(c.text(), *target, generate);
    ASSERT_GE(kernel.items(), 4);
    KernelInputs launch = buildLaunch(c, false);
    launch.shuffle = 0;
    launch.threads = 1;
    auto expected = kernel.run(launch);
    for (unsigned shuffle : {1, 2, 3}) {
      launch.shuffle = shuffle;
      launch.threads = 2;
      EXPECT_EQ(kernel.run(launch), expected);
    }
  }
}

} // namespace
