// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// Elementary functions in kernels: their accuracy, and guarantees of a kernel harness.
#include "Elementwise.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "sluice/Target/CPU/Frame.h"
#include "gtest/gtest-spi.h"
#include "gtest/gtest.h"
#include <cmath>

using namespace mlir;
using namespace sluice;
using namespace sluice::test;

namespace {

/// Error in units of the last place of the true value.
double ulps(float found, double expected) {
  if (std::isnan(expected) || std::isinf(float(expected))) {
    return (std::isnan(expected) && std::isnan(found)) || found == float(expected) ? 0 : INFINITY;
  }
  int exponent = 0;
  std::frexp(expected, &exponent);
  return std::abs(found - expected) / std::ldexp(1.0, std::max(exponent - 24, -149));
}

struct MathFunction {
  const char *name;
  Emit emit;
  double (*reference)(double);
  float low, high;
  double bound; ///< ulp
};

const std::vector<MathFunction> functions{
    {"exp", emitOp<math::ExpOp>, std::exp, -110, 95, 1.5},
    {"exp near 0", emitOp<math::ExpOp>, std::exp, -1, 1, 1.5},
    {"log", emitOp<math::LogOp>, std::log, 1e-6, 20, 1.5},
    {"log near 1", emitOp<math::LogOp>, std::log, 0.7f, 1.4f, 1.5},
    {"log of denormals", emitOp<math::LogOp>, std::log, 0, 1e-37f, 1.5},
    {"log1p", emitOp<math::Log1pOp>, std::log1p, -0.99f, 3, 2.5},
    {"tanh", emitOp<math::TanhOp>, std::tanh, -10, 10, 4},
    {"tanh near 0", emitOp<math::TanhOp>, std::tanh, -0.5f, 0.5f, 4},
    {"erf", emitOp<math::ErfOp>, std::erf, -5, 5, 4},
    {"sin", emitOp<math::SinOp>, std::sin, -7, 7, 2},
    {"cos", emitOp<math::CosOp>, std::cos, -7, 7, 2},
};

std::vector<float> spread(float low, float high) {
  std::vector<float> result(count);
  for (int64_t i = 0; i < count; ++i) {
    result[i] = low + (high - low) * (float(i) + 0.37f) / count;
  }
  return result;
}

TEST(Math, VectorsAreAccurate) {
  for (const cpu::Target *target : targets()) {
    for (const MathFunction &function : functions) {
      LoadedKernel kernel(text, *target, elementwise(function.emit));
      ASSERT_TRUE(kernel.loaded());
      std::vector<float> x = spread(function.low, function.high);
      std::vector<float> y = kernel.run({.operands = {x}, .shuffle = 3, .threads = 2})[0];
      double worst = 0, where = 0;
      for (int64_t i = 0; i < count; ++i) {
        double error = ulps(y[i], function.reference(x[i]));
        where = error > worst ? x[i] : where;
        worst = std::max(worst, error);
      }
      EXPECT_LE(worst, function.bound)
          << function.name << " at " << where << " on " << target->name.str();
      RecordProperty(function.name, std::to_string(worst));
    }
  }
}

TEST(Math, HandlesSpecialValues) {
  const float infinity = INFINITY;
  std::vector<float> x(count, 1.0f);
  const float special[] = {0.0f, -0.0f, infinity, -infinity, NAN, -1.0f};
  std::copy(std::begin(special), std::end(special), x.begin());
  for (const cpu::Target *target : targets()) {
    LoadedKernel exp(text, *target, elementwise(emitOp<math::ExpOp>));
    LoadedKernel log(text, *target, elementwise(emitOp<math::LogOp>));
    std::vector<float> e = exp.run({.operands = {x}})[0], l = log.run({.operands = {x}})[0];
    for (int i = 0; i < 6; ++i) {
      EXPECT_EQ(ulps(e[i], std::exp(double(special[i]))) <= 1.5, true) << special[i] << " " << e[i];
      EXPECT_EQ(ulps(l[i], std::log(double(special[i]))) <= 1.5, true) << special[i] << " " << l[i];
    }
  }
}

TEST(Math, DoubleScalarsCallNoLibrary) {
  struct Case {
    const char *name;
    Emit emit;
    double (*reference)(double);
    float low, high;
  };
  auto power = [](ImplicitLocOpBuilder &b, Value x) -> Value {
    Value y = arith::ConstantOp::create(b, b.getF64FloatAttr(-0.5));
    return math::PowFOp::create(b, x, y);
  };
  const Case cases[] = {{"exp", emitOp<math::ExpOp>, std::exp, -20, 20},
                        {"log", emitOp<math::LogOp>, std::log, 0.01f, 30},
                        {"cos", emitOp<math::CosOp>, std::cos, -7, 7},
                        {"sin", emitOp<math::SinOp>, std::sin, -7, 7},
                        {"sqrt", emitOp<math::SqrtOp>, std::sqrt, 0, 9},
                        {"pow", power, [](double x) { return std::pow(x, -0.5); }, 0.01f, 1e5f}};
  for (const cpu::Target *target : targets()) {
    for (const Case &c : cases) {
      // f(x) minus its f32 rounding, times 2^30: an error of 2^-50 relative shows as one part in
      // 2^26 of the result.
      Emit residue = [&](ImplicitLocOpBuilder &b, Value x) -> Value {
        Value y = c.emit(b, x);
        Value narrow = arith::TruncFOp::create(b, b.getF32Type(), y);
        Value rounded = arith::ExtFOp::create(b, b.getF64Type(), narrow);
        Value scale = arith::ConstantOp::create(b, b.getF64FloatAttr(0x1p30));
        return arith::MulFOp::create(b, arith::SubFOp::create(b, y, rounded), scale);
      };
      LoadedKernel kernel(text, *target, elementwise(residue, true));
      ASSERT_TRUE(kernel.loaded());
      std::vector<float> x = spread(c.low, c.high);
      std::vector<float> y = kernel.run({.operands = {x}})[0];
      for (int64_t i = 0; i < count; ++i) {
        double expected = c.reference(x[i]);
        double found = double(float(expected)) + double(y[i]) * 0x1p-30;
        ASSERT_NEAR(found, expected, 1e-15 + std::abs(expected) * 1e-14)
            << c.name << " of " << x[i];
      }
    }
  }
}

TEST(Harness, DetectsWritesOutsideResults) {
  KernelGenerator overrun = [](Operation *op, ModuleOp module, StringRef name,
                               const cpu::Target &target) -> FailureOr<cpu::Kernel> {
    cpu::Frame frame(op, module, name, target);
    ImplicitLocOpBuilder &b = frame.builder();
    Value zero = arith::ConstantOp::create(b, b.getF32FloatAttr(0));
    memref::StoreOp::create(b, zero, frame.buffer(1), frame.index(count));
    frame.finish();
    return cpu::Kernel{frame.function(), 1, 0, "stream"};
  };
  LoadedKernel kernel(text, cpu::Target::avx2(), overrun);
  ASSERT_TRUE(kernel.loaded());
  EXPECT_NONFATAL_FAILURE(kernel.run({.operands = {std::vector<float>(count)}}),
                          "outside the results");
}

TEST(Harness, ScalarsAndItemsReachTheKernel) {
  KernelGenerator scalars = [](Operation *op, ModuleOp module, StringRef name,
                               const cpu::Target &target) -> FailureOr<cpu::Kernel> {
    cpu::Frame frame(op, module, name, target);
    ImplicitLocOpBuilder &b = frame.builder();
    Value to = frame.buffer(1);
    Value values[] = {frame.length({}),
                      frame.rows(),
                      arith::IndexCastOp::create(b, b.getIndexType(), frame.step()),
                      arith::IndexCastOp::create(b, b.getIndexType(), frame.seed()),
                      frame.lengths(4, 100).ofAll(),
                      frame.lengths(0, 100).ofAll(),
                      frame.item()};
    for (auto [i, value] : llvm::enumerate(values)) {
      Value number = arith::IndexCastOp::create(b, b.getI64Type(), value);
      memref::StoreOp::create(b, arith::SIToFPOp::create(b, b.getF32Type(), number), to,
                              frame.index(i));
    }
    frame.finish();
    return cpu::Kernel{frame.function(), 1, 0, "stream"};
  };
  LoadedKernel kernel(text, cpu::Target::avx2(), scalars);
  ASSERT_TRUE(kernel.loaded());
  std::vector<float> y = kernel.run(
      {.operands = {std::vector<float>(count)}, .length = 13, .rows = 3, .step = 7, .seed = 11})[0];
  EXPECT_EQ(std::vector<float>(y.begin(), y.begin() + 7),
            (std::vector<float>{13, 3, 7, 11, 4, 100, 0}));
}

} // namespace
