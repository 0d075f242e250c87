// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Scalar ops agree in the reference, the oracle and MLIR.
#include "../../../lib/Oracle/Body.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Parser/Parser.h"
#include "sluice/Dialect/Sluice/Reference.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace sluice;

namespace {

class Scalars : public testing::Test {
protected:
  Scalars() {
    context.loadDialect<dispatch::DispatchDialect, func::FuncDialect, arith::ArithDialect,
                        math::MathDialect>();
  }
  /// A region of f32 arguments %x and %y that ends in an f32 %z.
  Region &parse(const std::string &lines) {
    module = parseSourceString<ModuleOp>(
        "func.func @f(%x: f32, %y: f32) -> f32 {\n" + lines + "\nreturn %z : f32 }", &context);
    EXPECT_TRUE(module) << lines;
    return (*module->getOps<func::FuncOp>().begin()).getBody();
  }
  double reference(const std::string &lines, double x, double y) {
    SmallVector<reference::Scalar<double>> arguments = {{.real = x}, {.real = y}};
    return reference::evaluateScalar<double>(parse(lines), arguments, {}).front().real;
  }
  oracle::Number judged(const std::string &lines, oracle::Number x, oracle::Number y) {
    auto made = oracle::evaluateScalar(parse(lines), {x, y}, {}, {});
    EXPECT_TRUE(succeeded(made)) << lines;
    return succeeded(made) ? made->front() : oracle::Number{};
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};

std::string integers(const std::string &lines, const std::string &type = "i32") {
  return "%a = arith.constant 7 : " + type + "\n%b = arith.constant -2 : " + type + "\n" + lines +
         "\n%z = arith.sitofp %i : " + type + " to f32";
}
std::string booleans(const std::string &lines) {
  return "%true = arith.constant true\n%less = arith.cmpf olt, %x, %y : f32\n" + lines;
}

} // namespace

TEST_F(Scalars, MatchTheirDialects) {
  struct ScalarCase {
    std::string lines;
    double expected;
  };
  const double x = 0.75, y = -1.5;
  const ScalarCase cases[] = {
      {"%z = arith.divf %x, %y : f32", -0.5},
      {"%z = math.copysign %x, %y : f32", -0.75},
      {"%two = arith.constant 2.0 : f32\n%z = math.powf %x, %two : f32", 0.5625},
      {"%z = math.floor %y : f32", -2},
      {"%z = dispatch.straight_through %y, %x : f32", -1.5},
      {"%z = math.fma %x, %y, %x : f32", -0.375},
      {integers("%i = arith.divsi %a, %b : i32"), -3},
      {integers("%i = arith.floordivsi %a, %b : i32"), -4},
      {integers("%i = arith.ceildivsi %a, %b : i32"), -3},
      {integers("%i = arith.remsi %a, %b : i32"), 1},
      {integers("%c = arith.constant 100 : i8\n%i = arith.addi %c, %c : i8", "i8"), -56},
      {integers("%l = arith.cmpi ult, %a, %b : i32\n%i = arith.select %l, %a, %b : i32"), 7},
      {integers("%n = arith.trunci %b : i32 to i8\n%i = arith.extui %n : i8 to i32"), 254},
      {integers("%n = arith.trunci %b : i32 to i8\n%i = arith.extsi %n : i8 to i32"), -2},
      {booleans("%z = arith.uitofp %true : i1 to f32"), 1},
      {booleans("%z = arith.sitofp %true : i1 to f32"), -1},
      {booleans("%n = arith.xori %less, %true : i1\n%z = arith.uitofp %n : i1 to f32"), 1},
      {booleans("%n = arith.extui %true : i1 to i32\n%z = arith.sitofp %n : i32 to f32"), 1},
  };
  for (const ScalarCase &one : cases) {
    EXPECT_NEAR(reference(one.lines, x, y), one.expected, 1e-12) << one.lines;
    oracle::Number number = judged(one.lines, {x, 0}, {y, 0});
    EXPECT_LE(std::abs(number.value - one.expected), number.error + 1e-12) << one.lines;
    EXPECT_LE(number.error, 1e-5 * std::max(1.0, std::abs(one.expected))) << one.lines;
  }
}

TEST_F(Scalars, MaximumPropagatesNaN) {
  for (std::string name : {"maximumf", "minimumf"}) {
    std::string lines = "%z = arith." + name + " %x, %y : f32";
    EXPECT_TRUE(std::isnan(reference(lines, NAN, 1)));
    EXPECT_TRUE(std::isnan(judged(lines, {1, 0}, {NAN, 0}).value));
  }
  EXPECT_EQ(reference("%z = arith.maxnumf %x, %y : f32", NAN, 1), 1);
  EXPECT_EQ(judged("%z = arith.maxnumf %x, %y : f32", {NAN, 0}, {1, 0}).value, 1);
}

/// A comparison of numbers within their errors may go either way, and so may every use of it.
TEST_F(Scalars, UncertaintyPropagatesThroughLogic) {
  const oracle::Number near{1, 0.1}, same{1.05, 0};
  const std::string chosen = "\n%z = arith.select %c, %x, %zero : f32";
  const std::string zero = "%zero = arith.constant 0.0 : f32\n%false = arith.constant false\n";
  EXPECT_GE(judged(booleans(zero + "%c = arith.andi %less, %true : i1" + chosen), near, same).error,
            1);
  EXPECT_LE(
      judged(booleans(zero + "%c = arith.andi %less, %false : i1" + chosen), near, same).error,
      1e-5);
  EXPECT_GE(judged(booleans(zero + "%c = arith.ori %less, %false : i1" + chosen), near, same).error,
            1);
  EXPECT_LE(judged(booleans(zero + "%c = arith.ori %less, %true : i1" + chosen), near, same).error,
            0.11);
}
