// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Injected memory faults: bounds, alignment, initialization, outputs, races.
#include "FaultyKernel.h"

#include "gtest/gtest.h"

using namespace sluice;
using namespace sluice::test;
using namespace sluice::emulator;

namespace {

const char *const shared = "@s = internal addrspace(3) global [64 x float] undef, align 4\n";

/// out[tid] = in[tid], through `index` of the load.
std::string copy(const std::string &index, const std::string &target = "%tid") {
  return index + "\n  %p = getelementptr float, ptr addrspace(1) %in, i64 %i\n" +
         "  %x = load float, ptr addrspace(1) %p, align 4\n" +
         "  %q = getelementptr float, ptr addrspace(1) %out, i64 " + target + "\n" +
         "  store float %x, ptr addrspace(1) %q, align 4\n";
}

TEST(Memory, ReportsReadPastTheEnd) {
  expectCaught({copy("-  %i = add i64 %tid, 1\n+  %i = add i64 %tid, 0"),
                ViolationKind::OutOfBounds, "address 'in' + 256 of 256 bytes"});
}

TEST(Memory, ReportsWriteBeforeTheBeginning) {
  expectCaught(
      {copy("  %i = add i64 %tid, 0\n-  %t = sub i64 %tid, 1\n+  %t = add i64 %tid, 0", "%t"),
       ViolationKind::OutOfBounds, "address 'out' - 4"});
}

TEST(Memory, ReportsWriteOfAnInput) {
  expectCaught({R"(
-  %q = getelementptr float, ptr addrspace(1) %in, i64 %tid
+  %q = getelementptr float, ptr addrspace(1) %out, i64 %tid
  store float 1.0, ptr addrspace(1) %q, align 4)",
                ViolationKind::OutOfBounds, "only read"});
}

/// Static shared memory has a gap after every global.
TEST(Memory, ReportsSharedReadOfTheNextArray) {
  expectCaught(
      {R"(
  %p = getelementptr float, ptr addrspace(3) @s, i64 %tid
  store float 1.0, ptr addrspace(3) %p, align 4
  %r = getelementptr float, ptr addrspace(3) @t, i64 %tid
  store float 2.0, ptr addrspace(3) %r, align 4
-  %n = getelementptr float, ptr addrspace(3) %p, i64 1
+  %n = getelementptr float, ptr addrspace(3) %p, i64 0
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  %x = load float, ptr addrspace(3) %n, align 4)",
       ViolationKind::OutOfBounds, "'s' + 256",
       std::string(shared) + "@t = internal addrspace(3) global [64 x float] undef, align 4\n"});
}

TEST(Memory, ReportsMisalignedVector) {
  FaultCase injected{R"(
-  %p = getelementptr float, ptr addrspace(1) %in, i64 %tid
+  %four = mul i64 %tid, 4
+  %p = getelementptr float, ptr addrspace(1) %in, i64 %four
  %x = load <4 x float>, ptr addrspace(1) %p, align 16)",
                     ViolationKind::Misaligned, "multiple of 16"};
  injected.words = 4;
  expectCaught(injected);
}

/// A global is at an odd multiple of its declared alignment, so no kernel passes by chance.
TEST(Memory, ReportsSharedArrayThatDeclaresTooLittle) {
  const char *body = "  %x = getelementptr <4 x float>, ptr addrspace(3) @s, i64 %tid\n"
                     "  store <4 x float> zeroinitializer, ptr addrspace(3) %x, align 16";
  FaultCase injected{body, ViolationKind::Misaligned, "multiple of 16",
                     "@s = internal addrspace(3) global [256 x float] undef, align 8\n"};
  auto faulty = compileKernel(kernelText(injected, true));
  ASSERT_TRUE(faulty);
  Report report = runKernel(*faulty, injected).report;
  ASSERT_FALSE(report.passed());
  EXPECT_EQ(report.violations[0].kind, ViolationKind::Misaligned) << report.str();
  injected.globals = "@s = internal addrspace(3) global [256 x float] undef, align 16\n";
  auto right = compileKernel(kernelText(injected, false));
  ASSERT_TRUE(right);
  EXPECT_TRUE(runKernel(*right, injected).report.passed());
}

TEST(Memory, ReportsSharedReadBeforeAnyWrite) {
  expectCaught({R"(
  %p = getelementptr float, ptr addrspace(3) @s, i64 %tid
+  store float 1.0, ptr addrspace(3) %p, align 4
  %x = load float, ptr addrspace(3) %p, align 4)",
                ViolationKind::Uninitialized, "%x = load float", shared});
}

TEST(Memory, ReportsReadOfAnUnwrittenOutput) {
  expectCaught({R"(
  %q = getelementptr float, ptr addrspace(1) %out, i64 %tid
+  store float 3.0, ptr addrspace(1) %q, align 4
  %x = load float, ptr addrspace(1) %q, align 4)",
                ViolationKind::Uninitialized, "address 'out' + "});
}

TEST(Memory, ReportsOutputWrittenTwice) {
  expectCaught({R"(
  %q = getelementptr float, ptr addrspace(1) %out, i64 %tid
  store float 3.0, ptr addrspace(1) %q, align 4
-  store float 4.0, ptr addrspace(1) %q, align 4)",
                ViolationKind::WrittenTwice, "store float 4.0"});
}

TEST(Memory, ReportsUnwrittenOutput) {
  FaultCase injected{R"(
-  %last = icmp eq i64 %tid, 63
+  %last = icmp eq i64 %tid, 64
  br i1 %last, label %end, label %go
go:
  %q = getelementptr float, ptr addrspace(1) %out, i64 %tid
  store float 3.0, ptr addrspace(1) %q, align 4
  br label %end
end:)",
                     ViolationKind::NeverWritten, "'out' + 252"};
  injected.writes = Writes::Once;
  expectCaught(injected);
}

const char *const reversed = R"(
  %mirror = sub i64 63, %tid
  %r = getelementptr float, ptr addrspace(3) @s, i64 %mirror
  %y = load float, ptr addrspace(3) %r, align 4
  %q = getelementptr float, ptr addrspace(1) %out, i64 %tid
  store float %y, ptr addrspace(1) %q, align 4
)";
const char *const fill = R"(
  %p = getelementptr float, ptr addrspace(3) @s, i64 %tid
  store float 1.0, ptr addrspace(3) %p, align 4
)";

TEST(Memory, ReportsMissingBarrier) {
  expectCaught({std::string(fill) +
                    "+  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)\n" + reversed,
                ViolationKind::Race, "", shared});
}

/// Lanes of one warp are separate threads: shuffles order nothing, bar.warp.sync does.
TEST(Memory, ReportsMissingWarpBarrier) {
  std::string body = std::string(fill) + R"(
+  call void @llvm.nvvm.bar.warp.sync(i32 -1)
-  %z = call i32 @llvm.nvvm.shfl.sync.bfly.i32(i32 -1, i32 0, i32 1, i32 31)
  %mirror = xor i64 %tid, 1
  %r = getelementptr float, ptr addrspace(3) @s, i64 %mirror
  %y = load float, ptr addrspace(3) %r, align 4)";
  expectCaught({body, ViolationKind::Race, "no barrier is between", shared});
}

/// A reused buffer: the next write must wait for the last reads.
TEST(Memory, ReportsMissingBarrierBeforeReuse) {
  std::string body = std::string(fill) +
                     "  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)\n" + reversed +
                     "+  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)\n" +
                     "  store float 2.0, ptr addrspace(3) %p, align 4\n";
  expectCaught({body, ViolationKind::Race, "", shared});
}

TEST(Memory, ReportsRaceInGlobalMemory) {
  FaultCase injected{R"(
  %q = getelementptr float, ptr addrspace(1) %out, i64 %tid
  store float 1.0, ptr addrspace(1) %q, align 4
+  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  %mirror = sub i64 63, %tid
  %r = getelementptr float, ptr addrspace(1) %out, i64 %mirror
  %y = load float, ptr addrspace(1) %r, align 4)",
                     ViolationKind::Race, "'out' + "};
  expectCaught(injected);
}

TEST(Memory, ReportsNonAtomicAdd) {
  FaultCase injected{R"(
  %first = icmp eq i64 %tid, 0
  br i1 %first, label %zero, label %go
zero:
  store i32 0, ptr addrspace(1) %out, align 4
  br label %go
go:
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
-  %x = load i32, ptr addrspace(1) %out, align 4
-  %y = add i32 %x, 1
-  store i32 %y, ptr addrspace(1) %out, align 4
+  %x = atomicrmw add ptr addrspace(1) %out, i32 1 monotonic)",
                     ViolationKind::Race, "'out' + 0"};
  injected.writes = Writes::Any;
  expectCaught(injected);
}

TEST(Memory, ReportsTwoBlocksWritingOneElement) {
  FaultCase injected{R"(
-  %i = add i64 %tid, 0
+  %first = mul i64 %block, 32
+  %i = add i64 %tid, %first
  %q = getelementptr float, ptr addrspace(1) %out, i64 %i
  store float 1.0, ptr addrspace(1) %q, align 4)",
                     ViolationKind::BlockConflict, "wrote it"};
  injected.grid = {2, 1, 1};
  injected.block = {32, 1, 1};
  injected.writes = Writes::Any;
  expectCaught(injected);
}

TEST(Memory, ReportsReadOfBytesOfAnotherBlock) {
  FaultCase injected{R"(
  %q = getelementptr float, ptr addrspace(1) %out, i64 %block
  store float 1.0, ptr addrspace(1) %q, align 4
-  %other = xor i64 %block, 1
+  %other = xor i64 %block, 0
  %p = getelementptr float, ptr addrspace(1) %out, i64 %other
  %x = load float, ptr addrspace(1) %p, align 4)",
                     ViolationKind::BlockConflict, "expected a byte that no other block"};
  injected.grid = {2, 1, 1};
  injected.block = {1, 1, 1};
  expectCaught(injected);
}

TEST(Memory, ReportsAliasOfNoaliasArguments) {
  std::string body = copy("  %i = add i64 %tid, 0");
  FaultCase injected{body, ViolationKind::AliasedArguments, ""};
  injected.parameters = "ptr addrspace(1) noalias %in, ptr addrspace(1) noalias %out";
  auto emulator = compileKernel(kernelText(injected, false));
  ASSERT_TRUE(emulator);
  EXPECT_TRUE(runKernel(*emulator, injected).report.passed());
  std::vector<float> both(96);
  EmulatedLaunch launch;
  launch.block = {64, 1, 1};
  launch.buffers = {{"in", both.data(), 256}, {"out", both.data() + 32, 256, Writes::AtMostOnce}};
  launch.arguments = {reinterpret_cast<uint64_t>(both.data()),
                      reinterpret_cast<uint64_t>(both.data() + 32)};
  Report report = emulator->launch(launch);
  ASSERT_EQ(report.violations.size(), 1u) << report.str();
  EXPECT_EQ(report.violations[0].kind, ViolationKind::AliasedArguments);
  EXPECT_NE(report.violations[0].message.find("'in' and 'out'"), std::string::npos);
}

} // namespace
