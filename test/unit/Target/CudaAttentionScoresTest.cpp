// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention's CUDA kernels on scores far beyond the precision of an exponent of base 2 in f32.
#include "AttentionRuns.h"

#include "gtest/gtest.h"
#include <cmath>
#include <random>

using namespace sluice;
using namespace sluice::test;
using emulator::Copies;
using emulator::Schedule;

namespace {

/// Integers, so products do not round: the expected result of one query.
struct Winners {
  double most = -INFINITY;   ///< product of the query and a key
  std::vector<int64_t> keys; ///< keys with that product
};

Winners findWinners(const AttentionCase &c, const std::vector<float> &qkv, int64_t h, int64_t p) {
  Winners winners;
  for (int64_t j = 0; j <= p; ++j) {
    double product = 0;
    for (int64_t i = 0; i < c.head; ++i) {
      product += double(qkv[p * c.width() + h * c.head + i]) *
                 double(qkv[j * c.width() + c.heads * c.head + i]);
    }
    if (product > winners.most) {
      winners = {product, {}};
    }
    if (product == winners.most) {
      winners.keys.push_back(j);
    }
  }
  return winners;
}

/// Queries and keys whose products are far below zero for the first 64 keys, zero for the next 32,
/// and then rise; values and output gradients of a few.
std::vector<float> buildIntegers(const AttentionCase &c) {
  std::vector<float> qkv(c.positions * c.width());
  std::mt19937 random(3);
  for (int64_t i = 0; i < int64_t(qkv.size()); ++i) {
    int64_t p = i / c.width(), column = i % c.width(), inHead = column % c.head;
    float drawn = float(random() % 5) - 2;
    bool isKey = column / c.head == c.heads, isFirst = column / c.head <= c.heads && inHead == 0;
    float leading = !isKey ? 1 : p < 64 ? -80 : float(p - 96);
    qkv[i] = isFirst ? leading : drawn;
    qkv[i] = isKey && p >= 64 && p < 96 ? 0 : qkv[i];
  }
  return qkv;
}

/// With scores this large, all weight of a query is on the keys of its maximum score; several such
/// keys share it, and then the output gradient is zero, since a log-sum-exp of f32 cannot
/// distinguish them.
void checkExtreme(const Score &score, double factor) {
  AttentionCase c{"extreme", 1, 200, 2, 1, 32, 197, 1, causal(), score};
  c.bf16 = true;
  AttentionData data;
  data.qkv = buildIntegers(c);
  int64_t wide = c.heads * c.head;
  Expected output(c.positions * wide), lse(c.positions * c.heads),
      gradient(c.positions * c.width());
  data.outputIn.resize(c.positions * wide);
  data.outputGradient.resize(c.positions * wide);
  data.lseIn.resize(c.positions * c.heads);
  int64_t below = 0, above = 0;
  for (int64_t p = 0; p < c.valid(); ++p) {
    for (int64_t h = 0; h < c.heads; ++h) {
      Winners winners = findWinners(c, data.qkv, h, p);
      auto count = double(winners.keys.size());
      below += winners.most < 0;
      above += winners.most > 0;
      double logSum = double(float(winners.most) * float(factor)) + std::log(count);
      lse.value[p * c.heads + h] = logSum;
      lse.bound[p * c.heads + h] = 0x1p-22 * (std::abs(logSum) + 1);
      data.lseIn[p * c.heads + h] = float(logSum);
      // A weight is exactly 1 if only the score decides; elsewhere e^x has two roundings and
      // log2(e)'s own.
      bool exact = count == 1 && std::abs(logSum) > 0x1p17;
      double weight = std::expm1(3 * 0x1p-24 * std::abs(logSum));
      for (int64_t i = 0; i < c.head; ++i) {
        int64_t at = p * wide + h * c.head + i, valueColumn = (c.heads + 1) * c.head + i;
        for (int64_t j : winners.keys) {
          output.value[at] += data.qkv[j * c.width() + valueColumn] / count;
        }
        output.bound[at] = exact ? 0 : 2 * (0x1p-8 + 0x1p-20) * 2; // of weights and outputs
        data.outputIn[at] = float(output.value[at]);
        data.outputGradient[at] = count == 1 ? float((at * 31) % 7 - 3) : 0;
        int64_t of = winners.keys[0] * c.width() + valueColumn;
        gradient.value[of] += data.outputGradient[at];
        gradient.bound[of] += exact ? 0 : 3 * (weight + 2 * 0x1p-8);
      }
    }
  }
  for (double &value : gradient.value) {
    value = roundedToBf16(float(value));
  }
  EXPECT_TRUE(below > 64 && above > 64) << "scores of both signs are extreme";
  EmulatedKernel forward(c.forwardText()), backward(c.backwardText());
  ASSERT_TRUE(forward.made() && backward.made());
  auto results = forward.run(forwardRun(c, data, Schedule::WarpAlone, Copies::Late));
  compare(c, results[0], output, wide, false, "output");
  compare(c, results[1], lse, c.heads, false, "log-sum-exp");
  auto found = backward.run(backwardRun(c, data, Schedule::WarpAlone, Copies::Late));
  compare(c, found[0], gradient, c.width(), true, "gradient");
}

TEST(CudaAttention, ScoresOfAnyMagnitude) {
  Score region = scaled(4e9);
  region.text = "%c = arith.constant 4.0e9 : f32\n%z = arith.constant 0.0 : f32\n"
                "%scaled = arith.mulf %s, %c : f32\n%r = arith.addf %scaled, %z : f32\n";
  checkExtreme(region, 4e9);
  for (double factor : {1e3, 1e6, 1e10, 3e12, 1e30}) {
    checkExtreme(scaled(factor), factor);
  }
}

} // namespace
