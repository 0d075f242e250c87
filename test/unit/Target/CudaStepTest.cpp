// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// CUDA kernels over scheduled domains, on the emulator.
#include "EmulatedKernel.h"
#include "StepCases.h"

using namespace sluice;
using namespace sluice::test;

namespace {

KernelRunner emulated(const std::string &text) {
  auto kernel = std::make_shared<EmulatedKernel>(text);
  if (!kernel->made()) {
    return nullptr;
  }
  return
      [kernel](const std::vector<Floats> &operands) { return kernel->run({.operands = operands}); };
}

/// Weights and keys go 16 bytes at a time.
TEST(CudaStep, AssembledWithoutSpills) {
  const char *wide = "ld.global.v4";
  for (StepProduct c : {StepProduct{1, 1, 512, 512}, StepProduct{8, 4, 512, 2048}}) {
    c.half = true;
    c.heads = 2;
    GeneratedKernel(c.text()).checkAssembly({wide});
  }
  for (int64_t head : {64, 256, 250}) {
    Decode c{2, 2, 4, 2, head, 512, 1, causal(), softCap(30), true, {}};
    GeneratedKernel(c.text()).checkAssembly({head == 250 ? "ld.global" : wide});
  }
  Decode terms{2, 2, 4, 2, 64, 512, 1, causal(), softCap(30), true, {}, true, 32};
  GeneratedKernel(terms.text()).checkAssembly({wide});
}

/// Memory accesses use complete sectors, and read each weight, key and value once.
void expectLeastTraffic(const std::string &text, const std::vector<Floats> &operands) {
  EmulatedKernel kernel(text);
  ASSERT_TRUE(kernel.made());
  kernel.run({.operands = operands});
  const emulator::Counters &counted = kernel.reports.at(0).counters;
  EXPECT_GE(double(counted.leastSectors), 0.9 * double(counted.globalSectors));
  double bytes = double(counted.distinctReadBytes + counted.distinctWrittenBytes);
  EXPECT_NEAR(bytes, kernel.kernel().bytes, 0.05 * kernel.kernel().bytes);
}

TEST(CudaStep, ReadsCompleteSectors) {
  StepProduct c{1, 1, 512, 512};
  c.half = true;
  expectLeastTraffic(c.text(), {randomFloats(c.input().elements(), 1),
                                randomFloats(512 * 512, 2),
                                randomFloats(512, 3),
                                randomFloats(c.residual().elements(), 4),
                                {3, 1, 4}});
  Decode d{1, 1, 2, 2, 64, 128, 1, causal(), scaled(0.12), true, {}};
  Floats keys = randomFloats(d.key().elements(), 6);
  expectLeastTraffic(d.text(), {randomFloats(d.query().elements(), 5), keys, keys, {127, 1, 128}});
}

TEST(CudaStepRows, GroupsTablesAndPositionsThroughRings) {
  for (int64_t width : {1, 7, 40, 520}) {
    checkGroups(width, emulated);
  }
}

TEST(CudaStepRows, SegmentsInRings) {
  for (int64_t width : {1, 7, 40}) {
    checkSegmentRings(width, emulated);
  }
}

TEST(CudaStepRows, IntegersAreExact) { checkIntegers(emulated); }

TEST(CudaStepContract, ShapesAroundVectorsAndBlocks) {
  for (StepProduct c :
       {StepProduct{1, 1, 1, 1}, StepProduct{1, 1, 32, 48}, StepProduct{2, 1, 17, 15},
        StepProduct{3, 2, 36, 40}, StepProduct{8, 1, 264, 530}, StepProduct{4, 4, 40, 31},
        StepProduct{1, 5, 512, 2200}}) {
    c.half = true;
    checkProduct(c, emulated);
  }
}

TEST(CudaStepContract, WeightsOfWholeNumbers) {
  for (StepProduct c :
       {StepProduct{1, 1, 1, 1}, StepProduct{3, 2, 36, 40}, StepProduct{8, 1, 264, 530}}) {
    c.half = true;
    c.weight = "i8";
    checkProduct(c, emulated);
  }
}

TEST(CudaStepContract, WeightsOfGroups) {
  for (StepProduct c :
       {StepProduct{1, 1, 1, 1}, StepProduct{2, 1, 31, 17}, StepProduct{3, 2, 33, 40},
        StepProduct{4, 1, 70, 17}, StepProduct{8, 1, 264, 530}}) {
    c.half = true;
    c.weight = "i4";
    checkProduct(c, emulated);
  }
  checkProduct({.batch = 3,
                .burst = 2,
                .inner = 24,
                .columns = 56,
                .heads = 5,
                .head = 8,
                .half = true,
                .weight = "i4"},
               emulated);
}

TEST(CudaStepContract, RotatesByThePositionOfTheRow) {
  checkProduct(
      {.batch = 3, .burst = 2, .inner = 24, .columns = 56, .heads = 5, .head = 8, .half = true},
      emulated);
  checkProduct(
      {.batch = 1, .burst = 1, .inner = 16, .columns = 130, .heads = 3, .head = 42, .half = true},
      emulated);
}

TEST(CudaStepAttention, CausalOverFullCapacity) {
  const std::vector<std::vector<Due>> schedules = {
      {{0, 1, 1}, {36, 1, 37}}, {{15, 1, 16}, {16, 1, 17}}, {{31, 0, 32}, {39, 1, 40}}};
  checkDecode({2, 1, 2, 2, 32, 40, 1, causal(), scaled(0.18), true, schedules}, emulated);
  checkDecode({2, 1, 4, 1, 8, 40, 1, causal(), softCap(2), true, schedules}, emulated);
  checkDecode({2, 1, 3, 3, 21, 40, 1, causal(), linearBias(), true, schedules}, emulated);
  checkDecode({2, 1, 4, 2, 66, 40, 1, causal(), scaled(0.12), true, schedules}, emulated);
}

/// Many keys per team, several iterations; several blocks per query, one of which may have no key.
TEST(CudaStepAttention, LongContexts) {
  checkDecode({1, 1, 1, 1, 256, 70, 1, causal(), scaled(0.06), true, {{{69, 1, 70}}}}, emulated);
  const std::vector<std::vector<Due>> schedules = {{{699, 1, 700}}, {{5, 1, 6}}, {{0, 0, 0}}};
  checkDecode({1, 1, 2, 1, 64, 700, 1, causal(), scaled(0.12), true, schedules}, emulated);
  checkDecode({1, 1, 1, 1, 128, 300, 1, window(300), softCap(3), true, {{{811, 1, 812}}}},
              emulated);
}

/// Rows by distance, biases, and both, in rings of a window and of all.
TEST(CudaStepAttention, TermsByDistance) {
  const std::vector<std::vector<Due>> steps = {{{0, 1, 1}, {30, 1, 31}, {0, 0, 0}},
                                               {{13, 2, 15}, {7, 1, 8}, {38, 2, 40}}};
  Decode c{3, 2, 4, 2, 21, 40, 1, causal(), softCap(2), true, steps, true, 9};
  checkDecode(c, emulated);
  c.biasRows = 0;
  checkDecode(c, emulated);
  const std::vector<std::vector<Due>> late = {{{100, 1, 101}, {3, 1, 4}}};
  checkDecode({2, 1, 2, 2, 16, 5, 1, window(5), scaled(0.25), true, late, true, 3}, emulated);
  checkDecode({2, 1, 4, 1, 8, 128, 1, causal(), scaled(0.25), true, late, false, 50}, emulated);
  checkDecode({2, 1, 4, 2, 8, 128, 1, causal(), gated(0.5), true, late, true, 9}, emulated);
}

/// Several queries at once at a coarse scale, and rings that hold a window.
TEST(CudaStepAttention, BurstsAndWindowsInRings) {
  const std::vector<std::vector<Due>> bursts = {{{0, 3, 12}, {30, 2, 128}, {0, 0, 0}},
                                                {{13, 3, 63}, {7, 1, 31}, {37, 3, 160}}};
  const std::vector<std::vector<Due>> steps = {{{0, 1, 1}, {30, 1, 31}, {0, 0, 0}},
                                               {{13, 1, 14}, {7, 1, 8}, {100, 1, 101}}};
  checkDecode({3, 3, 2, 1, 24, 40, 4, causal(), scaled(0.2), true, bursts}, emulated);
  checkDecode({3, 1, 2, 2, 16, 5, 1, window(5), scaled(0.25), true, steps}, emulated);
  checkDecode({3, 1, 2, 2, 256, 19, 1, window(19), scaled(0.06), true, steps}, emulated);
}

/// Keys of a named input, with a count: none, some and all, few and many; and of shared lines.
TEST(CudaStepAttention, KeysByCount) {
  const std::vector<std::vector<Due>> steps = {{{0, 1, 1}, {3, 1, 4}, {70, 1, 71}}};
  checkDecode({3, 1, 2, 1, 8, 5, 1, everything(), scaled(0.3), true, steps, false, 0, {0, 3, 5}},
              emulated);
  Decode shared{3, 1, 2, 2, 64, 300, 1, everything(), scaled(0.12), true, steps};
  shared.counts = {300, 0, 129};
  shared.keyRows = {2, 0, 2};
  checkDecode(shared, emulated);
}

} // namespace
