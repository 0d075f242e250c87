// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// CPU kernels over scheduled domains: rows, contractions and attention.
#include "StepCases.h"

using namespace sluice;
using namespace sluice::test;

namespace {

mlir::FailureOr<cpu::Kernel> generate(mlir::Operation *op, mlir::ModuleOp module,
                                      llvm::StringRef name, const cpu::Target &target) {
  return cpu::generateKernel(op, module, name, target);
}

Make on(const cpu::Target &target) {
  return [&target](const std::string &text) -> KernelRunner {
    auto kernel = std::make_shared<LoadedKernel>(text, target, generate);
    if (!kernel->loaded()) {
      return nullptr;
    }
    return [kernel](const std::vector<Floats> &operands) {
      return runTwice(*kernel, {.operands = operands});
    };
  };
}

TEST(StepRows, GroupsTablesAndPositionsThroughRings) {
  for (const cpu::Target *target : targets()) {
    for (int64_t width : {1, 7, 40}) {
      checkGroups(width, on(*target));
    }
  }
}

TEST(StepRows, SegmentsInRings) {
  for (const cpu::Target *target : targets()) {
    for (int64_t width : {1, 7, 40}) {
      checkSegmentRings(width, on(*target));
    }
  }
}

TEST(StepRows, IntegersAreExact) {
  for (const cpu::Target *target : targets()) {
    checkIntegers(on(*target));
  }
}

TEST(StepContract, ShapesAroundVectorsAndTiles) {
  for (const cpu::Target *target : targets()) {
    for (StepProduct c :
         {StepProduct{1, 1, 1, 1}, StepProduct{1, 1, 32, 48}, StepProduct{2, 1, 17, 15},
          StepProduct{3, 2, 33, 40}, StepProduct{8, 1, 64, 530}, StepProduct{4, 4, 40, 31},
          StepProduct{16, 1, 15, 33}, StepProduct{5, 4, 48, 16}}) {
      checkProduct(c, on(*target));
      c.half = true;
      checkProduct(c, on(*target));
    }
  }
}

TEST(StepContract, WeightsOfFewerBits) {
  for (const cpu::Target *target : wholeTargets()) {
    for (StepProduct c :
         {StepProduct{1, 1, 1, 1}, StepProduct{2, 1, 17, 15}, StepProduct{8, 1, 64, 530},
          StepProduct{4, 4, 40, 31}, StepProduct{16, 1, 135, 33}}) {
      for (const char *weight : {"i8", "bf16"}) {
        c.weight = weight;
        checkProduct(c, on(*target));
      }
      c.weight = "i8";
      checkWholeProduct(c, on(*target));
      c.half = true;
      checkProduct(c, on(*target));
    }
    for (int64_t inner : {4096, 8200}) {
      checkGreatestProduct(inner, on(*target));
    }
  }
}

TEST(StepContract, WeightsOfGroups) {
  for (const cpu::Target *target : wholeTargets()) {
    for (StepProduct c :
         {StepProduct{1, 1, 1, 1}, StepProduct{2, 1, 31, 17}, StepProduct{8, 1, 33, 530},
          StepProduct{4, 4, 70, 31}, StepProduct{16, 1, 288, 33}}) {
      c.half = c.inner == 33;
      c.heads = c.inner == 70 ? 3 : 0;
      c.weight = "i4";
      checkProduct(c, on(*target));
    }
    for (int64_t inner : {70, 288}) {
      checkWholeProduct({.batch = 4, .burst = 1, .inner = inner, .columns = 33, .weight = "i4"},
                        on(*target));
    }
  }
}

TEST(StepContract, RotatesByThePositionOfTheRow) {
  for (const cpu::Target *target : targets()) {
    checkProduct({.batch = 3, .burst = 2, .inner = 24, .columns = 56, .heads = 5, .head = 8},
                 on(*target));
    checkProduct({.batch = 1, .burst = 1, .inner = 16, .columns = 130, .heads = 3, .head = 40},
                 on(*target));
  }
}

TEST(StepAttention, CausalOverFullCapacity) {
  const std::vector<std::vector<Due>> schedules = {
      {{0, 1, 1}, {36, 1, 37}}, {{15, 1, 16}, {16, 1, 17}}, {{31, 0, 32}, {39, 1, 40}}};
  for (const cpu::Target *target : targets()) {
    checkDecode({2, 1, 2, 2, 32, 40, 1, causal(), scaled(0.18), false, schedules}, on(*target));
    checkDecode({2, 1, 4, 1, 8, 40, 1, causal(), softCap(2), false, schedules}, on(*target));
    checkDecode({2, 1, 3, 3, 21, 40, 1, causal(), linearBias(), false, schedules}, on(*target));
    checkDecode({2, 1, 4, 2, 16, 40, 1, causal(), scaled(0.25), true, schedules}, on(*target));
  }
}

/// Several queries at once at a coarse scale, and rings of a window.
TEST(StepAttention, BurstsAndWindowsInRings) {
  const std::vector<std::vector<Due>> bursts = {{{0, 3, 12}, {30, 2, 128}, {0, 0, 0}},
                                                {{13, 3, 63}, {7, 1, 31}, {37, 3, 160}}};
  const std::vector<std::vector<Due>> steps = {{{0, 1, 1}, {30, 1, 31}, {0, 0, 0}},
                                               {{13, 1, 14}, {7, 1, 8}, {100, 1, 101}}};
  for (const cpu::Target *target : targets()) {
    checkDecode({3, 3, 2, 1, 24, 40, 4, causal(), scaled(0.2), false, bursts}, on(*target));
    checkDecode({3, 1, 2, 2, 16, 5, 1, window(5), scaled(0.25), false, steps}, on(*target));
    checkDecode({3, 1, 2, 2, 16, 19, 1, window(19), scaled(0.25), false, steps}, on(*target));
  }
}

/// Rings of complete blocks of keys: the last block is full, has one key, or wraps to the ring's
/// front; and one of complete tiles, which wraps within a block. Rows after the valid length do not
/// count.
TEST(StepAttention, RingsOfCompleteBlocks) {
  const std::vector<std::vector<Due>> steps = {
      {{0, 1, 1}, {31, 1, 32}}, {{32, 1, 33}, {63, 1, 64}}, {{64, 1, 65}, {200, 1, 201}}};
  for (const cpu::Target *target : targets()) {
    checkDecode({2, 1, 2, 2, 32, 64, 1, window(40), scaled(0.18), false, steps}, on(*target));
    checkDecode({2, 1, 2, 1, 72, 64, 1, window(33), scaled(0.12), true, steps}, on(*target));
    checkDecode({2, 1, 1, 1, 130, 256, 1, causal(), scaled(0.1), false, steps}, on(*target));
    checkDecode({2, 1, 2, 2, 32, 48, 1, window(40), scaled(0.18), false, steps}, on(*target));
  }
}

/// Keys in several parts, combined in the workspace: empty parts, a part's first and last key, a
/// partial last block, heads in one group and in several, a window past its first pass of the ring.
TEST(StepAttention, CombinesPartsOfKeys) {
  const std::vector<std::vector<Due>> steps = {{{0, 1, 1}, {127, 1, 128}, {0, 0, 0}},
                                               {{128, 1, 129}, {255, 1, 256}, {0, 1, 1}},
                                               {{511, 1, 512}, {300, 1, 301}, {0, 0, 0}}};
  const std::vector<std::vector<Due>> bursts = {{{510, 2, 2048}, {127, 2, 516}}};
  const std::vector<std::vector<Due>> later = {{{700, 1, 701}, {1023, 1, 1024}}};
  for (const cpu::Target *target : targets()) {
    checkDecode({3, 1, 4, 4, 16, 512, 1, causal(), scaled(0.25), false, steps}, on(*target));
    checkDecode({3, 1, 6, 3, 21, 512, 1, causal(), linearBias(), true, steps}, on(*target));
    checkDecode({2, 2, 16, 16, 8, 512, 4, causal(), scaled(0.3), false, bursts}, on(*target));
    checkDecode({2, 1, 2, 1, 32, 512, 1, window(400), scaled(0.18), false, later}, on(*target));
    checkDecode({2, 1, 2, 2, 8, 331, 1, window(300), scaled(0.3), false, later}, on(*target));
  }
}

/// Rows by distance, biases, and both, of f32 and bf16, in rings of a window and of all.
TEST(StepAttention, TermsByDistance) {
  const std::vector<std::vector<Due>> steps = {{{0, 1, 1}, {30, 1, 31}, {0, 0, 0}},
                                               {{13, 2, 15}, {7, 1, 8}, {38, 2, 40}}};
  const std::vector<std::vector<Due>> late = {{{100, 1, 101}, {3, 1, 4}}};
  for (const cpu::Target *target : targets()) {
    checkDecode({3, 2, 4, 2, 21, 40, 1, causal(), softCap(2), true, steps, true, 9}, on(*target));
    checkDecode({2, 1, 2, 2, 16, 5, 1, window(5), scaled(0.25), true, late, true, 0}, on(*target));
    checkDecode({2, 1, 4, 2, 8, 128, 1, causal(), gated(0.5), false, late, true, 9}, on(*target));
    checkDecode({2, 1, 4, 1, 8, 128, 1, causal(), scaled(0.25), false, late, false, 50},
                on(*target));
  }
}

/// A text that fills at most half of the parts uses smaller ones: tests the last such length and
/// the next one, in rings of complete blocks and of others, with heads in several groups.
TEST(StepAttention, ShortTextsUseSmallerParts) {
  const std::vector<std::vector<Due>> large = {{{511, 1, 512}, {512, 1, 513}},
                                               {{999, 1, 1000}, {64, 1, 65}}};
  const std::vector<std::vector<Due>> uneven = {{{383, 1, 384}, {384, 1, 385}},
                                                {{47, 1, 48}, {703, 1, 704}}};
  const std::vector<std::vector<Due>> small = {{{63, 1, 64}, {64, 1, 65}},
                                               {{127, 1, 128}, {0, 1, 1}}};
  for (const cpu::Target *target : targets()) {
    checkDecode({2, 1, 2, 1, 32, 1024, 1, causal(), scaled(0.18), false, large}, on(*target));
    checkDecode({2, 1, 2, 2, 8, 704, 1, causal(), scaled(0.3), true, uneven}, on(*target));
    checkDecode({2, 1, 4, 4, 16, 128, 1, causal(), scaled(0.25), false, small}, on(*target));
  }
}

/// Keys of a named input, with a count: none, some and all, few and many; and of shared lines.
TEST(StepAttention, KeysByCount) {
  const std::vector<std::vector<Due>> steps = {{{0, 1, 1}, {3, 1, 4}, {70, 1, 71}}};
  for (const cpu::Target *target : targets()) {
    checkDecode({3, 1, 2, 1, 8, 5, 1, everything(), scaled(0.3), true, steps, false, 0, {0, 3, 5}},
                on(*target));
    Decode shared{3, 1, 2, 2, 64, 300, 1, everything(), scaled(0.12), true, steps};
    shared.counts = {300, 0, 129};
    shared.keyRows = {2, 0, 2};
    checkDecode(shared, on(*target));
  }
}

} // namespace
