// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention kernels, forward and backward, compared with the float64 reference and with themselves.
#include "AttentionReference.h"
#include "KernelHarness.h"
#include "sluice/Target/CPU/Frame.h"
#include "sluice/Target/Common/Emitter.h"
#include "sluice/Target/Common/VectorMath.h"

#include "gtest/gtest.h"
#include <cmath>
#include <cstring>
#include <numeric>

using namespace mlir;
using namespace sluice;
using namespace sluice::test;

namespace {

FailureOr<cpu::Kernel> generate(Operation *op, ModuleOp module, StringRef name,
                                const cpu::Target &target) {
  return cpu::generateKernel(op, module, name, target);
}

KernelInputs forwardLaunch(const AttentionCase &c, const AttentionData &data) {
  KernelInputs launch{.operands = sequences(c, data),
                      .length = c.length,
                      .rows = c.rows,
                      .step = c.step,
                      .seed = c.seed};
  launch.operands.insert(launch.operands.end(), data.terms.begin(), data.terms.end());
  if (!c.keyCounts.empty()) {
    launch.operands.push_back(countReads(c));
  }
  return launch;
}

KernelInputs backwardLaunch(const AttentionCase &c, const AttentionData &data) {
  KernelInputs launch = forwardLaunch(c, data);
  launch.operands.insert(launch.operands.begin() + 3,
                         {data.outputIn, data.lseIn, data.outputGradient}); // counts stay last
  if (c.rotary) {
    launch.operands.insert(launch.operands.begin() + 6 + int64_t(data.terms.size()), data.rotary);
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
    bool same = std::isinf(expected.value[i]) ? double(found[i]) == expected.value[i]
                                              : error <= expected.bound[i];
    ASSERT_TRUE(same) << what << ": row " << int64_t(i) / width << " column " << int64_t(i) % width
                      << ": expected " << expected.value[i] << " within " << expected.bound[i]
                      << ", found " << found[i];
    worst = expected.bound[i] > 0 ? std::max(worst, error / expected.bound[i]) : worst;
  }
  ::testing::Test::RecordProperty(what + ", worst error over its bound", std::to_string(worst));
}

/// The targets that multiply pairs of bf16. A machine without AVX512_BF16 emulates its
/// instructions, which takes too long for the sums of dot products: an instruction for tiles has
/// 128 times as many.
std::vector<const cpu::Target *> pairs() {
  std::vector<const cpu::Target *> all = pairTargets();
  if (!hasPairs()) {
    std::erase(all, &cpu::Target::avx512Bf16());
  }
  return all;
}

/// Both directions on every target, for bf16 on those that multiply it, with the case's own
/// length and with `others`: one kernel for all lengths.
void check(AttentionCase c, std::vector<int64_t> others = {}) {
  others.push_back(c.length);
  std::vector<AttentionData> expected; // by length, for all targets
  for (int64_t length : others) {
    c.length = length;
    expected.push_back(makeAttention(c));
  }
  for (const cpu::Target *target : c.bf16 ? pairs() : targets()) {
    LoadedKernel forward(c.forwardText(), *target, generate),
        backward(c.backwardText(), *target, generate);
    ASSERT_TRUE(forward.loaded() && backward.loaded()) << c.name;
    for (size_t i = 0; i < others.size(); ++i) {
      SCOPED_TRACE(c.name + ", length " + std::to_string(others[i]) + " on " + target->name.str());
      c.length = others[i];
      AttentionData &data = expected[i];
      auto valid = [&](int64_t row) {
        return row / c.positions < c.rows && row % c.positions < c.valid();
      };
      auto results = forward.run(forwardLaunch(c, data));
      compare(results[0], data.output, c.heads * c.head, valid, "output");
      compare(results[1], data.lse, c.heads, valid, "log-sum-exp");
      auto gradients = backward.run(backwardLaunch(c, data));
      for (int64_t tensor = 0; tensor < c.tensors; ++tensor) {
        auto every = [](int64_t) { return true; };
        compare(gradients[tensor], data.getExpectedGradient(tensor), c.width(tensor), every,
                "gradient " + std::to_string(tensor));
      }
      for (int64_t term = 0; term < c.terms(); ++term) {
        auto every = [](int64_t) { return true; };
        compare(gradients[c.tensors + term], data.termGradients[term], c.termWidth(term), every,
                "gradient of term " + std::to_string(term));
      }
    }
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

/// Factors are pairs of bf16, except where a head has an odd number of columns. Blocks end inside a
/// pair of keys; heads are smaller and larger than a vector of pairs.
TEST(Attention, PairsOfBf16) {
  if (pairs().empty()) {
    GTEST_SKIP() << "no AVX-512";
  }
  auto checkPairs = [](AttentionCase c, const std::vector<int64_t> &others = {}) {
    c.bf16 = true;
    check(std::move(c), others);
  };
  checkPairs({"one position", 1, 1, 1, 1, 8, 1, 1, causal(), plain});
  checkPairs({"head of 2", 1, 33, 2, 2, 2, 33, 1, causal(), plain}, {1});
  checkPairs({"head of 5", 3, 37, 2, 2, 5, 36, 2, causal(), plain});
  checkPairs({"head of 40", 1, 65, 5, 5, 40, 65, 1, causal(), plain}, {1, 2, 33});
  checkPairs({"head of 100", 1, 70, 1, 1, 100, 67, 1, everything(), plain});
  checkPairs({"large blocks, rotary, grouped, soft cap", 1, 270, 2, 1, 32, 263, 1, causal(),
              softCap(2), true});
  checkPairs({"window, head of 10", 1, 150, 2, 2, 10, 139, 1, window(16), plain}, {20, 97});
  checkPairs({"dropout", 2, 70, 2, 2, 8, 69, 2, causal(), plain, true, 0.5f, 9});
  checkPairs(onScales(3, 1, 0, 1000), {1, 4, 97});
  checkPairs(overGivenKeys(), {1, 40});
  AttentionCase small{"terms", 2, 70, 4, 2, 8, 69, 1, causal(), plain};
  checkPairs(withTerms(small, true, 9), {1, 32});
}

TEST(Attention, ShortLengths) {
  check({"small blocks", 2, 80, 1, 1, 8, 80, 1, causal(), plain},
        {1, 2, 15, 16, 17, 31, 32, 33, 65});
  check({"large blocks", 1, 330, 2, 1, 16, 330, 1, causal(), plain},
        {1, 63, 64, 65, 129, 192, 320});
}

TEST(Attention, Relations) {
  MaskRelation thirds{"affine_set<(p, q)[n] : ((p + 1) floordiv 3 - q >= 0)>",
                      [](int64_t p, int64_t q, int64_t) { return q <= (p + 1) / 3; }};
  MaskRelation shifted{"affine_set<(p, q)[n] : (p - q - 3 >= 0)>",
                       [](int64_t p, int64_t q, int64_t) { return q <= p - 3; }};
  MaskRelation residues{
      "affine_set<(p, q)[n] : ((p + q) mod 3 == 0, p ceildiv 2 - q + 20 >= 0)>",
      [](int64_t p, int64_t q, int64_t) { return (p + q) % 3 == 0 && q <= (p + 1) / 2 + 20; }};
  MaskRelation mirrored{"affine_set<(p, q)[n] : (n - 1 - p - q >= 0)>",
                        [](int64_t p, int64_t q, int64_t n) { return p + q <= n - 1; }};
  MaskRelation blocked{"affine_set<(p, q)[n] : ((p floordiv 24) * 24 - q - 1 >= 0)>",
                       [](int64_t p, int64_t q, int64_t) { return q < p / 24 * 24; }};
  int index = 0;
  for (const MaskRelation &relation :
       {thirds, shifted, residues, mirrored, blocked, window(16), window(70), everything()}) {
    check({"relation " + std::to_string(index++), 1, 150, 2, 2, 8, 140, 1, relation, plain},
          {20, 96});
  }
}

/// Separate queries and keys, on one scale and on two, each way; windows; and factors of which
/// neither divides the other.
TEST(Attention, TwoDomains) {
  AttentionCase apart{"apart", 2, 70, 4, 2, 8, 69, 2, causal(), plain};
  for (int64_t tensors : {2, 3}) {
    apart.tensors = tensors;
    check(apart, {1, 33});
  }
  check(onScales(3, 1, 0, 1000), {1, 4, 97});
  check(onScales(1, 3, 0, 1000), {1, 4, 97});
  check(onScales(2, 3, 1, 9), {2, 50});
  check(onScales(1, 70, 0, 2), {1, 71});
  check(overGivenKeys(), {1, 40});
  AttentionCase dropped = onScales(4, 2, 0, 1000);
  dropped.dropout = 0.25f;
  check(dropped);
}

TEST(Attention, GroupedHeadsRotaryAndScores) {
  check({"four heads, two of keys", 2, 70, 4, 2, 8, 69, 2, causal(), plain});
  check({"one head of keys, rotary", 2, 70, 3, 1, 20, 70, 1, causal(), plain, true});
  check({"rotary over 64", 1, 66, 2, 2, 64, 66, 1, everything(), plain, true});
  check({"soft cap", 1, 70, 2, 2, 8, 66, 1, causal(), softCap(1.5)});
  check({"large blocks, rotary, grouped, soft cap", 1, 270, 2, 1, 32, 263, 1, causal(), softCap(2),
         true});
  check({"linear bias", 1, 70, 4, 2, 8, 66, 1, everything(), linearBias()});
}

/// Tables of signed distances: fewer rows than distances, one, and more; given keys, grouped heads,
/// and a region whose gradients by its two products differ.
TEST(Attention, TablesOfBothDirections) {
  AttentionCase c{"both directions", 2, 70, 4, 2, 8, 67, 1, everything(), plain};
  check(inBothDirections(c, true, true, 9), {1, 33});
  check(inBothDirections(c, false, true, 161), {3});
  check(inBothDirections(onGivenAxis(4, 4, 20), true, false, 17));
  AttentionCase large{
      "both directions, large blocks", 1, 330, 2, 1, 16, 311, 1, everything(), gated(0.5)};
  check(inBothDirections(large, true, true, 101), {1, 64, 129});
  c.relation = causal();
  c.dropout = 0.25f;
  check(inBothDirections(c, true, false, 1));
}

/// Biases, products with rows, and both; fewer, equal and more distances than the distinguished
/// ones; small and large blocks, grouped heads, windows, and a region whose derivative reads the
/// score.
TEST(Attention, TermsByDistance) {
  AttentionCase small{"terms", 2, 70, 4, 2, 8, 69, 1, causal(), plain};
  check(withTerms(small, false, 1), {1, 33});
  check(withTerms(small, false, 70), {1, 33});
  small.tensors = 2;
  check(withTerms(small, true, 0), {1, 32, 33});
  check(withTerms(small, true, 9));
  AttentionCase narrow{"window", 1, 61, 1, 1, 5, 60, 1, window(7), softCap(1.5)};
  check(withTerms(narrow, true, 5), {3});
  AttentionCase late{"no late key", 1, 61, 1, 1, 6, 60, 1, window(7), plain, true, 0.25f};
  late.relation = {"affine_set<(p, q)[n] : (p - q - 3 >= 0)>",
                   [](int64_t p, int64_t q, int64_t) { return q <= p - 3; }};
  check(withTerms(late, true, 5), {3});
  AttentionCase large{"large blocks", 1, 330, 2, 1, 20, 329, 1, causal(), plain};
  check(withTerms(large, true, 100), {1, 63, 64, 65, 129});
}

/// A region that uses the product as a gate: its gradients are not the gradients of the score.
TEST(Attention, ProductsByDistanceAsGates) {
  AttentionCase small{"gates", 2, 70, 4, 2, 8, 69, 1, causal(), gated(0.5)};
  check(withTerms(small, true, 0), {1, 33});
  small.tensors = 2;
  small.dropout = 0.25f;
  check(withTerms(small, true, 9));
  AttentionCase ends = acrossScales(3, 1, /*isComplete=*/true, 0);
  ends.score = gated(0.5);
  check(ends, {145});
}

/// One row of 300 tokens, whose finer scale has blocks of 64.
AttentionCase withLargeBlocks(AttentionCase c) {
  c.name += ", large blocks";
  c.batch = c.rows = 1;
  c.heads = c.kvHeads = 1;
  c.positions = 300 / c.factor;
  c.keyPositions = 300 / c.keyFactor;
  c.distancePositions = 300;
  c.length = 297;
  return c;
}

TEST(Attention, TermsByDistanceBetweenScales) {
  check(acrossScales(3, 1, false, 20), {1, 4});
  check(acrossScales(1, 3, false, 140), {2, 97});
  check(acrossScales(4, 2, true, 0), {1, 3, 50});
  check(acrossScales(2, 3, true, 9), {4});
  check(withLargeBlocks(acrossScales(4, 1, false, 0)));
  check(withLargeBlocks(acrossScales(1, 4, false, 0)));
}

TEST(Attention, Dropout) {
  check({"keys in fours", 2, 72, 2, 1, 8, 70, 2, causal(), plain, false, 0.25f});
  check({"keys alone", 2, 70, 2, 2, 8, 70, 2, causal(), plain, true, 0.5f, 9});
}

/// e^x as in kernels, over the range of softmax: at most 2 ulp off, and 0 from -87 down to minus
/// infinity.
TEST(Attention, ExponentialIsAccurate) {
  constexpr int64_t count = 8192;
  const char *text = R"(
#flat = #dispatch.access<flat>
func.func @f(%x: tensor<8192xf32>) -> tensor<8192xf32> {
  %y = dispatch.rows %x attributes {domain = #dispatch.domain<batch = 1, positions = 8192, factor = 0>,
     accesses = [#flat], result_accesses = [#flat]} {
  ^bb0(%a: f32):
    dispatch.yield %a : f32
  } : (tensor<8192xf32>) -> tensor<8192xf32>
  return %y : tensor<8192xf32>
})";
  auto exponential = [](Operation *op, ModuleOp module, StringRef name,
                        const cpu::Target &target) -> FailureOr<cpu::Kernel> {
    cpu::Frame frame(op, module, name, target);
    cpu::Emitter e(frame.builder(), target.lanes);
    Value from = frame.buffer(0), to = frame.buffer(1);
    e.loop(e.index(0), e.index(count), target.lanes,
           [&](Value i) { e.store(cpu::emitExp(e, e.load(from, {i})), to, {i}); });
    frame.finish();
    return cpu::Kernel{frame.function(), 1, frame.scratchBytes(), "stream"};
  };
  std::vector<float> x(count);
  for (int64_t i = 0; i < count; ++i) {
    x[i] = i % 2 ? -92.0f * float(i) / count : 1.5f - 3.0f * float(i) / count;
  }
  x[0] = -INFINITY;
  x[1] = 0;
  for (const cpu::Target *target : targets()) {
    LoadedKernel kernel(text, *target, exponential);
    ASSERT_TRUE(kernel.loaded());
    std::vector<float> y = kernel.run({.operands = {x}})[0];
    for (int64_t i = 0; i < count; ++i) {
      double expected = x[i] < -87 ? 0 : std::exp(double(x[i]));
      EXPECT_LE(std::abs(y[i] - expected), 2 * 0x1p-23 * expected) << "x = " << x[i];
    }
  }
}

/// Bitwise equal in any order of the items, on one thread and on two.
TEST(Attention, ResultsDoNotDependOnOrderAndThreads) {
  AttentionCase c{"order", 2, 150, 4, 2, 20, 131, 2, causal(), softCap(2), true, 0.1f};
  AttentionData data = makeAttention(c);
  for (const cpu::Target *target : targets()) {
    for (bool isForward : {true, false}) {
      LoadedKernel kernel(isForward ? c.forwardText() : c.backwardText(), *target, generate);
      ASSERT_TRUE(kernel.loaded());
      ASSERT_GT(kernel.items(), 1);
      KernelInputs launch = isForward ? forwardLaunch(c, data) : backwardLaunch(c, data);
      auto expected = kernel.run(launch);
      for (unsigned threads : {1, 2}) {
        launch.shuffle = 5 + threads;
        launch.threads = threads;
        auto found = kernel.run(launch);
        for (size_t i = 0; i < found.size(); ++i) {
          EXPECT_EQ(
              std::memcmp(found[i].data(), expected[i].data(), found[i].size() * sizeof(float)), 0);
        }
      }
    }
  }
}

/// NaN in the inputs of an empty block reaches no result: a computed and then masked block would
/// give 0 * NaN.
TEST(Attention, SkipsEmptyBlocks) {
  AttentionCase c{"skip", 1, 320, 1, 1, 8, 320, 1, causal(), plain};
  AttentionData data = makeAttention(c);
  KernelInputs forward = forwardLaunch(c, data), backward = backwardLaunch(c, data);
  for (int64_t p = 0; p < 320; ++p) {
    for (int64_t i = 0; i < 8; ++i) {
      float &value = forward.operands[2][p * c.width() + 16 + i];
      value = p >= 256 ? NAN : value;
      float &gradient = backward.operands[5][p * 8 + i];
      gradient = p < 64 ? NAN : gradient;
    }
  }
  for (const cpu::Target *target : targets()) {
    LoadedKernel forwardKernel(c.forwardText(), *target, generate),
        backwardKernel(c.backwardText(), *target, generate);
    ASSERT_TRUE(forwardKernel.loaded() && backwardKernel.loaded());
    auto output = forwardKernel.run(forward)[0];
    compare(output, data.output, 8, [](int64_t row) { return row < 256; }, "output");
    EXPECT_TRUE(std::isnan(output[319 * 8])) << "the poison is where it should be";
    auto gradient = backwardKernel.run(backward)[0];
    compare(gradient, data.gradient, c.width(), [](int64_t row) { return row >= 64; }, "gradient");
    EXPECT_TRUE(std::isnan(gradient[c.width() - 1])) << "the poison is where it should be";
  }
}

/// A window of few keys has blocks of 32 queries and 16 keys: NaN in 16 keys reaches 32 queries.
TEST(Attention, NarrowWindowsUseSmallBlocks) {
  AttentionCase c{"narrow", 1, 320, 1, 1, 8, 320, 1, window(8), plain};
  AttentionData data = makeAttention(c);
  KernelInputs forward = forwardLaunch(c, data);
  for (int64_t i = 0; i < 8 * 16; ++i) {
    forward.operands[2][(128 + i / 8) * c.width() + 16 + i % 8] = NAN;
  }
  for (const cpu::Target *target : targets()) {
    LoadedKernel kernel(c.forwardText(), *target, generate);
    ASSERT_TRUE(kernel.loaded());
    auto output = kernel.run(forward)[0];
    compare(output, data.output, 8, [](int64_t row) { return row < 128 || row >= 160; }, "output");
    EXPECT_TRUE(std::isnan(output[128 * 8])) << "the poison is where it should be";
  }
}

} // namespace
