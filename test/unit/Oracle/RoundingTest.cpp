// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// bf16: distinguishes rounding to nearest from truncation.
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "sluice/Dialect/Dispatch/Dispatch.h"
#include "sluice/Oracle/Oracle.h"
#include "gtest/gtest.h"
#include <cstring>
#include <random>

using namespace sluice;

namespace {

constexpr int64_t rows = 40, inner = 24, columns = 16;

float decode(uint16_t bits) {
  uint32_t wide = uint32_t(bits) << 16;
  float value = 0;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}
uint16_t cut(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return uint16_t(bits >> 16);
}
uint16_t nearest(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/// Rows times a matrix in f32, stored by `round`.
oracle::Judgement checkStored(uint16_t (*round)(float)) {
  mlir::MLIRContext context;
  context
      .loadDialect<dispatch::DispatchDialect, mlir::func::FuncDialect, mlir::arith::ArithDialect>();
  const char *text = R"(
#own = #dispatch.access<row>
func.func @f(%x: tensor<1x40x24xbf16>, %w: tensor<16x24xbf16>) {
  %y = dispatch.contract %x, %w attributes {domain = #dispatch.domain<batch = 1, positions = 40, factor = 0>, accesses = [], result_accesses = [#own]} {
  ^bb0(%acc: f32):
    dispatch.yield %acc : f32
  } : (tensor<1x40x24xbf16>, tensor<16x24xbf16>) -> tensor<1x40x16xbf16>
  return
})";
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  mlir::Operation *op = nullptr;
  module->walk([&](dispatch::ContractOp contract) { op = contract; });
  int64_t stride = dispatch::paddedWidth(inner), outStride = dispatch::paddedWidth(columns);
  std::vector<uint16_t> x(rows * stride, 0x7fc0), w(columns * inner), y(rows * outStride, 0x7fc0);
  std::mt19937 engine(5);
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t k = 0; k < inner; ++k) {
      x[r * stride + k] = nearest(uniform(engine));
    }
  }
  for (uint16_t &number : w) {
    number = nearest(uniform(engine));
  }
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t n = 0; n < columns; ++n) {
      float sum = 0;
      for (int64_t k = 0; k < inner; ++k) {
        sum += decode(x[r * stride + k]) * decode(w[n * inner + k]);
      }
      y[r * outStride + n] = round(sum);
    }
  }
  auto judged = oracle::judge(op, {{x.data(), w.data()}, {y.data()}, rows, 1});
  EXPECT_TRUE(mlir::succeeded(judged));
  return *judged;
}

} // namespace

TEST(Rounding, AcceptsRoundingToNearest) {
  oracle::Judgement judgement = checkStored(nearest);
  EXPECT_TRUE(judgement.passed()) << judgement.str();
  EXPECT_GT(judgement.results[0].rounded, rows * columns / 2);
}

/// The error of truncation is half an ulp on average; counted away from zero, as signs would hide
/// it.
TEST(Rounding, DetectsTruncationByItsMeanError) {
  oracle::Judgement judgement = checkStored(cut);
  EXPECT_GT(judgement.results[0].mismatches, 0);
  EXPECT_TRUE(judgement.results[0].isBiased());
  EXPECT_NEAR(judgement.results[0].meanSignedUlps, -0.5, 0.1);
  EXPECT_NE(judgement.str().find("expected to nearest"), std::string::npos);
}
