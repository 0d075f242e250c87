// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Training of a boundary predictor: the logarithm of the gamma function and its derivative
// in float32, and the binomial prior on the float64 reference.
#include "../../../lib/Conversion/SpecToSluice/Scalars.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "sluice/Conversion/ImportSpec.h"
#include "sluice/Dialect/Sluice/Reference.h"
#include "sluice/Dialect/Sluice/ScalarDifferentiation.h"
#include "sluice/Transforms/Passes.h"
#include <cmath>
#include <gtest/gtest.h>
#include <map>
#include <numeric>

using namespace mlir;
using namespace sluice;

namespace {

/// The result of a region of one f32 in float32.
float run(Region &region, float x) {
  reference::Scalar<float> argument{x, 0};
  return reference::evaluateScalar<float>(region, {argument}, {}).front().real;
}

/// psi(x): the derivative, by digits that float64 has to spare.
double digamma(double x) {
  double sum = 0;
  for (; x < 30; ++x) {
    sum -= 1 / x;
  }
  double square = 1 / (x * x);
  return sum + std::log(x) - 0.5 / x - square * (1.0 / 12 - square * (1.0 / 120 - square / 252));
}

TEST(LogGamma, MatchesLogGammaAndDigamma) {
  MLIRContext context;
  context.loadDialect<SluiceDialect, arith::ArithDialect, math::MathDialect>();
  ImplicitLocOpBuilder b(UnknownLoc::get(&context), &context);
  Region value, derivative;
  Value x = value.emplaceBlock().addArgument(b.getF32Type(), b.getLoc());
  b.setInsertionPointToStart(&value.front());
  YieldOp::create(b, ValueRange{spec_to_sluice::logGamma({b, x})});
  Value at = derivative.emplaceBlock().addArgument(b.getF32Type(), b.getLoc());
  b.setInsertionPointToStart(&derivative.front());
  Value one = arith::ConstantOp::create(b, b.getF32FloatAttr(1));
  auto products = differentiateScalar(b, value.front(), at, one);
  ASSERT_TRUE(succeeded(products));
  YieldOp::create(b, ValueRange{products->front()});
  for (int k = 1; k <= 4097; k += k < 64 ? 1 : 61) {
    double expected = std::lgamma(static_cast<double>(k)), slope = digamma(k);
    // Relative error; where the function is small, relative to the numbers whose difference it is.
    EXPECT_NEAR(run(value, static_cast<float>(k)), expected, 1e-6 * std::max(8.0, expected)) << k;
    EXPECT_NEAR(run(derivative, static_cast<float>(k)), slope, 1e-6 * std::max(2.0, slope)) << k;
  }
}

OwningOpRef<ModuleOp> importText(MLIRContext &context, const std::string &text) {
  spec::Diagnostic error;
  std::optional<ParsedSpec> spec = parseSpec(context, text, "test.json", error);
  EXPECT_TRUE(spec) << error.format();
  return importSpec(*spec);
}

const std::string drawn =
    R"({"sluice": 1, "vocabulary": 9, "context": 13, "batch": 2, "width": 4, "stages": [
  {"op": "embedding", "to": "x"},
  {"op": "boundaries", "name": "words", "predictor": 5, "prior": 0.3, "weight": 0.25},
  {"op": "shorten", "segments": "words"}, {"op": "upsample", "segments": "words"},
  {"op": "add", "with": "x"}, {"op": "head"}]})";

/// Random parameters and integer tokens of a function without given axes.
void setAll(reference::Evaluator<double> &evaluator, func::FuncOp function, uint64_t seed) {
  auto module = function->getParentOfType<ModuleOp>();
  uint64_t element = 0;
  for (auto parameter : module.getOps<ParameterOp>()) {
    std::vector<double> numbers(cast<RankedTensorType>(parameter.getType()).getNumElements());
    for (double &number : numbers) {
      number = 4 * reference::uniform(seed, 1, 1, element++) - 2;
    }
    evaluator.setParameter(parameter.getSymName(), numbers);
  }
  std::vector<int32_t> tokens(2 * 14);
  for (int32_t &token : tokens) {
    token = static_cast<int32_t>(9 * reference::uniform(seed, 1, 2, element++));
  }
  evaluator.setTokens(function.getArgument(0), tokens);
}

/// The loss of `function` is the binomial prior of its own bits, with an expected fraction `a`.
void expectPrior(func::FuncOp function, reference::RuntimeValues setting, uint64_t seed, double a) {
  constexpr double length = 13;
  reference::Evaluator<double> evaluator(function->getParentOfType<ModuleOp>(), setting);
  setAll(evaluator, function, seed);
  ASSERT_TRUE(succeeded(evaluator.evaluate(function)));
  auto results = function.getBody().front().getTerminator()->getOperands();
  ASSERT_EQ(results.size(), 3U); // next, prior, share
  std::vector<double> prior = evaluator.getSequence(results[1]),
                      bits = evaluator.getSequence(results[2]);
  for (int64_t row = 0; row < 2; ++row) {
    double k = std::accumulate(bits.begin() + row * 13, bits.begin() + (row + 1) * 13, 0.0);
    double ways = std::lgamma(length + 1) - std::lgamma(k + 1) - std::lgamma(length - k + 1);
    double expected = -(ways + k * std::log(a) + (length - k) * std::log(1 - a)) / length;
    for (int64_t t = 0; t < 13; ++t) {
      EXPECT_NEAR(prior[row * 13 + t], expected, 1e-6);
    }
  }
}

TEST(Predictor, LossIsTheBinomialPriorOfItsBits) {
  MLIRContext context;
  OwningOpRef<ModuleOp> module = importText(context, drawn);
  ASSERT_TRUE(succeeded(verify(*module)));
  auto function = module->lookupSymbol<func::FuncOp>("evaluate");
  ASSERT_TRUE(module->lookupSymbol("train"));
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    expectPrior(function, {.rows = 2, .length = 13}, seed, 0.3);
  }
}

/// From 0.5 to 0.1 over four updates, evenly and in two jumps. Evaluation has the last one.
TEST(Predictor, PriorMovesOverTheUpdates) {
  for (bool jumps : {false, true}) {
    MLIRContext context;
    std::string text = drawn, moving = R"({"from": 0.5, "to": 0.1, "steps": 4)";
    moving += jumps ? R"(, "jumps": 2})" : "}";
    text.replace(text.find("0.3"), 3, moving);
    OwningOpRef<ModuleOp> module = importText(context, text);
    ASSERT_TRUE(succeeded(verify(*module)));
    auto train = module->lookupSymbol<func::FuncOp>("train");
    auto evaluate = module->lookupSymbol<func::FuncOp>("evaluate");
    const double even[] = {0.5, 0.4, 0.3, 0.2, 0.1, 0.1}, jumped[] = {0.5, 0.5, 0.3, 0.3, 0.1, 0.1};
    for (uint64_t n = 1; n <= 6; ++n) {
      reference::RuntimeValues setting{.rows = 2, .length = 13, .step = n};
      expectPrior(train, setting, n, (jumps ? jumped : even)[n - 1]);
      expectPrior(evaluate, setting, n, 0.1);
    }
  }
}

/// Without weight of the prior, a finite gradient still reaches the predictor, through pooling.
/// Samples in which each token is a segment, or no segment ends, give none: so take the largest of
/// several samples.
TEST(Predictor, TrainsThroughSampledBits) {
  MLIRContext context;
  std::string text = drawn;
  text.replace(text.find("0.25"), 4, "1e-30");
  OwningOpRef<ModuleOp> module = importText(context, text);
  PassManager passes(&context);
  passes.addPass(createDifferentiate());
  ASSERT_TRUE(succeeded(passes.run(*module)));
  auto function = module->lookupSymbol<func::FuncOp>("gradient");
  std::map<std::string, double> largest;
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    reference::Evaluator<double> evaluator(*module, {.rows = 2, .length = 13, .seed = seed});
    setAll(evaluator, function, seed);
    ASSERT_TRUE(succeeded(evaluator.evaluate(function)));
    for (const char *name : {"stages.1.in.weight", "stages.1.out.weight", "stages.1.out.bias"}) {
      for (double number : evaluator.getGradients().at(name)) {
        ASSERT_TRUE(std::isfinite(number));
        largest[name] = std::max(largest[name], std::fabs(number));
      }
    }
  }
  ASSERT_EQ(largest.size(), 3U);
  for (const auto &[name, number] : largest) {
    EXPECT_GT(number, 1e-6) << name;
  }
}

} // namespace
