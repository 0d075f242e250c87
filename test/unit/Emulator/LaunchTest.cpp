// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Valid launches, allowed instructions of a kernel, and counters.
#include "FaultyKernel.h"

#include "gtest/gtest.h"

using namespace sluice;
using namespace sluice::test;
using namespace sluice::emulator;

namespace {

/// Returns the reason for rejecting the module.
std::string refusal(const FaultCase &injected) {
  auto emulator = Emulator::create(kernelText(injected, false), "k");
  return emulator ? "accepted" : llvm::toString(emulator.takeError());
}

FaultCase withBody(const std::string &body, const std::string &globals = "") {
  return {body, ViolationKind::Limit, "", globals};
}

TEST(Refusal, RejectsUnknownInlineAssembly) {
  std::string message = refusal(withBody("  call void asm sideeffect \"brkpt;\", \"\"()"));
  EXPECT_NE(message.find("kernel 'k'"), std::string::npos) << message;
  EXPECT_NE(message.find("brkpt"), std::string::npos) << message;
}

TEST(Refusal, RejectsUnknownIntrinsicsAndFunctions) {
  std::string message = refusal(withBody("  %x = call i32 @llvm.nvvm.read.ptx.sreg.smid()",
                                         "declare i32 @llvm.nvvm.read.ptx.sreg.smid()\n"));
  EXPECT_NE(message.find("sreg.smid"), std::string::npos) << message;
  message = refusal(
      withBody("  %x = call float @__nv_expf(float 1.0)", "declare float @__nv_expf(float)\n"));
  EXPECT_NE(message.find("a kernel that calls no library"), std::string::npos) << message;
}

TEST(Refusal, RejectsStaticSharedMemoryOver48Kb) {
  std::string message =
      refusal(withBody("  store float 0.0, ptr addrspace(3) @s, align 4",
                       "@s = internal addrspace(3) global [12289 x float] undef, align 4\n"));
  EXPECT_NE(message.find("found 49156"), std::string::npos) << message;
}

TEST(Refusal, RejectsLocalArraysOver64Kb) {
  std::string message = refusal(withBody("  %local = alloca [16385 x float], align 4"));
  EXPECT_NE(message.find("at most 64 KB of local arrays"), std::string::npos) << message;
  EXPECT_NE(message.find("%local = alloca"), std::string::npos) << message;
}

TEST(Refusal, RejectsMissingKernelAndInvalidModule) {
  auto none = Emulator::create(kernelText(withBody(""), false), "other");
  ASSERT_FALSE(bool(none));
  EXPECT_NE(llvm::toString(none.takeError()).find("kernel 'other'"), std::string::npos);
  auto garbage = Emulator::create("not IR", "k");
  ASSERT_FALSE(bool(garbage));
  EXPECT_NE(llvm::toString(garbage.takeError()).find("expected LLVM IR"), std::string::npos);
}

/// The forms that MLIR 22 emits for nvvm.mbarrier.try_wait.parity and nvvm.barrier.arrive.
TEST(Refusal, AcceptsKnownInlineAssembly) {
  const char *body = R"(
  %first = icmp eq i64 %tid, 0
  br i1 %first, label %start, label %go
start:
  call void @llvm.nvvm.mbarrier.init.shared(ptr addrspace(3) @m, i32 1)
  %a = call i64 @llvm.nvvm.mbarrier.arrive.shared(ptr addrspace(3) @m)
  br label %go
go:
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  call void asm sideeffect "{\0A\09.reg .pred       P1; \0A\09LAB_WAIT: \0A\09mbarrier.try_wait.parity.shared.b64 P1, [$0], $1, $2; \0A\09@P1 bra.uni DONE; \0A\09bra.uni     LAB_WAIT; \0A\09DONE: \0A\09}", "r,r,r"(ptr addrspace(3) @m, i32 0, i32 1000)
  %low = icmp ult i64 %tid, 32
  br i1 %low, label %arrive, label %wait
arrive:
  call void asm sideeffect "bar.arrive $0, $1;", "r,r"(i32 1, i32 64)
  br label %end
wait:
  call void @llvm.nvvm.barrier.cta.sync.aligned.count(i32 1, i32 64)
  br label %end
end:)";
  FaultCase injected = withBody(body, "@m = internal addrspace(3) global i64 undef, align 8\n");
  auto emulator = compileKernel(kernelText(injected, false));
  ASSERT_TRUE(emulator);
  Report report = runKernel(*emulator, injected).report;
  EXPECT_TRUE(report.passed()) << report.str();
  EXPECT_EQ(report.counters.barriers, 2u);
}

std::string complaint(FaultCase injected) {
  auto emulator = compileKernel(kernelText(injected, false));
  return emulator ? runKernel(*emulator, injected).report.str() : "";
}

TEST(Limits, ReportsLimitsOfTheArchitecture) {
  FaultCase injected = withBody("  store float 0.0, ptr addrspace(3) @d, align 4",
                                "@d = external addrspace(3) global [0 x float], align 1024\n");
  injected.block = {1, 1, 1};
  injected.dynamicSharedBytes = 227 * 1024;
  EXPECT_EQ(complaint(injected), "");
  injected.dynamicSharedBytes += 16;
  EXPECT_NE(complaint(injected).find("limit: "), std::string::npos);
  injected.dynamicSharedBytes = 0;
  EXPECT_NE(complaint(injected).find("out of bounds: "), std::string::npos);
  injected = withBody("");
  injected.block = {1024, 1, 1};
  EXPECT_EQ(complaint(injected), "");
  injected.block = {1025, 1, 1};
  EXPECT_NE(complaint(injected).find("1025 x 1 x 1"), std::string::npos);
  injected.block = {32, 1, 1};
  injected.grid = {1, 65536, 1};
  EXPECT_NE(complaint(injected).find("limit: "), std::string::npos);
}

TEST(Limits, ReportsWrongArgumentsAndThreads) {
  FaultCase injected = withBody("");
  auto emulator = compileKernel(kernelText(injected, false));
  ASSERT_TRUE(emulator);
  EXPECT_NE(emulator->launch({}).str().find("expected 2 arguments, found 0"), std::string::npos);
  std::string text = kernelText(injected, false);
  text.replace(text.find("%out) {"), 7, "%out) \"nvvm.reqntid\"=\"128\" {");
  emulator = compileKernel(text);
  ASSERT_TRUE(emulator);
  EXPECT_NE(runKernel(*emulator, injected).report.str().find("nvvm.reqntid"), std::string::npos);
  injected.block = {128, 1, 1};
  EXPECT_TRUE(runKernel(*emulator, injected).report.passed());
}

/// A launch ends with its first fatal fault, and the emulator stays usable.
TEST(Limits, RunsLaunchAfterAFault) {
  FaultCase injected = withBody("  %i = add i64 %tid, %block\n"
                                "  %p = getelementptr float, ptr addrspace(1) %in, i64 %i\n"
                                "  %x = load float, ptr addrspace(1) %p, align 4");
  injected.grid = {2, 1, 1};
  auto emulator = compileKernel(kernelText(injected, false));
  ASSERT_TRUE(emulator);
  Report report = runKernel(*emulator, injected).report;
  ASSERT_EQ(report.violations.size(), 1u);
  EXPECT_EQ(report.violations[0].block, (Dim3{1, 0, 0}));
  EXPECT_EQ(report.violations[0].thread, (Dim3{63, 0, 0}));
  injected.grid = {1, 1, 1};
  EXPECT_TRUE(runKernel(*emulator, injected).report.passed());
}

/// A violation has the source location, if the module has one.
TEST(Limits, ReportsSourceLocation) {
  auto emulator = compileKernel(R"(
target triple = "nvptx64-nvidia-cuda"
define ptx_kernel void @k(ptr addrspace(1) %in, ptr addrspace(1) %out) !dbg !3 {
  %p = getelementptr float, ptr addrspace(1) %in, i64 64
  %x = load float, ptr addrspace(1) %p, align 4, !dbg !5
  ret void
}
!llvm.dbg.cu = !{!1}
!llvm.module.flags = !{!6}
!0 = !DIFile(filename: "kernel.mlir", directory: "/")
!1 = distinct !DICompileUnit(language: DW_LANG_C, file: !0, emissionKind: FullDebug)
!2 = !DISubroutineType(types: !{null})
!3 = distinct !DISubprogram(name: "k", scope: !0, file: !0, type: !2, unit: !1, spFlags: DISPFlagDefinition)
!5 = !DILocation(line: 12, column: 7, scope: !3)
!6 = !{i32 2, !"Debug Info Version", i32 3}
)");
  ASSERT_TRUE(emulator);
  Report report = runKernel(*emulator, withBody("")).report;
  ASSERT_EQ(report.violations.size(), 1u);
  EXPECT_EQ(report.violations[0].location, "kernel.mlir:12:7");
  EXPECT_EQ(report.violations[0].instruction, "%x = load float, ptr addrspace(1) %p, align 4");
}

/// Each lane stores and loads a float of shared memory, `stride` floats apart.
Counters countShared(int stride) {
  FaultCase injected =
      withBody("  %i = mul i64 %tid, " + std::to_string(stride) + R"(
  %p = getelementptr float, ptr addrspace(3) @s, i64 %i
  store float 1.0, ptr addrspace(3) %p, align 4
  %x = load float, ptr addrspace(3) %p, align 4)",
               "@s = internal addrspace(3) global [2112 x float] undef, align 4\n");
  auto emulator = compileKernel(kernelText(injected, false));
  return emulator ? runKernel(*emulator, injected).report.counters : Counters();
}

TEST(Traffic, CountsBankConflicts) {
  Counters none = countShared(1), odd = countShared(33), all = countShared(32);
  EXPECT_EQ(none.sharedRequests, 4u); // two warps, a store and a load
  EXPECT_EQ(none.sharedPasses, 4u);
  EXPECT_EQ(none.bankConflicts(), 0u);
  EXPECT_EQ(odd.bankConflicts(), 0u);
  EXPECT_EQ(all.sharedPasses, 4u * 32);
  EXPECT_EQ(all.bankConflicts(), 4u * 31);
  EXPECT_EQ(none.sharedWrittenBytes, 256u);
  EXPECT_EQ(none.sharedReadBytes, 256u);
}

TEST(Traffic, CountsSectorsOfARequest) {
  for (int stride : {1, 8, 0}) {
    FaultCase injected = withBody("  %i = mul i64 %tid, " + std::to_string(stride) + R"(
  %p = getelementptr float, ptr addrspace(1) %in, i64 %i
  %x = load float, ptr addrspace(1) %p, align 4)");
    injected.words = 8;
    auto emulator = compileKernel(kernelText(injected, false));
    ASSERT_TRUE(emulator);
    Counters counters = runKernel(*emulator, injected).report.counters;
    EXPECT_EQ(counters.globalRequests, 2u);
    EXPECT_EQ(counters.globalReadBytes, 256u);
    // 32 adjacent floats span 4 sectors, or 5 if the buffer is less aligned.
    uint64_t sectors = stride == 1 ? 4 : stride == 8 ? 32 : 1;
    EXPECT_GE(counters.globalSectors, 2 * sectors) << stride;
    EXPECT_LE(counters.globalSectors, 2 * sectors + 2) << stride;
    EXPECT_EQ(counters.leastSectors, stride ? 8u : 2u);
    ASSERT_EQ(counters.sites.size(), 1u);
    EXPECT_EQ(counters.sites[0].requests, 2u);
  }
}

TEST(Traffic, CountsExecutedBasicBlocks) {
  FaultCase injected = withBody(R"(
  %low = icmp ult i64 %tid, 10
  br i1 %low, label %few, label %end
few:
  br label %end
never:
  br label %end
end:)");
  auto emulator = compileKernel(kernelText(injected, false));
  ASSERT_TRUE(emulator);
  std::vector<BlockCount> coverage = runKernel(*emulator, injected).report.counters.coverage;
  ASSERT_EQ(coverage.size(), 4u);
  EXPECT_EQ(coverage[0].entered, 64u);
  EXPECT_EQ(coverage[1].name, "k:%few");
  EXPECT_EQ(coverage[1].entered, 10u);
  EXPECT_EQ(coverage[2].entered, 0u);
  EXPECT_EQ(coverage[3].entered, 64u);
}

} // namespace
