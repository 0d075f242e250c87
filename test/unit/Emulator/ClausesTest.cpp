// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An injected fault for each clause of the violation table (docs/emulator.md) without one in the
// other tests.
#include "FaultyKernel.h"

#include "gtest/gtest.h"

using namespace sluice;
using namespace sluice::test;
using namespace sluice::emulator;

namespace {

const char *const shared = "@s = internal addrspace(3) global [256 x float] undef, align 16\n";
const char *const table = "@t = internal addrspace(4) constant [4 x float] "
                          "[float 1.0, float 2.0, float 3.0, float 4.0], align 4\n";
const char *const matrices = "declare i32 @llvm.nvvm.ldmatrix.sync.aligned.m8n8.x1.b16.p3("
                             "ptr addrspace(3))\n";
const char *const mbarrier = "@m = internal addrspace(3) global i64 undef, align 8\n";

} // namespace

TEST(BoundsClause, ReportsReadPastAConstantTable) {
  expectCaught({R"(
-  %i = and i64 %tid, 7
+  %i = and i64 %tid, 3
  %p = getelementptr float, ptr addrspace(4) @t, i64 %i
  %x = load float, ptr addrspace(4) %p, align 4
  %q = getelementptr float, ptr addrspace(1) %out, i64 %tid
  store float %x, ptr addrspace(1) %q, align 4)",
                ViolationKind::OutOfBounds, "%x = load float", table});
}

TEST(InitializationClause, ReportsCopyOfUnwrittenBytes) {
  FaultCase injected{R"(
  %q = getelementptr float, ptr addrspace(1) %out, i64 %tid
+  store float 1.0, ptr addrspace(1) %q, align 4
  %p = getelementptr float, ptr addrspace(3) @s, i64 %tid
  call void @llvm.nvvm.cp.async.ca.shared.global.4(ptr addrspace(3) %p, ptr addrspace(1) %q)
  call void @llvm.nvvm.cp.async.wait.all())",
                     ViolationKind::Uninitialized, "cp.async", shared};
  expectCaught(injected);
}

TEST(InitializationClause, ReportsMatrixLoadOfUnwrittenBytes) {
  expectCaught({R"(
  %p = getelementptr <4 x float>, ptr addrspace(3) @s, i64 %tid
+  store <4 x float> zeroinitializer, ptr addrspace(3) %p, align 16
+  call void @llvm.nvvm.bar.warp.sync(i32 -1)
  %x = call i32 @llvm.nvvm.ldmatrix.sync.aligned.m8n8.x1.b16.p3(ptr addrspace(3) %p))",
                ViolationKind::Uninitialized, "ldmatrix", std::string(shared) + matrices});
}

TEST(OutputsClause, ReportsSecondWriteOfAnOutput) {
  FaultCase injected{R"(
  %q = getelementptr float, ptr addrspace(1) %out, i64 %tid
  store float 3.0, ptr addrspace(1) %q, align 4
-  store float 3.0, ptr addrspace(1) %q, align 4)",
                     ViolationKind::WrittenTwice, "store float 3.0"};
  injected.writes = Writes::Once;
  expectCaught(injected);
}

/// The last of 64 threads to count itself reads values that the others wrote before: valid only if
/// the fences around the counting release and acquire.
TEST(RacesClause, AtomicsThatNeitherReleaseNorAcquire) {
  FaultCase injected{R"(
  %p = getelementptr float, ptr addrspace(3) @s, i64 %tid
  store float 1.0, ptr addrspace(3) %p, align 4
  %first = icmp eq i64 %tid, 0
  br i1 %first, label %zero, label %go
zero:
  store i32 0, ptr addrspace(3) @n, align 4
  br label %go
go:
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  store float 2.0, ptr addrspace(3) %p, align 4
+  fence syncscope("block") release
  %before = atomicrmw add ptr addrspace(3) @n, i32 1 syncscope("block") monotonic
+  fence syncscope("block") acquire
  %last = icmp eq i32 %before, 63
  br i1 %last, label %read, label %end
read:
  %mirror = sub i64 63, %tid
  %r = getelementptr float, ptr addrspace(3) @s, i64 %mirror
  %y = load float, ptr addrspace(3) %r, align 4
  br label %end
end:)",
                     ViolationKind::Race, "%y = load float",
                     std::string(shared) +
                         "@n = internal addrspace(3) global i32 undef, align 4\n"};
  expectCaught(injected);
}

TEST(RacesClause, TwoThreadsWriteOneByte) {
  expectCaught({R"(
-  %i = and i64 %tid, 31
+  %i = add i64 %tid, 0
  %p = getelementptr float, ptr addrspace(3) @s, i64 %i
  store float 1.0, ptr addrspace(3) %p, align 4)",
                ViolationKind::Race, "wrote here", shared});
}

TEST(BarriersClause, ReportsCountThatIsNotAMultipleOf32) {
  expectCaught({R"(
-  call void @llvm.nvvm.barrier.cta.sync.aligned.count(i32 1, i32 48)
+  call void @llvm.nvvm.barrier.cta.sync.aligned.count(i32 1, i32 64))",
                ViolationKind::BarrierDivergence, "found 48"});
}

TEST(LanesClause, ReportsShuffleFromExitedLane) {
  expectCaught({R"(
  %lane = and i64 %tid, 31
  %low = icmp ult i64 %lane, 16
  br i1 %low, label %go, label %end
go:
-  %x = call float @llvm.nvvm.shfl.sync.idx.f32(i32 65535, float 1.0, i32 20, i32 31)
+  %x = call float @llvm.nvvm.shfl.sync.idx.f32(i32 65535, float 1.0, i32 15, i32 31)
  br label %end
end:)",
                ViolationKind::AbsentLane, "shfl.sync.idx"});
}

TEST(MbarrierClause, ReportsSecondInitialization) {
  expectCaught({R"(
  %leader = icmp eq i64 %tid, 0
  br i1 %leader, label %start, label %end
start:
  call void @llvm.nvvm.mbarrier.init.shared(ptr addrspace(3) @m, i32 64)
-  call void @llvm.nvvm.mbarrier.init.shared(ptr addrspace(3) @m, i32 64)
  br label %end
end:)",
                ViolationKind::Mbarrier, "expected no initialized mbarrier", mbarrier});
}

/// A parameter that declares more than its pointer has, even if no access needs it.
TEST(AlignmentClause, PointerThatDiffersFromItsParameter) {
  FaultCase injected{"", ViolationKind::Misaligned, ""};
  injected.parameters = "ptr addrspace(1) align 16 %in, ptr addrspace(1) %out";
  auto emulator = compileKernel(kernelText(injected, false));
  ASSERT_TRUE(emulator);
  alignas(16) float numbers[132] = {};
  for (bool faulty : {false, true}) {
    float *in = numbers + (faulty ? 1 : 0);
    EmulatedLaunch launch;
    launch.block = {64, 1, 1};
    launch.buffers = {{"in", in, 256}, {"out", numbers + 66, 256, Writes::AtMostOnce}};
    launch.arguments = {reinterpret_cast<uint64_t>(in), reinterpret_cast<uint64_t>(numbers + 66)};
    Report report = emulator->launch(launch);
    ASSERT_EQ(report.passed(), !faulty) << report.str();
    if (faulty) {
      EXPECT_EQ(report.violations.front().kind, ViolationKind::Misaligned);
    }
  }
}

TEST(LimitsClause, ReportsGridsThatAreTooLarge) {
  FaultCase injected{"", ViolationKind::Limit, ""};
  auto emulator = compileKernel(kernelText(injected, false));
  ASSERT_TRUE(emulator);
  for (Dim3 grid : {Dim3{1, 65536, 1}, Dim3{1, 1, 65536}}) {
    injected.grid = grid;
    Report report = runKernel(*emulator, injected).report;
    ASSERT_FALSE(report.passed());
    EXPECT_EQ(report.violations.front().kind, ViolationKind::Limit) << report.str();
  }
}
