// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention kernels, forward and backward, against the float64 reference and against themselves.
#include "AttentionReference.h"
#include "KernelHarness.h"

#include "gtest/gtest.h"
#include <cmath>
#include <cstring>

using namespace mlir;
using namespace sluice;
using namespace sluice::test;

namespace {

FailureOr<cpu::Kernel> generate(Operation *op, ModuleOp module, StringRef name, const cpu::Target &target) {
  if (auto forward = dyn_cast<dispatch::AttentionOp>(op)) {
    return cpu::generateAttention(forward, module, name, target);
  }
  return cpu::generateAttentionBackward(cast<dispatch::AttentionBackwardOp>(op), module, name, target);
}

Launch forwardLaunch(const AttentionCase &c, const AttentionData &data) {
  Launch launch{.operands = {data.qkv, data.qkv, data.qkv}, .length = c.length, .rows = c.rows, .step = c.step, .seed = c.seed};
  if (c.rotary) {
    launch.operands.push_back(data.rotary);
  }
  return launch;
}

Launch backwardLaunch(const AttentionCase &c, const AttentionData &data) {
  Launch launch = forwardLaunch(c, data);
  launch.operands.resize(3);
  launch.operands.insert(launch.operands.end(), {data.outputIn, data.lseIn, data.outputGradient});
  if (c.rotary) {
    launch.operands.push_back(data.rotary);
  }
  return launch;
}

/// Compares elements for which `compared(row of all positions)` holds.
void compare(const std::vector<float> &found, const Expected &expected, int64_t width,
             const std::function<bool(int64_t)> &compared, const std::string &what) {
  ASSERT_EQ(found.size(), expected.value.size());
  double worst = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    if (!compared(int64_t(i) / width)) {
      continue;
    }
    double error = std::abs(double(found[i]) - expected.value[i]);
    bool same = std::isinf(expected.value[i]) ? double(found[i]) == expected.value[i] : error <= expected.bound[i];
    ASSERT_TRUE(same) << what << ": row " << int64_t(i) / width << " column " << int64_t(i) % width << ": expected "
                      << expected.value[i] << " within " << expected.bound[i] << ", found " << found[i];
    worst = expected.bound[i] > 0 ? std::max(worst, error / expected.bound[i]) : worst;
  }
  ::testing::Test::RecordProperty(what + ", worst error over its bound", std::to_string(worst));
}

void check(const AttentionCase &c) {
  AttentionData data = makeAttention(c);
  auto valid = [&](int64_t row) { return row / c.positions < c.rows && row % c.positions < c.valid(); };
  for (const cpu::Target *target : targets()) {
    SCOPED_TRACE(c.name + " on " + target->name.str());
    LoadedKernel forward(c.forwardText(), *target, generate);
    ASSERT_TRUE(forward.loaded());
    auto results = forward.run(forwardLaunch(c, data));
    compare(results[0], data.output, c.heads * c.head, valid, "output");
    compare(results[1], data.lse, c.heads, valid, "log-sum-exp");
    LoadedKernel backward(c.backwardText(), *target, generate);
    ASSERT_TRUE(backward.loaded());
    auto gradient = backward.run(backwardLaunch(c, data));
    compare(gradient[0], data.gradient, c.width(), [](int64_t) { return true; }, "gradient");
  }
}

const Score plain = scaled(0.25);

TEST(Attention, OddSizes) {
  check({"one position", 1, 1, 1, 1, 8, 1, 1, causal(), plain});
  check({"one vector", 2, 13, 2, 2, 8, 13, 2, causal(), plain});
  check({"head of 5", 3, 37, 2, 2, 5, 36, 2, causal(), plain});
  check({"head of 40", 1, 65, 5, 5, 40, 65, 1, causal(), plain});
  check({"one more than two blocks", 2, 130, 1, 1, 8, 129, 1, causal(), plain});
  check({"head of 64", 1, 130, 2, 2, 64, 128, 1, causal(), plain});
  check({"head of 100", 1, 70, 1, 1, 100, 67, 1, causal(), plain});
  check({"coarse scale", 2, 44, 2, 2, 8, 100, 2, causal(), plain, false, 0, 3, 3});
}

TEST(Attention, ShortLengths) {
  for (int64_t length : {1, 2, 15, 16, 17, 63, 64, 65, 80}) {
    check({"length " + std::to_string(length), 2, 80, 1, 1, 8, length, 1, causal(), plain});
  }
}

TEST(Attention, Relations) {
  Relation thirds{"affine_set<(p, q)[n] : ((p + 1) floordiv 3 - q >= 0)>",
                  [](int64_t p, int64_t q, int64_t) { return q <= (p + 1) / 3; }};
  Relation shifted{"affine_set<(p, q)[n] : (p - q - 3 >= 0)>", [](int64_t p, int64_t q, int64_t) { return q <= p - 3; }};
  Relation residues{"affine_set<(p, q)[n] : ((p + q) mod 3 == 0, p ceildiv 2 - q + 20 >= 0)>",
                    [](int64_t p, int64_t q, int64_t) { return (p + q) % 3 == 0 && q <= (p + 1) / 2 + 20; }};
  Relation mirrored{"affine_set<(p, q)[n] : (n - 1 - p - q >= 0)>",
                    [](int64_t p, int64_t q, int64_t n) { return p + q <= n - 1; }};
  Relation blocked{"affine_set<(p, q)[n] : ((p floordiv 24) * 24 - q - 1 >= 0)>",
                   [](int64_t p, int64_t q, int64_t) { return q < p / 24 * 24; }};
  int index = 0;
  for (const Relation &relation : {thirds, shifted, residues, mirrored, blocked, window(16), window(70), everything()}) {
    check({"relation " + std::to_string(index++), 1, 150, 2, 2, 8, 140, 1, relation, plain});
  }
}

TEST(Attention, GroupedHeadsRotaryAndScores) {
  check({"four heads, two of keys", 2, 70, 4, 2, 8, 69, 2, causal(), plain});
  check({"one head of keys, rotary", 2, 70, 3, 1, 20, 70, 1, causal(), plain, true});
  check({"rotary over 64", 1, 66, 2, 2, 64, 66, 1, everything(), plain, true});
  check({"soft cap", 1, 70, 2, 2, 8, 66, 1, causal(), softCap(1.5)});
  check({"linear bias", 1, 70, 4, 2, 8, 66, 1, everything(), linearBias()});
}

TEST(Attention, Dropout) {
  check({"keys in fours", 2, 72, 2, 1, 8, 70, 2, causal(), plain, false, 0.25f});
  check({"keys alone", 2, 70, 2, 2, 8, 70, 2, causal(), plain, true, 0.5f, 9});
}

/// The same bits in any order of the items, on one thread and on two.
TEST(Attention, OrderAndThreadsChangeNothing) {
  AttentionCase c{"order", 2, 150, 4, 2, 20, 131, 2, causal(), softCap(2), true, 0.1f};
  AttentionData data = makeAttention(c);
  for (const cpu::Target *target : targets()) {
    for (bool isForward : {true, false}) {
      LoadedKernel kernel(isForward ? c.forwardText() : c.backwardText(), *target, generate);
      ASSERT_TRUE(kernel.loaded());
      ASSERT_GT(kernel.items(), 1);
      Launch launch = isForward ? forwardLaunch(c, data) : backwardLaunch(c, data);
      auto expected = kernel.run(launch);
      for (unsigned threads : {1, 2}) {
        launch.shuffle = 5 + threads;
        launch.threads = threads;
        auto found = kernel.run(launch);
        for (size_t i = 0; i < found.size(); ++i) {
          EXPECT_EQ(std::memcmp(found[i].data(), expected[i].data(), found[i].size() * sizeof(float)), 0);
        }
      }
    }
  }
}

/// NaN in what an empty block would read reaches nobody: a block that is computed and then masked would give 0 * NaN.
TEST(Attention, EmptyBlocksAreSkipped) {
  AttentionCase c{"skip", 1, 256, 1, 1, 8, 256, 1, causal(), plain};
  AttentionData data = makeAttention(c);
  Launch forward = forwardLaunch(c, data), backward = backwardLaunch(c, data);
  for (int64_t p = 0; p < 256; ++p) {
    for (int64_t i = 0; i < 8; ++i) {
      float &value = forward.operands[2][p * c.width() + 16 + i];
      value = p >= 192 ? NAN : value;
      float &gradient = backward.operands[5][p * 8 + i];
      gradient = p < 64 ? NAN : gradient;
    }
  }
  for (const cpu::Target *target : targets()) {
    LoadedKernel forwardKernel(c.forwardText(), *target, generate), backwardKernel(c.backwardText(), *target, generate);
    ASSERT_TRUE(forwardKernel.loaded() && backwardKernel.loaded());
    auto output = forwardKernel.run(forward)[0];
    compare(output, data.output, 8, [](int64_t row) { return row < 192; }, "output");
    EXPECT_TRUE(std::isnan(output[255 * 8])) << "the poison is where it should be";
    auto gradient = backwardKernel.run(backward)[0];
    compare(gradient, data.gradient, c.width(), [](int64_t row) { return row >= 64; }, "gradient");
    EXPECT_TRUE(std::isnan(gradient[c.width() - 1])) << "the poison is where it should be";
  }
}

} // namespace
