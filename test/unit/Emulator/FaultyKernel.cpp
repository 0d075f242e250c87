// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs injected faults under every schedule.
#include "FaultyKernel.h"

#include "gtest/gtest.h"
#include <numeric>
#include <sstream>

using namespace sluice;
using namespace sluice::test;
using namespace sluice::emulator;

static const char *const prelude = R"(
target datalayout = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32)
declare void @llvm.nvvm.barrier.cta.sync.aligned.count(i32, i32)
declare void @llvm.nvvm.barrier.cta.arrive.aligned.count(i32, i32)
declare void @llvm.nvvm.bar.warp.sync(i32)
declare i32 @llvm.nvvm.shfl.sync.bfly.i32(i32, i32, i32, i32)
declare float @llvm.nvvm.shfl.sync.idx.f32(i32, float, i32, i32)
declare i32 @llvm.nvvm.shfl.sync.up.i32(i32, i32, i32, i32)
declare {i32, i1} @llvm.nvvm.shfl.sync.down.i32p(i32, i32, i32, i32)
declare i32 @llvm.nvvm.vote.ballot.sync(i32, i1)
declare i1 @llvm.nvvm.vote.all.sync(i32, i1)
declare void @llvm.nvvm.cp.async.ca.shared.global.4(ptr addrspace(3), ptr addrspace(1))
declare void @llvm.nvvm.cp.async.cg.shared.global.16(ptr addrspace(3), ptr addrspace(1))
declare void @llvm.nvvm.cp.async.cg.shared.global.16.s(ptr addrspace(3), ptr addrspace(1), i32)
declare void @llvm.nvvm.cp.async.commit.group()
declare void @llvm.nvvm.cp.async.wait.group(i32)
declare void @llvm.nvvm.cp.async.wait.all()
declare void @llvm.nvvm.cp.async.mbarrier.arrive.noinc.shared(ptr addrspace(3))
declare void @llvm.nvvm.mbarrier.init.shared(ptr addrspace(3), i32)
declare void @llvm.nvvm.mbarrier.inval.shared(ptr addrspace(3))
declare i64 @llvm.nvvm.mbarrier.arrive.shared(ptr addrspace(3))
declare i64 @llvm.nvvm.mbarrier.arrive.scope.cta.space.cta(ptr addrspace(3), i32)
declare i1 @llvm.nvvm.mbarrier.test.wait.shared(ptr addrspace(3), i64)
declare i1 @llvm.nvvm.mbarrier.try.wait.parity.scope.cta.space.cta(ptr addrspace(3), i32)
declare i64 @llvm.nvvm.mbarrier.arrive.expect.tx.scope.cta.space.cta(ptr addrspace(3), i32)
declare void @llvm.nvvm.mbarrier.complete.tx.scope.cta.space.cta(ptr addrspace(3), i32)
declare void @llvm.nvvm.membar.cta()
)";

std::string test::kernelText(const FaultCase &injected, bool faulty) {
  std::string result =
      prelude + injected.globals + "\ndefine ptx_kernel void @k(" + injected.parameters + R"() {
  %tid32 = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %tid = zext i32 %tid32 to i64
  %block32 = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %block = zext i32 %block32 to i64
)";
  std::istringstream lines(injected.body);
  for (std::string line; std::getline(lines, line);) {
    bool marked = !line.empty() && (line[0] == '-' || line[0] == '+');
    if (!marked) {
      result += line + "\n";
    } else if ((line[0] == '-') == faulty) {
      result += line.substr(1) + "\n";
    }
  }
  return result + "  ret void\n}\n";
}

std::unique_ptr<Emulator> test::compileKernel(const std::string &text) {
  auto emulator = Emulator::create(text, "k");
  if (!emulator) {
    ADD_FAILURE() << llvm::toString(emulator.takeError()) << text;
    return nullptr;
  }
  return std::move(*emulator);
}

PlantedOutcome test::runKernel(Emulator &emulator, const FaultCase &injected,
                               const Options &options) {
  size_t count = 64 * injected.words;
  constexpr size_t gap = 64; // after each operand: an access past its end is then in no buffer
  std::vector<float> in(count + gap);
  std::iota(in.begin(), in.end(), 1.0f);
  PlantedOutcome outcome{{}, std::vector<float>(count + gap, -1.0f)};
  EmulatedLaunch launch;
  launch.grid = injected.grid;
  launch.block = injected.block;
  launch.dynamicSharedBytes = injected.dynamicSharedBytes;
  launch.arguments = {reinterpret_cast<uint64_t>(in.data()),
                      reinterpret_cast<uint64_t>(outcome.out.data())};
  launch.buffers = {{"in", in.data(), count * 4},
                    {"out", outcome.out.data(), count * 4, injected.writes, false}};
  std::vector<uint32_t> counters(injected.counters);
  if (injected.counters > 0) {
    launch.arguments.push_back(reinterpret_cast<uint64_t>(counters.data()));
    launch.buffers.push_back({"counters", counters.data(), injected.counters * 4, Writes::Any});
  }
  outcome.report = emulator.launch(launch, options);
  outcome.out.resize(count);
  return outcome;
}

static const Violation *find(const Report &report, ViolationKind kind) {
  for (const Violation &violation : report.violations) {
    if (violation.kind == kind) {
      return &violation;
    }
  }
  return nullptr;
}

void test::expectCaught(const FaultCase &injected) {
  auto faulty = compileKernel(kernelText(injected, true));
  auto right = compileKernel(kernelText(injected, false));
  ASSERT_TRUE(faulty && right);
  std::vector<float> expected;
  for (Schedule schedule : {Schedule::InOrder, Schedule::Random, Schedule::WarpAlone}) {
    for (Copies copies : {Copies::Early, Copies::Late, Copies::Random}) {
      Options options;
      options.seed = uint64_t(schedule) * 3 + uint64_t(copies);
      options.schedule = schedule;
      options.copies = copies;
      PlantedOutcome good = runKernel(*right, injected, options);
      EXPECT_TRUE(good.report.passed()) << "seed " << options.seed << "\n" << good.report.str();
      if (expected.empty()) {
        expected = good.out;
      }
      EXPECT_EQ(good.out, expected) << "seed " << options.seed;
      PlantedOutcome bad = runKernel(*faulty, injected, options);
      const Violation *found = find(bad.report, injected.kind);
      ASSERT_TRUE(found) << "seed " << options.seed << ": not caught; found\n" << bad.report.str();
      EXPECT_EQ(found->kernel, "k");
      EXPECT_NE(found->str().find(injected.says), std::string::npos) << found->str();
      if (injected.rightWhenEarly && copies == Copies::Early) {
        EXPECT_EQ(bad.out, expected);
      }
    }
  }
}
