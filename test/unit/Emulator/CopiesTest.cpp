// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Asynchronous copies and mbarriers: their effects, and injected faults.
#include "FaultyKernel.h"

#include "gtest/gtest.h"

using namespace sluice;
using namespace sluice::test;
using namespace sluice::emulator;

namespace {

const char *const shared = "@s = internal addrspace(3) global [256 x float] undef, align 16\n";
const char *const mbarrier = "@m = internal addrspace(3) global i64 undef, align 8\n";

/// Each thread copies 16 bytes and reads its own.
std::string copyAndRead(const std::string &between, const std::string &after = "") {
  return R"(
  %four = mul i64 %tid, 4
  %g = getelementptr float, ptr addrspace(1) %in, i64 %four
  %p = getelementptr float, ptr addrspace(3) @s, i64 %four
  call void @llvm.nvvm.cp.async.cg.shared.global.16(ptr addrspace(3) %p, ptr addrspace(1) %g)
  call void @llvm.nvvm.cp.async.commit.group()
)" + between +
         R"(
  %x = load <4 x float>, ptr addrspace(3) %p, align 16
  %q = getelementptr float, ptr addrspace(1) %out, i64 %four
  store <4 x float> %x, ptr addrspace(1) %q, align 16
)" + after;
}

TEST(Copies, ReportsReadBeforeWait) {
  FaultCase injected{copyAndRead("+  call void @llvm.nvvm.cp.async.wait.group(i32 0)",
                                 "-  call void @llvm.nvvm.cp.async.wait.group(i32 0)"),
                     ViolationKind::UnwaitedCopy, "%x = load <4 x float>", shared, 4};
  injected.rightWhenEarly = true;
  expectCaught(injected);
}

TEST(Copies, ReportsWaitForWrongGroup) {
  FaultCase injected{copyAndRead("-  call void @llvm.nvvm.cp.async.wait.group(i32 1)\n"
                                 "+  call void @llvm.nvvm.cp.async.wait.group(i32 0)",
                                 "  call void @llvm.nvvm.cp.async.wait.all()"),
                     ViolationKind::UnwaitedCopy, "a copy that thread", shared, 4};
  injected.rightWhenEarly = true;
  expectCaught(injected);
}

/// A thread's own wait does not cover another thread's copy: a barrier must follow it.
TEST(Copies, ReportsBarrierBeforeWait) {
  FaultCase injected{R"(
  %four = mul i64 %tid, 4
  %g = getelementptr float, ptr addrspace(1) %in, i64 %four
  %p = getelementptr float, ptr addrspace(3) @s, i64 %four
  call void @llvm.nvvm.cp.async.cg.shared.global.16(ptr addrspace(3) %p, ptr addrspace(1) %g)
  call void @llvm.nvvm.cp.async.commit.group()
-  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  call void @llvm.nvvm.cp.async.wait.group(i32 0)
+  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  %other = xor i64 %four, 4
  %r = getelementptr float, ptr addrspace(3) @s, i64 %other
  %x = load <4 x float>, ptr addrspace(3) %r, align 16
  %q = getelementptr float, ptr addrspace(1) %out, i64 %four
  store <4 x float> %x, ptr addrspace(1) %q, align 16)",
                     ViolationKind::UnwaitedCopy, "", shared, 4};
  injected.rightWhenEarly = true;
  expectCaught(injected);
}

TEST(Copies, ReportsPendingCopiesAtEnd) {
  expectCaught({R"(
  %g = getelementptr float, ptr addrspace(1) %in, i64 %tid
  %p = getelementptr float, ptr addrspace(3) @s, i64 %tid
  call void @llvm.nvvm.cp.async.ca.shared.global.4(ptr addrspace(3) %p, ptr addrspace(1) %g)
+  call void @llvm.nvvm.cp.async.wait.all())",
                ViolationKind::PendingCopy, "before it ends", shared});
}

TEST(Copies, ReportsOverwrittenSource) {
  FaultCase injected{R"(
  %q = getelementptr float, ptr addrspace(1) %out, i64 %tid
  store float 1.0, ptr addrspace(1) %q, align 4
  %p = getelementptr float, ptr addrspace(3) @s, i64 %tid
  call void @llvm.nvvm.cp.async.ca.shared.global.4(ptr addrspace(3) %p, ptr addrspace(1) %q)
+  call void @llvm.nvvm.cp.async.wait.all()
  store float 2.0, ptr addrspace(1) %q, align 4
-  call void @llvm.nvvm.cp.async.wait.all())",
                     ViolationKind::UnwaitedCopy, "store float 2.0", shared};
  injected.writes = Writes::Any;
  expectCaught(injected);
}

/// A source size below 16 fills with zeros, and 0 reads nothing: past the end here.
TEST(Copies, ReportsPartialCopyPastTheEnd) {
  FaultCase injected{R"(
  %four = mul i64 %tid, 4
  %last = icmp eq i64 %tid, 63
  %from = select i1 %last, i64 100000, i64 %four
  %g = getelementptr float, ptr addrspace(1) %in, i64 %from
  %p = getelementptr float, ptr addrspace(3) @s, i64 %four
-  %size = select i1 %last, i32 4, i32 8
+  %size = select i1 %last, i32 0, i32 8
  call void @llvm.nvvm.cp.async.cg.shared.global.16.s(ptr addrspace(3) %p, ptr addrspace(1) %g, i32 %size)
  call void @llvm.nvvm.cp.async.wait.all()
  %x = load <4 x float>, ptr addrspace(3) %p, align 16
  %q = getelementptr float, ptr addrspace(1) %out, i64 %four
  store <4 x float> %x, ptr addrspace(1) %q, align 16)",
                     ViolationKind::OutOfBounds, "cp.async.cg", shared, 4};
  expectCaught(injected);
  auto emulator = compileKernel(kernelText(injected, false));
  ASSERT_TRUE(emulator);
  std::vector<float> out = runKernel(*emulator, injected).out;
  for (size_t i = 0; i < out.size(); ++i) {
    EXPECT_EQ(out[i], i < 252 && i % 4 < 2 ? float(i + 1) : 0.0f) << i;
  }
}

/// Copies of one thread, announced to an mbarrier, read by all threads that waited for its phase.
std::string viaMbarrier(const std::string &init, const std::string &wait) {
  return R"(
  %leader = icmp eq i64 %tid, 0
  br i1 %leader, label %start, label %go
start:
)" + init +
         R"(
  br label %go
go:
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  %g = getelementptr float, ptr addrspace(1) %in, i64 %tid
  %p = getelementptr float, ptr addrspace(3) @s, i64 %tid
  call void @llvm.nvvm.cp.async.ca.shared.global.4(ptr addrspace(3) %p, ptr addrspace(1) %g)
  call void @llvm.nvvm.cp.async.mbarrier.arrive.noinc.shared(ptr addrspace(3) @m)
)" + wait +
         R"(
  %mirror = sub i64 63, %tid
  %r = getelementptr float, ptr addrspace(3) @s, i64 %mirror
  %x = load float, ptr addrspace(3) %r, align 4
  %q = getelementptr float, ptr addrspace(1) %out, i64 %tid
  store float %x, ptr addrspace(1) %q, align 4
  call void @llvm.nvvm.cp.async.wait.all()
)";
}
const char *const initAll =
    "  call void @llvm.nvvm.mbarrier.init.shared(ptr addrspace(3) @m, i32 64)\n";
const char *const waitPhase =
    "  %w = call i1 @llvm.nvvm.mbarrier.try.wait.parity.scope.cta.space.cta("
    "ptr addrspace(3) @m, i32 0)\n";
const std::string both = std::string(shared) + mbarrier;

TEST(Mbarriers, ReportsMissingWait) {
  std::string wait = waitPhase;
  expectCaught({viaMbarrier(initAll, "+" + wait), ViolationKind::UnwaitedCopy, "", both});
}

TEST(Mbarriers, ReportsMissingInitialization) {
  std::string init = initAll;
  expectCaught({viaMbarrier("+" + init, waitPhase), ViolationKind::Mbarrier,
                "expected an initialized", both});
}

/// Every user of the object must be ordered after its initialization.
TEST(Mbarriers, ReportsUseBeforeBarrierAfterInitialization) {
  std::string text = viaMbarrier(initAll, waitPhase);
  std::string line = "  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)\n";
  auto without = text;
  without.replace(without.find(line), line.size(), "");
  FaultCase injected{without, ViolationKind::Mbarrier, "", both};
  auto emulator = compileKernel(kernelText(injected, true));
  ASSERT_TRUE(emulator);
  for (Schedule schedule : {Schedule::InOrder, Schedule::Random, Schedule::WarpAlone}) {
    Options options{.seed = 4, .schedule = schedule};
    EXPECT_FALSE(runKernel(*emulator, injected, options).report.passed());
  }
}

/// The last arrival comes too late for threads that were released already.
TEST(Mbarriers, ReportsCountOneThreadTooSmall) {
  expectCaught({viaMbarrier("-  call void @llvm.nvvm.mbarrier.init.shared(ptr addrspace(3) @m, "
                            "i32 63)\n+" +
                                std::string(initAll),
                            waitPhase),
                ViolationKind::UnwaitedCopy, "", both});
}

TEST(Mbarriers, ReportsTooManyArrivals) {
  expectCaught({R"(
  %leader = icmp eq i64 %tid, 0
  br i1 %leader, label %start, label %end
start:
  call void @llvm.nvvm.mbarrier.init.shared(ptr addrspace(3) @m, i32 3)
  %a = call i64 @llvm.nvvm.mbarrier.arrive.shared(ptr addrspace(3) @m)
-  %b = call i64 @llvm.nvvm.mbarrier.arrive.scope.cta.space.cta(ptr addrspace(3) @m, i32 3)
+  %b = call i64 @llvm.nvvm.mbarrier.arrive.scope.cta.space.cta(ptr addrspace(3) @m, i32 2)
  br label %end
end:)",
                ViolationKind::Mbarrier, "at most 2 more arrivals", mbarrier});
}

TEST(Mbarriers, ReportsTooFewArrivals) {
  expectCaught(
      {viaMbarrier("-  call void @llvm.nvvm.mbarrier.init.shared(ptr addrspace(3) @m, i32 65)\n"
                   "+" +
                       std::string(initAll),
                   waitPhase),
       ViolationKind::Mbarrier, "no thread is left to arrive", both});
}

TEST(Mbarriers, ReportsPlainReadOfTheObject) {
  expectCaught({viaMbarrier(initAll, std::string(waitPhase) +
                                         "-  %bits = load i64, ptr addrspace(3) @m, align 8\n"),
                ViolationKind::Mbarrier, "left to mbarrier instructions", both});
}

/// A thread that misses a phase waits for the parity of an older one.
TEST(Mbarriers, ReportsWaitTwoPhasesLate) {
  expectCaught({R"(
  %leader = icmp eq i64 %tid, 0
  br i1 %leader, label %start, label %go
start:
  call void @llvm.nvvm.mbarrier.init.shared(ptr addrspace(3) @m, i32 1)
  %a = call i64 @llvm.nvvm.mbarrier.arrive.shared(ptr addrspace(3) @m)
-  %b = call i64 @llvm.nvvm.mbarrier.arrive.shared(ptr addrspace(3) @m)
  br label %go
go:
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  %w = call i1 @llvm.nvvm.mbarrier.try.wait.parity.scope.cta.space.cta(ptr addrspace(3) @m, i32 0))",
                ViolationKind::Mbarrier, "phase 0 is 2 behind", mbarrier});
}

/// Transactions delay a phase until the same number of bytes has arrived.
TEST(Mbarriers, ReportsMissingTransactionBytes) {
  expectCaught({R"(
  %leader = icmp eq i64 %tid, 0
  br i1 %leader, label %start, label %go
start:
  call void @llvm.nvvm.mbarrier.init.shared(ptr addrspace(3) @m, i32 1)
  %a = call i64 @llvm.nvvm.mbarrier.arrive.expect.tx.scope.cta.space.cta(ptr addrspace(3) @m, i32 32)
-  call void @llvm.nvvm.mbarrier.complete.tx.scope.cta.space.cta(ptr addrspace(3) @m, i32 16)
+  call void @llvm.nvvm.mbarrier.complete.tx.scope.cta.space.cta(ptr addrspace(3) @m, i32 32)
  br label %go
go:
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  %w = call i1 @llvm.nvvm.mbarrier.try.wait.parity.scope.cta.space.cta(ptr addrspace(3) @m, i32 0))",
                ViolationKind::Mbarrier, "no thread is left to arrive", mbarrier});
}

} // namespace
