// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention's CUDA kernels on the emulator, forward and backward, compared with the float64
// reference on the same bf16 inputs, and with themselves; as PTX and, if ptxas is present, as
// cubins.
#include "AttentionRuns.h"

#include "gtest/gtest.h"
#include <cmath>
#include <cstring>
#include <iostream>

using namespace sluice;
using namespace sluice::test;
using emulator::Copies;
using emulator::Schedule;

namespace {

/// Prints loads of matrices, sectors of global memory and shares of tensor-core instructions,
/// launch by launch.
void checkTraffic(const AttentionCase &c, const EmulatedKernel &kernel) {
  for (auto [i, report] : llvm::enumerate(kernel.reports)) {
    const emulator::Counters &counters = report.counters;
    for (const emulator::SiteTraffic &site : counters.sites) {
      if (site.instruction.find("ldmatrix") != std::string::npos) {
        EXPECT_EQ(site.units, site.leastUnits) << c.name << ": " << site.instruction;
      }
    }
    bool even = (c.head & (c.head - 1)) == 0 && c.head >= 16;
    if (even) {
      EXPECT_EQ(counters.bankConflicts(), 0u) << c.name << ", launch " << i;
    }
    // Log-sum-exps take one sector each, a tenth of the traffic of narrower heads; a head's biases
    // likewise.
    if (even && c.head >= 32 && c.biasRows == 0) {
      EXPECT_GE(double(counters.leastSectors), 0.9 * double(counters.globalSectors))
          << c.name << ", launch " << i;
    }
    double whole = 100 * double(counters.leastSectors) / double(counters.globalSectors);
    cuda::KernelStage stage = kernel.kernel().stages[i];
    std::cout << c.name << ", " << stage.function.getName().str() << ": " << stage.sharedBytes
              << " bytes of shared memory, tensor cores " << 100 * counters.tensorShare()
              << "% of instructions, least sectors " << whole << "% of what moved, "
              << double(counters.tensorFlops) / 1e6 << " MFLOP\n";
  }
}

/// Both directions, with the case's own length and with `others`: one kernel for all lengths.
void check(AttentionCase c, std::vector<int64_t> others = {}) {
  c.bf16 = true;
  others.push_back(c.length);
  EmulatedKernel forward(c.forwardText()), backward(c.backwardText());
  ASSERT_TRUE(forward.made() && backward.made()) << c.name;
  EXPECT_EQ(backward.kernel().stages.size(), c.terms() > 0 ? 3u : 2u) << c.name;
  for (int64_t length : others) {
    SCOPED_TRACE(c.name + ", length " + std::to_string(length));
    c.length = length;
    AttentionData data = makeAttention(c);
    auto results = forward.run(forwardRun(c, data, Schedule::WarpAlone, Copies::Late));
    compare(c, results[0], data.output, c.heads * c.head, false, "output");
    compare(c, results[1], data.lse, c.heads, false, "log-sum-exp");
    checkTraffic(c, forward);
    auto gradients = backward.run(backwardRun(c, data, Schedule::WarpAlone, Copies::Late));
    for (int64_t i = 0; i < c.tensors; ++i) {
      compare(c, gradients[i], data.getExpectedGradient(i), c.width(i), true,
              "gradient " + std::to_string(i), i);
    }
    for (int64_t term = 0; term < c.terms(); ++term) {
      bool isTable = c.biasRows > 0 && term + 1 == c.terms();
      compare(c, gradients[c.tensors + term], data.termGradients[term], c.termWidth(term), true,
              "gradient of term " + std::to_string(term),
              isTable || (term == 1 && c.tableRows > 0) ? allValid : (term == 1 ? byDistance : 0));
    }
    checkTraffic(c, backward);
  }
}

const Score plain = scaled(0.25);
const MaskRelation shifted{"affine_set<(p, q)[n] : (p - q - 3 >= 0, q - p + 80 >= 0)>",
                           [](int64_t p, int64_t q, int64_t) { return q <= p - 3 && q >= p - 80; }};
const MaskRelation thirds{"affine_set<(p, q)[n] : ((p + 1) floordiv 3 - q >= 0)>",
                          [](int64_t p, int64_t q, int64_t) { return q <= (p + 1) / 3; }};
const MaskRelation residues{
    "affine_set<(p, q)[n] : ((p + q) mod 3 == 0, p ceildiv 2 - q + 20 >= 0)>",
    [](int64_t p, int64_t q, int64_t) { return (p + q) % 3 == 0 && q <= (p + 1) / 2 + 20; }};

TEST(CudaAttention, CausalHeadOf64) {
  check({"head of 64", 2, 200, 2, 2, 64, 197, 2, causal(), plain}, {1, 64, 129});
}

/// Enough blocks for 128 queries each; all but one row of the batch are invalid.
TEST(CudaAttention, TwoFragmentsPerWarp) {
  check({"two fragments", 67, 140, 1, 1, 48, 133, 1, causal(), plain}, {63});
}

TEST(CudaAttention, HeadOf16WindowAndCoarseScale) {
  check({"window, coarse", 2, 150, 1, 1, 16, 440, 1, window(70), plain, false, 0, 3, 3}, {50});
}

TEST(CudaAttention, GroupedHeadsBidirectional) {
  check({"grouped", 1, 130, 4, 2, 32, 130, 1, everything(), plain}, {70});
}

TEST(CudaAttention, HeadOf128) {
  check({"head of 128", 1, 140, 1, 1, 128, 131, 1, causal(), plain});
}

/// The widest: two blocks sum half of the columns each.
TEST(CudaAttention, HeadOf256) {
  check({"head of 256", 2, 100, 2, 1, 256, 93, 2, causal(), scaled(0.0625)}, {30});
}

TEST(CudaAttention, ResultsOfF32) {
  AttentionCase even{"f32, head of 64", 2, 100, 2, 1, 64, 93, 2, causal(), plain},
      odd{"f32, head of 5", 1, 70, 3, 3, 5, 66, 1, residues, linearBias()},
      wide{"f32, head of 136, rotary", 1, 70, 1, 1, 136, 67, 1, causal(), scaled(0.125), true};
  for (AttentionCase *c : {&even, &odd, &wide}) {
    c->wideResults = true;
    check(*c, {3});
  }
}

TEST(CudaAttention, ShiftedWindowWithEmptyRowsAndRotary) {
  check({"head of 40, rotary", 1, 170, 2, 1, 40, 165, 1, shifted, plain, true}, {2});
}

TEST(CudaAttention, SoftCapAndRotary) {
  check({"soft cap, rotary", 1, 140, 2, 1, 64, 133, 1, thirds, softCap(2), true});
}

TEST(CudaAttention, RotaryOfEvenHeads) {
  for (int64_t head : {16, 32, 128, 256}) {
    check({"rotary, head of " + std::to_string(head), 1, 100, 1, 1, head, 93, 1, causal(), plain,
           true});
  }
}

TEST(CudaAttention, DropoutEqualsTheCpu) {
  check({"dropout, fours", 2, 132, 2, 1, 32, 130, 2, causal(), plain, false, 0.25f});
  check({"dropout, pairs", 2, 130, 2, 1, 16, 130, 2, causal(), plain, false, 0.25f});
  check({"dropout, alone, wide", 1, 67, 1, 1, 72, 67, 1, causal(), plain, false, 0.5f, 9});
}

/// Separate queries and keys, on one scale and on two, each way.
TEST(CudaAttention, TwoDomains) {
  AttentionCase apart{"apart", 2, 70, 2, 1, 16, 69, 2, causal(), plain, true};
  apart.tensors = 2;
  check(apart, {33});
  for (auto [a, b] : {std::pair<int64_t, int64_t>(3, 1), {1, 3}, {2, 3}}) {
    AttentionCase c = onScales(a, b, a - 1, 40);
    c.head = 8 * (a + b - 2);
    c.dropout = a == 2 ? 0.25f : 0;
    check(c, {1, 97});
  }
  check(overGivenKeys(), {40});
}

TEST(CudaAttention, HeadsOfAnySize) {
  check({"head of 5", 1, 70, 3, 3, 5, 66, 1, residues, linearBias()});
  check({"head of 20, rotary", 1, 70, 3, 1, 20, 69, 1, causal(), plain, true});
  check({"head of 136", 1, 70, 1, 1, 136, 67, 1, causal(), scaled(0.125), true});
}

/// Rows by distance, biases, and both; fewer, equal and more distances than the distinguished ones.
TEST(CudaAttention, RowsByDistance) {
  check(withTerms({"rows", 2, 70, 2, 1, 32, 69, 2, causal(), plain}, true, 0), {1});
  check(withTerms({"rows, head of 128", 1, 40, 1, 1, 128, 39, 1, causal(), plain}, true, 0));
}

TEST(CudaAttention, BiasesByDistance) {
  AttentionCase c{"biases", 2, 70, 4, 2, 16, 69, 1, causal(), plain};
  c.tensors = 2;
  check(withTerms(c, false, 1), {33});
  check(withTerms({"wide, biases", 1, 40, 1, 1, 96, 40, 1, window(9), plain}, false, 40));
}

TEST(CudaAttention, RowsAndBiasesByDistance) {
  AttentionCase narrow{"both, head of 5", 1, 100, 1, 1, 5, 99, 1, window(90), softCap(1.5)};
  narrow.wideResults = true;
  check(withTerms(narrow, true, 67));
  AttentionCase late{"both, no late key", 1, 72, 3, 1, 20, 70, 1, shifted, plain, true, 0.25f};
  check(withTerms(late, true, 9));
}

/// Tables of signed distances: fewer rows than distances, one, and more; and given keys.
TEST(CudaAttention, TablesOfBothDirections) {
  AttentionCase c{"both directions", 1, 70, 2, 1, 16, 67, 1, everything(), plain};
  check(inBothDirections(c, true, true, 9), {1, 33});
  check(inBothDirections(onGivenAxis(2, 2, 32), true, false, 17));
  check(inBothDirections(onGivenAxis(3, 1, 5), false, true, 161));
  c.relation = causal();
  c.dropout = 0.25f;
  check(inBothDirections(c, true, false, 1));
}

/// A region that uses the product as a gate: its gradients are not the gradients of the score.
TEST(CudaAttention, ProductsByDistanceAsGates) {
  check(withTerms({"gates", 1, 70, 2, 1, 16, 69, 1, causal(), gated(0.5)}, true, 0), {33});
  AttentionCase ends = acrossScales(3, 1, /*isComplete=*/true, 9);
  ends.score = gated(0.5);
  ends.dropout = 0.25f;
  ends.batch = ends.rows = 1;
  ends.length = 145;
  check(ends);
}

/// Each class of queries and of keys has its own tiles. By ends, the last row represents distances
/// beyond it if the last group is partial.
TEST(CudaAttention, TermsBetweenScales) {
  check(acrossScales(3, 1, /*isComplete=*/false, 0), {1});
  AttentionCase ends = acrossScales(3, 1, /*isComplete=*/true, 20);
  ends.length = 145;
  check(ends);
  AttentionCase coprime = acrossScales(2, 3, /*isComplete=*/true, 100);
  coprime.dropout = 0.25f;
  coprime.batch = 1;
  coprime.rows = 1;
  check(coprime);
  AttentionCase finer = acrossScales(2, 4, /*isComplete=*/true, 0);
  finer.batch = 1;
  finer.rows = 1;
  check(finer);
}

/// Two blocks sum half of the columns each; bands pass through one buffer.
TEST(CudaAttention, WideHeadsWithTerms) {
  check(withTerms({"wide, rows", 1, 70, 1, 1, 256, 69, 1, causal(), scaled(0.0625)}, true, 9));
  AttentionCase c{"wide, biases", 1, 40, 2, 1, 136, 40, 1, window(9), scaled(0.125), true, 0.25f};
  check(withTerms(c, false, 5));
}

/// NaN in the inputs of an empty tile reaches no result: a computed and then masked tile would give
/// 0 * NaN.
TEST(CudaAttention, SkipsEmptyTiles) {
  AttentionCase c{"skip", 1, 320, 1, 1, 16, 320, 1, causal(), plain};
  c.bf16 = true;
  AttentionData data = makeAttention(c);
  CudaRun forward = forwardRun(c, data, Schedule::InOrder, Copies::Late),
          backward = backwardRun(c, data, Schedule::InOrder, Copies::Late);
  for (int64_t p = 0; p < 320; ++p) {
    for (int64_t i = 0; i < 16; ++i) {
      float &value = forward.operands[2][p * c.width() + 32 + i];
      value = p >= 256 ? NAN : value;
      float &gradient = backward.operands[5][p * 16 + i];
      gradient = p < 64 ? NAN : gradient;
    }
  }
  auto outside = [&](std::vector<float> &found, const Expected &expected, int64_t from,
                     int64_t to) {
    EXPECT_TRUE(std::isnan(found[(to - 1) * int64_t(found.size()) / 320 - 1]))
        << "the poison is where it should be";
    for (int64_t i = from * int64_t(found.size()) / 320; i < to * int64_t(found.size()) / 320;
         ++i) {
      found[i] = float(expected.value[i]);
    }
  };
  auto output = EmulatedKernel(c.forwardText()).run(forward)[0];
  outside(output, data.output, 256, 320);
  compare(c, output, data.output, 16, false, "output");
  auto gradient = EmulatedKernel(c.backwardText()).run(backward)[0];
  outside(gradient, data.gradient, 0, 64);
  compare(c, gradient, data.gradient, c.width(), true, "gradient");
}

void expectSameBits(const AttentionCase &c) {
  AttentionData data = makeAttention(c);
  for (bool isForward : {true, false}) {
    EmulatedKernel kernel(isForward ? c.forwardText() : c.backwardText());
    ASSERT_TRUE(kernel.made());
    auto launch = [&](Schedule schedule, Copies copies) {
      return kernel.run(isForward ? forwardRun(c, data, schedule, copies)
                                  : backwardRun(c, data, schedule, copies));
    };
    auto expected = launch(Schedule::WarpAlone, Copies::Late);
    for (auto [schedule, copies] : {std::pair(Schedule::Random, Copies::Random),
                                    std::pair(Schedule::InOrder, Copies::Early)}) {
      auto found = launch(schedule, copies);
      for (size_t i = 0; i < found.size(); ++i) {
        EXPECT_EQ(std::memcmp(found[i].data(), expected[i].data(), found[i].size() * sizeof(float)),
                  0);
      }
    }
  }
}

/// Bitwise equal for any order of threads, blocks and copies.
TEST(CudaAttention, ResultsDoNotDependOnSchedules) {
  AttentionCase plainly{"schedules", 2, 140, 2, 1, 32, 131, 2, causal(), softCap(2), true, 0.125f};
  AttentionCase byDistance{"schedules, terms", 1, 70, 1, 1, 16, 69, 1, causal(), plain};
  plainly.bf16 = byDistance.bf16 = true;
  expectSameBits(plainly);
  expectSameBits(withTerms(byDistance, true, 20));
}

void checkAssembly(int64_t head, bool everything) {
  AttentionCase c{"assembly", 8,
                  1024,       8,
                  4,          head,
                  1024,       8,
                  causal(),   everything ? softCap(30) : scaled(0.125),
                  everything, everything ? 0.1f : 0.0f};
  c.bf16 = true;
  std::string what =
      "head of " + std::to_string(head) + (everything ? " with rotary, soft cap, dropout" : "");
  for (const std::string &text : {c.forwardText(), c.backwardText()}) {
    std::cout << what << ":\n";
    GeneratedKernel(text).checkAssembly({"mma.sync.aligned.m16n8k16", "ldmatrix"});
  }
}

/// Columns that fill no whole vectors, in one block and in two; then as many registers as there
/// are. Narrower heads have fewer.
TEST(CudaAttention, Assembles) {
  for (int64_t head : {5, 96, 128, 200}) {
    checkAssembly(head, /*everything=*/false);
  }
}

TEST(CudaAttention, AssemblesWithTermsByDistance) {
  AttentionCase wide{"assembly", 8, 1024, 8, 4, 256, 1024, 8, causal(), scaled(0.125), false, 0.1f},
      narrow = acrossScales(4, 1, /*isComplete=*/true, 40);
  narrow.head = 64;
  for (AttentionCase some : {withTerms(wide, true, 32), narrow}) {
    some.bf16 = true;
    for (const std::string &text : {some.forwardText(), some.backwardText()}) {
      GeneratedKernel(text).checkAssembly({"mma.sync.aligned.m16n8k16", "ldmatrix"});
    }
  }
}

TEST(CudaAttention, AssemblesWithEverything) {
  for (int64_t head : {64, 88, 100, 256}) {
    checkAssembly(head, /*everything=*/true);
  }
}

} // namespace
