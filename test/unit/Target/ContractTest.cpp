// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// Contractions on the CPU against sums in f64, for shapes around every tile boundary.
#include "KernelHarness.h"
#include "Philox.h"

#include "gtest/gtest.h"
#include <cmath>
#include <random>

using namespace sluice;
using namespace sluice::test;

namespace {

std::string access(const std::string &kind, int factor = 0) {
  return "#dispatch.access<" + kind + ", factor = " + std::to_string(factor) + ">";
}

struct Extra {
  std::string kind, type;
};

/// One contraction; `body` is its epilogue's text over %acc, %e0, %e1, ...
struct ContractCase {
  int64_t batch = 1, positions = 1, factor = 0, inner = 1, columns = 1;
  bool byInput = false;
  bool bf16 = false; ///< rows and weights
  std::vector<Extra> extras = {};
  std::string body = "dispatch.yield %acc : f32";
  int results = 1;
  int64_t rotated = 0, head = 2; ///< columns of result 0; the last extra is then the angles

  int64_t rows() const { return batch * positions; }
  std::string getValueRows(int64_t width, const std::string &element = "f32") const {
    return "tensor<" + std::to_string(batch) + "x" + std::to_string(positions) + "x" +
           std::to_string(width) + "x" + element + ">";
  }
  std::string text() const;
};

std::string list(const std::vector<std::string> &items) {
  std::string result;
  for (const std::string &item : items) {
    result += (result.empty() ? "" : ", ") + item;
  }
  return result;
}

std::string ContractCase::text() const {
  int64_t first = byInput ? inner : columns, second = byInput ? columns : inner;
  std::string factors = bf16 ? "bf16" : "f32";
  std::vector<std::string> types{getValueRows(inner, factors), "tensor<" + std::to_string(first) +
                                                                   "x" + std::to_string(second) +
                                                                   "x" + factors + ">"};
  std::vector<std::string> names{"%x", "%w"}, accesses, arguments{"%acc: f32"};
  for (size_t i = 0; i < extras.size(); ++i) {
    types.push_back(extras[i].type);
    names.push_back("%x" + std::to_string(i));
    accesses.push_back(access(extras[i].kind, extras[i].kind == "table" ? 0 : factor));
    if (extras[i].kind != "table") {
      arguments.push_back("%e" + std::to_string(i) + ": f32");
    }
  }
  std::vector<std::string> parameters, resultAccesses, resultTypes, resultNames;
  for (size_t i = 0; i < names.size(); ++i) {
    parameters.push_back(names[i] + ": " + types[i]);
  }
  for (int i = 0; i < results; ++i) {
    resultAccesses.push_back(access("row", factor));
    resultTypes.push_back(getValueRows(columns));
    resultNames.push_back("%r#" + std::to_string(i));
  }
  std::string resultList = "(" + list(resultTypes) + ")";
  return "func.func @f(" + list(parameters) + ") -> " + resultList +
         " {\n  %r:" + std::to_string(results) + " = dispatch.contract " + list(names) +
         " attributes {domain = #dispatch.domain<batch = " + std::to_string(batch) +
         ", positions = " + std::to_string(positions) + ", factor = " + std::to_string(factor) +
         ">" + (byInput ? ", by_input" : "") + ", accesses = [" + list(accesses) +
         "], result_accesses = [" + list(resultAccesses) + "]" +
         (rotated ? ", rotated_columns = " + std::to_string(rotated) + " : i64" : "") +
         "} {\n  ^bb0(" + list(arguments) + "):\n" + body + "\n  } : (" + list(types) + ") -> " +
         resultList + "\n  return " + list(resultNames) + " : " + list(resultTypes) + "\n}";
}

mlir::FailureOr<cpu::Kernel> generate(mlir::Operation *op, mlir::ModuleOp module,
                                      llvm::StringRef name, const cpu::Target &target) {
  return cpu::generateKernel(op, module, name, target);
}

std::vector<float> numbers(int64_t count, unsigned seed, bool integers = false) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<float> real(-1, 1);
  std::uniform_int_distribution<int> whole(-3, 3);
  std::vector<float> result(count);
  for (float &x : result) {
    x = integers ? float(whole(engine)) : real(engine);
  }
  return result;
}

/// sum over k of x[r, k] W(k, n), and the sum of the terms' magnitudes, which scales the rounding
/// error.
std::pair<double, double> product(const ContractCase &c, const std::vector<float> &x,
                                  const std::vector<float> &w, int64_t row, int64_t n) {
  double sum = 0, magnitude = 0;
  for (int64_t k = 0; k < c.inner; ++k) {
    double term = double(x[row * c.inner + k]) * w[c.byInput ? k * c.columns + n : n * c.inner + k];
    sum += term;
    magnitude += std::abs(term);
  }
  return {sum, magnitude};
}

/// Rounding bound of a sequential sum of `terms` products, each step half an ulp (2^-24) of at most
/// `magnitude`.
double bound(int64_t terms, double magnitude) { return (terms + 1) * magnitude * 0x1p-24 + 1e-30; }

void checkNumbers(const ContractCase &c, const cpu::Target &target, const LoadedKernel &kernel,
                  bool integers) {
  KernelInputs launch{.operands = {numbers(c.rows() * c.inner, 1, integers),
                                   numbers(c.inner * c.columns, 2, integers)}};
  if (c.bf16) {
    for (std::vector<float> &operand : launch.operands) {
      llvm::transform(operand, operand.begin(), toBf16);
    }
  }
  launch.length = c.positions;
  launch.rows = c.batch;
  launch.shuffle = 5;
  launch.threads = 2;
  std::vector<float> y = kernel.run(launch)[0];
  for (int64_t r = 0; r < c.rows(); ++r) {
    for (int64_t n = 0; n < c.columns; ++n) {
      auto [sum, magnitude] = product(c, launch.operands[0], launch.operands[1], r, n);
      // A sum of two products is rounded twice where pairs are multiplied.
      double tolerance = integers ? 0 : bound(c.bf16 ? 2 * c.inner : c.inner, magnitude);
      ASSERT_NEAR(y[r * c.columns + n], sum, tolerance)
          << target.name.str() << " rows " << c.rows() << " K " << c.inner << " N " << c.columns
          << " at " << r << ", " << n;
    }
  }
}

void checkPlain(const ContractCase &c, const cpu::Target &target, bool integers) {
  LoadedKernel kernel(c.text(), target, generate);
  ASSERT_TRUE(kernel.loaded());
  checkNumbers(c, target, kernel, integers);
}

constexpr int64_t shapes[][3] = {
    {1, 1, 1},   {2, 2, 2},    {5, 7, 15},   {11, 15, 16},  {12, 16, 17},  {13, 17, 31}, {6, 8, 32},
    {7, 33, 33}, {25, 31, 47}, {37, 64, 64}, {24, 65, 128}, {131, 19, 97}, {600, 40, 71}};

/// Products of small integers are exact, and products of reals within the bound. An odd number of
/// columns has no pairs.
TEST(Contract, PairsOfBf16) {
  if (pairTargets().empty()) {
    GTEST_SKIP() << "no AVX-512";
  }
  for (const cpu::Target *target : pairTargets()) {
    for (auto [rows, inner, columns] : shapes) {
      for (bool byInput : {false, true}) {
        ContractCase c{.batch = 1,
                       .positions = rows,
                       .inner = inner == 7 ? inner : inner + inner % 2,
                       .columns = columns,
                       .byInput = byInput,
                       .bf16 = true};
        LoadedKernel kernel(c.text(), *target, generate);
        ASSERT_TRUE(kernel.loaded());
        checkNumbers(c, *target, kernel, true);
        checkNumbers(c, *target, kernel, false);
        if (testing::Test::HasFatalFailure()) {
          return;
        }
      }
    }
  }
}

TEST(Contract, ShapesAroundTiles) {
  for (const cpu::Target *target : targets()) {
    for (auto [rows, inner, columns] : shapes) {
      for (bool byInput : {false, true}) {
        ContractCase c{
            .batch = 1, .positions = rows, .inner = inner, .columns = columns, .byInput = byInput};
        checkPlain(c, *target, true);
        if (testing::Test::HasFatalFailure()) {
          return;
        }
      }
    }
  }
}

/// Blocks follow from the size of L2; no bit does.
TEST(Contract, IsEqualForAnySizeOfL2) {
  ContractCase c{.batch = 1, .positions = 600, .inner = 2000, .columns = 200};
  KernelInputs launch{
      .operands = {numbers(c.rows() * c.inner, 1), numbers(c.inner * c.columns, 2)}};
  launch.length = c.positions;
  launch.rows = c.batch;
  expectEqualForAnyL2(c.text(), launch, generate);
}

TEST(Contract, RealNumbersWithinRounding) {
  for (const cpu::Target *target : targets()) {
    checkPlain({.batch = 3, .positions = 41, .inner = 300, .columns = 70}, *target, false);
    checkPlain({.batch = 3, .positions = 41, .inner = 300, .columns = 70, .byInput = true}, *target,
               false);
  }
}

TEST(Contract, BiasAndResidualInPlace) {
  ContractCase c{.batch = 2, .positions = 29, .factor = 1, .inner = 33, .columns = 45};
  c.extras = {{"vector", "tensor<45xf32>"}, {"row", c.getValueRows(45)}, {"scalar", "tensor<f32>"}};
  c.body = "%a = arith.addf %acc, %e0 : f32\n%s = arith.mulf %a, %e2 : f32\n%b = arith.addf %s, "
           "%e1 : f32\n"
           "dispatch.yield %b, %a : f32, f32";
  c.results = 2;
  for (const cpu::Target *target : targets()) {
    LoadedKernel kernel(c.text(), *target, generate);
    KernelInputs launch{.operands = {numbers(58 * 33, 1, true),
                                     numbers(45 * 33, 2, true),
                                     numbers(45, 3, true),
                                     numbers(58 * 45, 4, true),
                                     {2.0f}}};
    launch.length = 29;
    launch.rows = 2;
    launch.shares[0] = 3;
    auto results = kernel.run(launch);
    for (int64_t r = 0; r < 58; ++r) {
      for (int64_t n = 0; n < 45; ++n) {
        double sum =
            product(c, launch.operands[0], launch.operands[1], r, n).first + launch.operands[2][n];
        ASSERT_EQ(results[1][r * 45 + n], sum) << r << ", " << n;
        ASSERT_EQ(results[0][r * 45 + n], 2 * sum + launch.operands[3][r * 45 + n])
            << r << ", " << n;
      }
    }
  }
}

/// Angles of positions and pairs of columns, [T][D].
std::vector<float> computeAngles(int64_t positions, int64_t head) {
  std::vector<float> table;
  for (int64_t i = 0; i < positions * head; ++i) {
    double angle = double(i / head) / std::pow(100.0, double(i % head / 2) / double(head));
    table.push_back(float(i % 2 == 0 ? std::cos(angle) : std::sin(angle)));
  }
  return table;
}

/// Heads shorter and longer than vectors and tiles, of sizes that divide neither; unchanged columns
/// after them.
TEST(Contract, RotatesPairsOfColumnsByPosition) {
  const int64_t sizes[][3] = {{2, 3, 8},    {6, 5, 41},   {10, 7, 71},  {16, 4, 128}, {22, 3, 88},
                              {32, 3, 128}, {40, 2, 120}, {64, 3, 256}, {200, 1, 401}};
  for (auto [head, heads, columns] : sizes) {
    ContractCase c{.batch = 2, .positions = 19, .factor = 1, .inner = 13, .columns = columns};
    c.rotated = head * heads;
    c.head = head;
    c.extras = {{"vector", "tensor<" + std::to_string(columns) + "xf32>"},
                {"table", "tensor<19x" + std::to_string(head) + "xf32>"}};
    c.body = "%a = arith.addf %acc, %e0 : f32\ndispatch.yield %a, %a : f32, f32";
    c.results = 2;
    for (const cpu::Target *target : targets()) {
      LoadedKernel kernel(c.text(), *target, generate);
      ASSERT_TRUE(kernel.loaded());
      KernelInputs launch{.operands = {numbers(38 * 13, 1), numbers(columns * 13, 2),
                                       numbers(columns, 3), computeAngles(19, head)},
                          .length = 19,
                          .rows = 2};
      auto results = kernel.run(launch);
      for (int64_t i = 0; i < 38 * columns; ++i) {
        int64_t n = i % columns, pair = i - n % 2,
                at = (i / columns % 19) * head + n % head / 2 * 2;
        double x = results[1][pair], y = n < c.rotated ? results[1][pair + 1] : 0;
        double cosine = launch.operands[3][at], sine = launch.operands[3][at + 1];
        double expected = n % 2 == 0 ? x * cosine - y * sine : x * sine + y * cosine;
        expected = n < c.rotated ? expected : results[1][i];
        // Rounds one product, and their sum.
        double error = n < c.rotated ? (std::abs(x) + std::abs(y)) * 0x1p-23 : 0;
        ASSERT_NEAR(results[0][i], expected, error)
            << target->name.str() << " head " << head << " row " << i / columns << " column " << n;
      }
    }
  }
}

TEST(Contract, GeluEpilogue) {
  ContractCase c{.positions = 26, .inner = 20, .columns = 40};
  c.body = R"(%half = arith.constant 0.5 : f32
    %one = arith.constant 1.0 : f32
    %root = arith.constant 0.70710678 : f32
    %s = arith.mulf %acc, %root : f32
    %e = math.erf %s : f32
    %f = arith.addf %e, %one : f32
    %g = arith.mulf %f, %half : f32
    %h = arith.mulf %g, %acc : f32
    dispatch.yield %acc, %h : f32, f32)";
  c.results = 2;
  for (const cpu::Target *target : targets()) {
    LoadedKernel kernel(c.text(), *target, generate);
    KernelInputs launch{
        .operands = {numbers(26 * 20, 1), numbers(40 * 20, 2)}, .length = 26, .rows = 1};
    auto results = kernel.run(launch);
    for (int64_t i = 0; i < 26 * 40; ++i) {
      double x = results[0][i];
      // The error function is within 4 ulp of at most 1, and 1 + erf is at least 2^-24 of that.
      ASSERT_NEAR(results[1][i], 0.5 * x * (1 + std::erf(x * M_SQRT1_2)), std::abs(x) * 0x1p-21);
    }
  }
}

/// Validity: rows past the length are arbitrary, rows before it are right for any length.
static void checkPartial(const ContractCase &c, const cpu::Target &target) {
  LoadedKernel kernel(c.text(), target, generate);
  for (int64_t length : {1, 4, 5, 17, 39, 40}) {
    for (int64_t rows : {1, 2, 4}) {
      KernelInputs launch{
          .operands = {numbers(40 * c.inner, 1, true), numbers(18 * c.inner, 2, true)},
          .length = length,
          .rows = rows};
      auto isValid = [&](int64_t r) { return r / 10 < rows && r % 10 < (length + 3) / 4; };
      for (int64_t i = 0; i < 40 * c.inner; ++i) {
        float &x = launch.operands[0][i];
        x = isValid(i / c.inner) ? x : std::numeric_limits<float>::quiet_NaN();
      }
      std::vector<float> y = kernel.run(launch)[0];
      for (int64_t r = 0; r < 40; ++r) {
        for (int64_t n = 0; isValid(r) && n < 18; ++n) {
          ASSERT_EQ(y[r * 18 + n], product(c, launch.operands[0], launch.operands[1], r, n).first)
              << target.name.str() << " length " << length << " rows " << rows << " at " << r
              << ", " << n;
        }
      }
    }
  }
}

/// Tiles that span several sequences, and NaN in rows that are not valid.
TEST(Contract, PartialLengthsAndRows) {
  ContractCase c{.batch = 4, .positions = 10, .factor = 4, .inner = 9, .columns = 18};
  for (const cpu::Target *target : targets()) {
    checkPartial(c, *target);
  }
  c.inner = 40;
  c.bf16 = true;
  for (const cpu::Target *target : pairTargets()) {
    checkPartial(c, *target);
  }
}

/// The known answer of Random123's test vectors for the all-ones counter and key.
TEST(Contract, PhiloxReferenceMatchesKnownAnswers) {
  const uint32_t ones = 0xffffffff;
  EXPECT_EQ(philox({ones, ones, ones, ones}, {ones, ones}),
            (std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
}

TEST(Contract, RandomNumbersFollowPhilox) {
  for (const cpu::Target *target : targets()) {
    for (int64_t columns : {36, 37}) {
      for (bool fixedStep : {false, true}) {
        ContractCase c{.batch = 2, .positions = 13, .inner = 3, .columns = columns};
        c.body = "%u = dispatch.random {id = 77 : i64, width = " + std::to_string(columns) +
                 " : i64" + (fixedStep ? ", fixed_step" : "") + "} : f32\ndispatch.yield %u : f32";
        LoadedKernel kernel(c.text(), *target, generate);
        KernelInputs launch{
            .operands = {numbers(26 * 3, 1), numbers(columns * 3, 2)}, .length = 13, .rows = 2};
        launch.step = 123456;
        launch.seed = 0x123456789abcdef;
        std::vector<float> y = kernel.run(launch)[0];
        for (int64_t i = 0; i < 26 * columns; ++i) {
          ASSERT_EQ(y[i], philoxUniform(i, 77, fixedStep ? 0 : launch.step, launch.seed)) << i;
        }
      }
    }
  }
}

TEST(Contract, ColumnAndPosition) {
  ContractCase c{.batch = 2, .positions = 9, .inner = 1, .columns = 50};
  c.body = "%c = dispatch.column : i32\n%p = dispatch.position\n%h = arith.constant 100 : i32\n"
           "%m = arith.muli %p, %h : i32\n%s = arith.addi %m, %c : i32\n%f = arith.sitofp %s : i32 "
           "to f32\n"
           "dispatch.yield %f : f32";
  for (const cpu::Target *target : targets()) {
    LoadedKernel kernel(c.text(), *target, generate);
    std::vector<float> y =
        kernel.run({.operands = {numbers(18, 1), numbers(50, 2)}, .length = 9, .rows = 2})[0];
    for (int64_t i = 0; i < 18 * 50; ++i) {
      ASSERT_EQ(y[i], i / 50 % 9 * 100 + i % 50);
    }
  }
}

TEST(Contract, ResultsDoNotDependOnItemOrder) {
  ContractCase c{.positions = 1100, .inner = 50, .columns = 200};
  for (const cpu::Target *target : targets()) {
    LoadedKernel kernel(c.text(), *target, generate);
    ASSERT_GE(kernel.items(), 8);
    KernelInputs launch{
        .operands = {numbers(1100 * 50, 1), numbers(200 * 50, 2)}, .length = 1100, .rows = 1};
    auto expected = kernel.run(launch);
    for (unsigned shuffle : {1, 2, 3}) {
      launch.shuffle = shuffle;
      launch.threads = 2;
      EXPECT_EQ(kernel.run(launch), expected);
    }
  }
}

} // namespace
