// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Elementary functions and divisions of GPU kernels on the emulator, whose approximations have the
// maximum error that the PTX ISA allows: the error must stay within the oracle's bound.
#include "EmulatedKernel.h"
#include "RowsText.h"

#include <cmath>
#include <limits>

using namespace sluice;
using namespace sluice::test;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr double ulp = 0x1p-23; ///< of 1, the maximum ulp of a number

/// `body` defines %y from %a0 and, if `operands` is 2, %a1.
std::string bodyText(const std::string &body, size_t operands, int64_t count) {
  std::string row = tensor({64}), sequence = tensor({1, count / 64, 64});
  std::vector<Seen> seen(operands, {sequence, TextAccess{}, row});
  return rowsText({1, count / 64, 1}, seen, {{sequence, TextAccess{}}},
                  body + "\ndispatch.yield %y : ROW", row);
}

Floats run(const std::string &body, const std::vector<Floats> &operands) {
  auto count = int64_t(operands[0].size());
  EmulatedKernel kernel(bodyText(body, operands.size(), count));
  if (!kernel.made()) {
    return {};
  }
  CudaRun run{.operands = operands, .length = count / 64, .rows = 1};
  return kernel.run(run)[0];
}

/// Numbers of either sign, evenly spread over the exponents between two sizes.
Floats spread(int64_t count, double least, double most, unsigned seed) {
  Floats numbers;
  for (float random : randomFloats(count, seed)) {
    double share = std::abs(random) * 2 - std::floor(std::abs(random) * 2);
    double size = least * std::pow(most / least, share);
    numbers.push_back(float(random < 0 ? -size : size));
  }
  return numbers;
}

struct MathFunction {
  const char *name;
  double (*exact)(double);
  double least, most; ///< sizes of arguments
  double ulps;        ///< allowed error; the oracle allows 4
};

class CudaMath : public testing::TestWithParam<MathFunction> {};

TEST_P(CudaMath, StaysWithinBoundForAnyApproximationError) {
  const MathFunction &f = GetParam();
  Floats x = spread(16384, f.least, f.most, 1);
  Floats y = run("%y = math." + std::string(f.name) + " %a0 : ROW", {x});
  ASSERT_EQ(y.size(), x.size());
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    double exact = f.exact(x[i]);
    worst = std::max(worst, std::abs(y[i] - exact) / std::abs(exact) / ulp);
    ASSERT_LE(std::abs(y[i] - exact), f.ulps * ulp * std::abs(exact)) << f.name << " " << x[i];
  }
  std::cout << f.name << ": at most " << worst << " ulp\n";
}

INSTANTIATE_TEST_SUITE_P(Functions, CudaMath,
                         testing::Values(MathFunction{"exp", std::exp, 1e-6, 87, 3.1},
                                         MathFunction{"exp2", std::exp2, 1e-6, 126, 2},
                                         MathFunction{"erf", std::erf, 1e-6, 5, 1.4},
                                         MathFunction{"tanh", std::tanh, 1e-6, 12, 2.1}),
                         [](const auto &test) { return std::string(test.param.name); });

TEST(CudaMathEnds, HandlesInfinitiesZerosAndNaN) {
  Floats x(64, 0);
  const float arguments[] = {infinity, -infinity, NAN, 0, 89, -104.5f, -100, 1e-42f};
  std::copy(std::begin(arguments), std::end(arguments), x.begin());
  Floats exp = run("%y = math.exp %a0 : ROW", {x}), erf = run("%y = math.erf %a0 : ROW", {x}),
         tanh = run("%y = math.tanh %a0 : ROW", {x});
  for (auto [y, lowest] : {std::pair(exp, 0.0f), std::pair(erf, -1.0f), std::pair(tanh, -1.0f)}) {
    EXPECT_EQ(y[1], lowest);
    EXPECT_TRUE(std::isnan(y[2]));
  }
  EXPECT_EQ(exp[0], infinity);
  EXPECT_NEAR(exp[3], 1, 3 * ulp);
  EXPECT_EQ(exp[4], infinity);
  EXPECT_EQ(exp[5], 0);
  EXPECT_NEAR(exp[6], std::exp(-100.0), 1.5e-45); // a subnormal number's ulp
  for (const Floats &y : {erf, tanh}) {
    EXPECT_EQ(y[0], 1);
    EXPECT_EQ(y[3], 0);
    EXPECT_EQ(y[4], 1);
    EXPECT_EQ(y[5], -1);
    EXPECT_NEAR(y[7], 1e-42f, 2e-43);
  }
}

// div.full, and a product with the reciprocal of a constant: 2 ulp, over all exponents. The
// emulator uses the ends of the allowed range, so no code may rely on exact quotients.
TEST(CudaMathDivision, IsWithinTwoUlpAndNotExact) {
  Floats x = spread(16384, 1e-15, 1e15, 2), y = spread(16384, 1e-15, 1e15, 3);
  Floats quotient = run("%y = arith.divf %a0, %a1 : ROW", {x, y});
  Floats third = run("%c = arith.constant dense<3.0> : ROW\n%y = arith.divf %a0, %c : ROW", {x});
  ASSERT_EQ(quotient.size(), x.size());
  ASSERT_EQ(third.size(), x.size());
  size_t inexact = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    double exact = double(x[i]) / y[i];
    ASSERT_LE(std::abs(quotient[i] - exact), 2 * ulp * std::abs(exact)) << x[i] << " / " << y[i];
    ASSERT_LE(std::abs(third[i] - x[i] / 3.0), 1.5 * ulp * std::abs(x[i] / 3.0)) << x[i];
    inexact += quotient[i] != x[i] / y[i];
  }
  EXPECT_GT(inexact, x.size() / 2);
  Floats zero(64, 0), ends = run("%y = arith.divf %a0, %a1 : ROW", {Floats(64, 1), zero});
  EXPECT_EQ(ends[0], infinity);
}

TEST(CudaMathDivision, CallsNoSubroutine) {
  GeneratedKernel kernel(bodyText("%y = arith.divf %a0, %a1 : ROW", 2, 640));
  ASSERT_TRUE(kernel.made());
  std::string ptx = kernel.ptx(cuda::Target::sm80());
  EXPECT_NE(ptx.find("div.full.f32"), std::string::npos);
  EXPECT_EQ(ptx.find("div.rn"), std::string::npos);
}

} // namespace
