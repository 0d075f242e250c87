// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products of a warpgroup (wgmma): injected faults. Numbers and layouts are tested with the kernels
// that use them (CudaContractTest.cpp, CudaWeightGradientTest.cpp).
#include "FaultyKernel.h"

#include "gtest/gtest.h"

using namespace sluice;
using namespace sluice::test;
using namespace sluice::emulator;

namespace {

/// The left factor, 64 lines of 32 bytes, and the right one, 8 lines.
const char *const shared = R"(
@s = internal addrspace(3) global [2560 x i8] undef, align 1024
declare void @llvm.nvvm.fence.proxy.async.shared_cta()
declare void @llvm.nvvm.wgmma.commit_group.sync.aligned()
declare void @llvm.nvvm.wgmma.wait_group.sync.aligned(i64)
)";

/// A line of a `tied` instruction that sums of an m64n8k16 product pass through.
std::string pass(const std::string &name, const std::string &from, const std::string &text,
                 const std::string &more = "", const std::string &constraints = "") {
  std::string line = "  %" + name + " = call {float, float, float, float} asm sideeffect \"" +
                     text + "\", \"=f,=f,=f,=f,0,1,2,3," + constraints + "~{memory}\"(";
  for (int i = 0; i < 4; ++i) {
    line += (i ? ", float " : "float ") + (from.empty() ? "0.0" : "%" + from + std::to_string(i));
  }
  return line + more + ")\n";
}
std::string extract(const std::string &name) {
  std::string lines;
  for (char i : {'0', '1', '2', '3'}) {
    lines += "  %" + name + i + " = extractvalue {float, float, float, float} %" + name + ", " + i +
             "\n";
  }
  return lines;
}

const std::string publish = "  call void @llvm.nvvm.fence.proxy.async.shared_cta()\n",
                  barrier = "  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)\n",
                  commit = "  call void @llvm.nvvm.wgmma.commit_group.sync.aligned()\n",
                  start = pass("f", "", "wgmma.fence.sync.aligned;") + extract("f"),
                  wait = pass("w", "m", "wgmma.wait_group.sync.aligned 0;") + extract("w"),
                  overwrite = "  store i32 0, ptr addrspace(3) %q, align 4\n";

/// Every thread stores ones of bf16.
const std::string fill = R"(
  %p = getelementptr <4 x i32>, ptr addrspace(3) @s, i64 %tid
  store <4 x i32> <i32 1065369472, i32 1065369472, i32 1065369472, i32 1065369472>, ptr addrspace(3) %p, align 16
  %words = add i64 %tid, 512
  %q = getelementptr i32, ptr addrspace(3) @s, i64 %words
  store i32 1065369472, ptr addrspace(3) %q, align 4
)";

/// Descriptors of lines of 32 bytes, swizzled by `mode`.
std::string multiply(const std::string &from = "f",
                     const std::string &mode = "-4611685949707845632") {
  return "  %base = ptrtoint ptr addrspace(3) @s to i64\n  %low = lshr i64 %base, 4\n"
         "  %field = and i64 %low, 16383\n  %a = or i64 %field, " +
         mode + "\n  %b = add i64 %a, 128\n" +
         pass("m", from,
              "{ .reg .pred p; setp.ne.b32 p, 1, 0; wgmma.mma_async.sync.aligned.m64n8k16.f32."
              "bf16.bf16 {$0, $1, $2, $3}, $8, $9, p, 1, 1, 0, 0; }",
              ", i64 %a, i64 %b", "l,l,") +
         extract("m");
}

std::string storeSums(const std::string &name) {
  std::string lines = "  %o = getelementptr <4 x float>, ptr addrspace(1) %out, i64 %tid\n";
  for (char i : {'0', '1', '2', '3'}) {
    lines += std::string("  %o") + i + " = getelementptr float, ptr addrspace(1) %o, i64 " + i +
             "\n  store float %" + name + i + ", ptr addrspace(1) %o" + i + ", align 4\n";
  }
  return lines;
}

/// Marks each line of a text as in the faulty kernel alone ('-') or in the right one alone ('+').
std::string mark(char mark, const std::string &lines) {
  std::string marked;
  for (size_t i = 0; i < lines.size(); ++i) {
    marked += i == 0 || lines[i - 1] == '\n' ? std::string(1, mark) : "";
    marked += lines[i];
  }
  return marked;
}

void expectFault(const std::string &body, ViolationKind kind, const std::string &says) {
  FaultCase injected{body, kind, says, shared, 8};
  injected.block = {128, 1, 1};
  expectCaught(injected);
}

TEST(Products, ReportsMissingProxyFence) {
  expectFault(fill + mark('+', publish) + barrier + start + multiply() + commit + wait +
                  storeSums("w"),
              ViolationKind::UnfencedProduct, "no fence.proxy.async is between");
}

/// A fence before the stores does not count.
TEST(Products, ReportsProxyFenceBeforeTheStores) {
  expectFault(mark('-', publish) + fill + mark('+', publish) + barrier + start + multiply() +
                  commit + wait + storeSums("w"),
              ViolationKind::UnfencedProduct, "no fence.proxy.async is between");
}

TEST(Products, ReportsMissingBarrier) {
  expectFault(fill + publish + mark('+', barrier) + start + multiply() + commit + wait +
                  storeSums("w"),
              ViolationKind::Race, "no barrier is between");
}

TEST(Products, ReportsMissingRegisterFence) {
  std::string unfenced = "  %none = fadd float 0.0, 0.0\n";
  for (char i : {'0', '1', '2', '3'}) {
    unfenced += std::string("  %f") + i + " = fadd float 0.0, 0.0\n";
  }
  expectFault(fill + publish + barrier + mark('-', unfenced) + mark('+', start) + multiply() +
                  commit + wait + storeSums("w"),
              ViolationKind::UnfencedProduct, "expected a wgmma.fence");
}

TEST(Products, ReportsOverwritingBeforeTheWait) {
  expectFault(fill + publish + barrier + start + multiply() + commit + mark('-', overwrite) + wait +
                  barrier + mark('+', overwrite) + storeSums("w"),
              ViolationKind::UnwaitedProduct, "a product of warp");
}

/// A thread's own wait does not cover the products of other warps.
TEST(Products, ReportsOverwritingBeforeTheBarrier) {
  expectFault(fill + publish + barrier + start + multiply() + commit + wait +
                  mark('-', overwrite + barrier) + mark('+', barrier + overwrite) + storeSums("w"),
              ViolationKind::UnwaitedProduct, "a product of warp");
}

TEST(Products, ReportsPendingProductsAtEnd) {
  expectFault(fill + publish + barrier + start + multiply() + commit +
                  mark('+', "  call void @llvm.nvvm.wgmma.wait_group.sync.aligned(i64 0)\n") +
                  mark('-', "  call void @llvm.nvvm.wgmma.wait_group.sync.aligned(i64 1)\n"),
              ViolationKind::PendingProduct, "before it ends");
}

/// The last warp goes without the product.
TEST(Products, ReportsAbsentWarp) {
  std::string last = "  %last = icmp ugt i64 %tid, 95\n";
  expectFault(fill + publish + barrier + last +
                  mark('-', "  br i1 %last, label %end, label %go\n") +
                  mark('+', "  br label %go\n") + "go:\n" + start + multiply() + commit + wait +
                  storeSums("w") + "  br label %end\nend:\n",
              ViolationKind::BarrierDivergence, "four warps of a warpgroup");
}

TEST(Products, ReportsUnswizzledMatrix) {
  std::string wrong = multiply("f", "68719542272");
  expectFault(fill + publish + barrier + start + mark('-', wrong) + mark('+', multiply()) + commit +
                  wait + storeSums("w"),
              ViolationKind::Descriptor, "expected a swizzled matrix");
}

TEST(Products, RejectsSumsThatAreUsedBeforeTheWait) {
  for (bool early : {false, true}) {
    FaultCase c{fill + publish + barrier + start + multiply() + commit + wait +
                    storeSums(early ? "m" : "w"),
                ViolationKind::UnwaitedProduct, "", shared};
    auto emulator = Emulator::create(kernelText(c, false), "k");
    std::string message = emulator ? "" : llvm::toString(emulator.takeError());
    EXPECT_EQ(message.empty(), !early) << message;
    EXPECT_EQ(message.find("to be used after a wgmma.wait_group of 0") != std::string::npos, early);
  }
}

/// Sixteen products of ones; every thread has four sums.
TEST(Products, SumsSixteenInnerElements) {
  FaultCase c{fill + publish + barrier + start + multiply() + commit + wait + storeSums("w"),
              ViolationKind::Race, "", shared, 8};
  c.block = {128, 1, 1};
  auto emulator = compileKernel(kernelText(c, false));
  ASSERT_TRUE(emulator);
  PlantedOutcome outcome = runKernel(*emulator, c);
  EXPECT_TRUE(outcome.report.passed()) << outcome.report.str();
  EXPECT_EQ(outcome.out, std::vector<float>(512, 16));
  EXPECT_EQ(outcome.report.counters.tensorFlops, 2u * 64 * 8 * 16);
}

} // namespace
