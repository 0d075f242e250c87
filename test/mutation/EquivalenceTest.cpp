// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Changes that are provably equivalent, and faults that must not be proved so.
#include "Equivalence.h"

#include "llvm/AsmParser/Parser.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/Support/SourceMgr.h"
#include "gtest/gtest.h"

using namespace sluice;
using namespace sluice::mutation;

namespace {

/// A kernel `@k(arena, arguments)` of two operands; defines `%tid`, `%block`, `%length`, `%to`
/// (memory) and `%i` = 64 * block + tid.
std::string kernel(const std::string &body) {
  return R"(
target triple = "nvptx64-nvidia-cuda"
@s = external addrspace(3) global [0 x i8], align 16
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i64 @llvm.umin.i64(i64, i64)
declare void @llvm.nvvm.cp.async.commit.group()
declare void @llvm.nvvm.cp.async.wait.group(i32)
declare void @llvm.nvvm.cp.async.cg.shared.global.16.s(ptr addrspace(3), ptr addrspace(1), i32)
define ptx_kernel void @k(ptr %arena, ptr %arguments) {
entry:
  %tid32 = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %tid = zext i32 %tid32 to i64
  %block32 = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %block = zext i32 %block32 to i64
  %first = shl i64 %block, 6
  %i = add i64 %first, %tid
  %place = getelementptr i8, ptr %arguments, i64 16
  %offset = load i64, ptr %place, align 8
  %scalar = getelementptr i8, ptr %arena, i64 %offset
  %length = load i64, ptr %scalar, align 8
  %start = load i64, ptr %arguments, align 8
  %memory = getelementptr i8, ptr %arena, i64 %start
  %to = getelementptr i64, ptr %memory, i64 %i
)" + body +
         "\n}\n";
}

/// The provably equivalent variants of `op`: 3 blocks of 64 threads, lengths up to 75.
std::vector<unsigned> proved(const std::string &body, Operator op) {
  llvm::LLVMContext context;
  llvm::SMDiagnostic diagnostic;
  auto module = llvm::parseAssemblyString(kernel(body), diagnostic, context);
  EXPECT_TRUE(module) << diagnostic.getMessage().str();
  std::vector<unsigned> result;
  for (const Mutation &mutation : listMutations(*module)) {
    Space space{.blocks = 3, .threads = 64, .scalars = 2, .lengths = 75, .rows = 3};
    if (mutation.op == op && isProvablyNoFault(*module, mutation, space)) {
      result.push_back(mutation.variant);
    }
  }
  return result;
}
using Variants = std::vector<unsigned>;

} // namespace

/// Numbers 0 to 191: none reaches 200 or its neighbors; one reaches the lower neighbor of 192.
TEST(NoFault, ProvesBoundThatNoThreadReaches) {
  auto bound = [](const std::string &number) {
    return "  %c = icmp ult i64 %i, " + number +
           "\n  br i1 %c, label %store, label %end\nstore:\n  store i64 1, ptr %to\n"
           "  br label %end\nend:\n  ret void";
  };
  EXPECT_EQ(proved(bound("200"), Operator::ShiftBound), (Variants{0, 1}));
  EXPECT_EQ(proved(bound("192"), Operator::ShiftBound), Variants{1});
  EXPECT_EQ(proved(bound("191"), Operator::ShiftBound), Variants{});
}

TEST(NoFault, DoesNotProveBoundOfLoadedNumber) {
  EXPECT_EQ(proved("  %x = load i64, ptr %to\n  %c = icmp ult i64 %x, 1000\n"
                   "  %y = zext i1 %c to i64\n  store i64 %y, ptr %to\n  ret void",
                   Operator::ShiftBound),
            Variants{});
}

/// A length is at least 1 and at most the context.
TEST(NoFault, ProvesBoundThatNoLengthReaches) {
  auto compare = [](const std::string &text) {
    return "  %c = icmp " + text +
           "\n  %y = zext i1 %c to i64\n  store i64 %y, ptr %to\n  ret void";
  };
  EXPECT_EQ(proved(compare("eq i64 %length, 0"), Operator::ShiftBound), Variants{0});
  EXPECT_EQ(proved(compare("ult i64 %length, 77"), Operator::ShiftBound), (Variants{0, 1}));
  EXPECT_EQ(proved(compare("ult i64 %length, 76"), Operator::ShiftBound), Variants{1});
}

/// A clamp before a branch that passes only numbers that the clamp does not change.
TEST(NoFault, ProvesClampBeforeRedundantBranch) {
  auto clamped = [](const std::string &limit) {
    return "  %m = call i64 @llvm.umin.i64(i64 %i, i64 150)\n  %c = icmp ult i64 %i, " + limit +
           "\n  br i1 %c, label %store, label %end\nstore:\n"
           "  %p = getelementptr i64, ptr %memory, i64 %m\n  store i64 1, ptr %p\n"
           "  br label %end\nend:\n  ret void";
  };
  EXPECT_EQ(proved(clamped("151"), Operator::RemoveClamp), Variants{0});
  EXPECT_EQ(proved(clamped("152"), Operator::RemoveClamp), Variants{});
}

/// The source of a copy matters if the copy reads any byte, its size everywhere.
TEST(NoFault, ProvesClampOfSourceOfEmptyCopy) {
  auto copy = [](const std::string &limit) {
    return "  %c = icmp ult i64 %i, " + limit +
           "\n  %size = select i1 %c, i32 16, i32 0\n"
           "  %m = call i64 @llvm.umin.i64(i64 %i, i64 150)\n"
           "  %g = getelementptr <4 x i32>, ptr %memory, i64 %m\n"
           "  %a = addrspacecast ptr %g to ptr addrspace(1)\n"
           "  %p = getelementptr <4 x i32>, ptr addrspace(3) @s, i64 %i\n"
           "  call void @llvm.nvvm.cp.async.cg.shared.global.16.s(ptr addrspace(3) %p, "
           "ptr addrspace(1) %a, i32 %size)\n  ret void";
  };
  EXPECT_EQ(proved(copy("151"), Operator::RemoveClamp), Variants{0});
  EXPECT_EQ(proved(copy("152"), Operator::RemoveClamp), Variants{});
  EXPECT_EQ(proved(copy("151"), Operator::CopyWhole), Variants{});
  EXPECT_EQ(proved(copy("192"), Operator::CopyWhole), Variants{0});
  EXPECT_EQ(proved(copy("151"), Operator::CopyNothing), Variants{});
}

/// One side of a conjunction that the other implies.
TEST(NoFault, ProvesImpliedCondition) {
  std::string both = "  %a = icmp ult i64 %i, 100\n  %b = icmp ult i64 %i, 110\n"
                     "  %c = and i1 %a, %b\n  br i1 %c, label %store, label %end\nstore:\n"
                     "  store i64 1, ptr %to\n  br label %end\nend:\n  ret void";
  EXPECT_EQ(proved(both, Operator::ForceCondition), Variants{0});
}

/// In a loop of eight iterations.
TEST(NoFault, ProvesBoundThatNoIterationReaches) {
  auto loop = [](const std::string &bound) {
    return "  br label %loop\nloop:\n  %k = phi i64 [ 0, %entry ], [ %next, %loop ]\n"
           "  %c = icmp ult i64 %k, " +
           bound +
           "\n  %y = zext i1 %c to i64\n  store i64 %y, ptr %to\n"
           "  %next = add i64 %k, 1\n  %done = icmp eq i64 %next, 8\n"
           "  br i1 %done, label %end, label %loop\nend:\n  ret void";
  };
  // The loop's own bound is a second site: neither of its variants is harmless.
  EXPECT_EQ(proved(loop("9"), Operator::ShiftBound), (Variants{0, 1}));
  EXPECT_EQ(proved(loop("7"), Operator::ShiftBound), Variants{});
}

TEST(NoFault, ProvesCommitWithoutWait) {
  std::string commit = "  call void @llvm.nvvm.cp.async.commit.group()\n";
  std::string wait = "  call void @llvm.nvvm.cp.async.wait.group(i32 0)\n";
  EXPECT_EQ(proved(commit + "  ret void", Operator::RemoveCommit), Variants{0});
  EXPECT_EQ(proved(commit + wait + "  ret void", Operator::RemoveCommit), Variants{});
  EXPECT_EQ(proved(wait + commit + "  ret void", Operator::RemoveCommit), Variants{0});
  // A wait that a back edge reaches follows too.
  EXPECT_EQ(proved("  br label %loop\nloop:\n" + wait + commit +
                       "  %x = load i1, ptr %to\n  br i1 %x, label %loop, label %end\nend:\n"
                       "  ret void",
                   Operator::RemoveCommit),
            Variants{});
}

/// For a loop whose end depends on the block: at most 6 iterations, so `%k` is at most 5.
TEST(NoFault, ProvesBoundInLoopWithVariableEnd) {
  auto loop = [](const std::string &bound, const std::string &end) {
    return "  %last = add i64 %block, 4\n  br label %loop\nloop:\n"
           "  %k = phi i64 [ 0, %entry ], [ %next, %loop ]\n  %c = icmp ult i64 %k, " +
           bound + "\n  %y = zext i1 %c to i64\n  store i64 %y, ptr %to\n" +
           "  %next = add i64 %k, 1\n  %done = icmp " + end +
           "\n  br i1 %done, label %end, label %loop\nend:\n  ret void";
  };
  for (const char *end : {"uge i64 %next, %last", "eq i64 %next, %last"}) {
    EXPECT_EQ(proved(loop("7", end), Operator::ShiftBound).size(), 2u) << end;
    EXPECT_EQ(proved(loop("6", end), Operator::ShiftBound), Variants{1}) << end;
    EXPECT_EQ(proved(loop("5", end), Operator::ShiftBound), Variants{}) << end;
  }
  // A loaded number may be any number.
  EXPECT_EQ(proved(loop("7", "eq i64 %next, %start"), Operator::ShiftBound), Variants{});
}

/// For a loop that is not entered if its end would never be reached: 4 iterations in blocks 0 and
/// 1, none in the others.
TEST(NoFault, ProvesBoundInConditionalLoop) {
  auto loop = [](const std::string &bound) {
    return "  %early = icmp ult i64 %block, 2\n  %last = select i1 %early, i64 4, i64 0\n"
           "  %none = icmp eq i64 %last, 0\n  br i1 %none, label %end, label %enter\nenter:\n"
           "  br label %loop\nloop:\n  %k = phi i64 [ 0, %enter ], [ %next, %loop ]\n"
           "  %c = icmp ult i64 %k, " +
           bound + "\n  %y = zext i1 %c to i64\n  store i64 %y, ptr %to\n" +
           "  %next = add i64 %k, 1\n  %done = icmp eq i64 %next, %last\n"
           "  br i1 %done, label %end, label %loop\nend:\n  ret void";
  };
  auto of = [&](const std::string &bound) {
    std::vector<unsigned> all = proved(loop(bound), Operator::ShiftBound);
    return all;
  };
  // In addition to variants of the bound, variants of the block's and of %none's that may be proved
  // or not.
  EXPECT_EQ(of("6").size(), of("2").size() + 2);
}

/// A number that a loop carries by another one's iterations, as for skipped tiles: at least 0 and
/// below 3 in the loop's body.
TEST(NoFault, ProvesBoundOfLoopCarriedNumber) {
  auto loop = [](const std::string &bound, const std::string &flags) {
    return "  br label %outer\nouter:\n  %n = phi i64 [ 0, %entry ], [ %next, %body ]\n"
           "  %more = icmp slt i64 %n, 3\n  br i1 %more, label %skip, label %end\nskip:\n"
           "  %m = phi i64 [ %n, %outer ], [ %next, %skip ]\n  %next = add " +
           flags +
           "i64 %m, 1\n  %loaded = load i64, ptr %to\n  %again = icmp eq i64 %loaded, %next\n"
           "  br i1 %again, label %skip, label %body\nbody:\n  %at = shl i64 %n, 6\n"
           "  %c = icmp slt i64 %at, " +
           bound +
           "\n  %y = zext i1 %c to i64\n  store i64 %y, ptr %to\n  br label %outer\nend:\n"
           "  ret void";
  };
  // The first two of these variants are of %n < 3 and not equivalent.
  EXPECT_EQ(proved(loop("100", "nuw nsw "), Operator::ShiftBound), (Variants{0, 1}));
  EXPECT_EQ(proved(loop("129", "nuw nsw "), Operator::ShiftBound), Variants{1});
  EXPECT_EQ(proved(loop("128", "nuw nsw "), Operator::ShiftBound), Variants{0});
  // A sum that may wrap may be any number.
  EXPECT_EQ(proved(loop("100", ""), Operator::ShiftBound), Variants{});
}

/// Four bits of a loaded number are used: it acts as one of 0 to 15.
TEST(NoFault, ProvesBoundOfMaskedLoadedNumber) {
  auto low = [](const std::string &bound) {
    return "  %x = load i64, ptr %to\n  %low = and i64 %x, 15\n  %c = icmp ult i64 %low, " + bound +
           "\n  %y = zext i1 %c to i64\n  store i64 %y, ptr %to\n  ret void";
  };
  EXPECT_EQ(proved(low("17"), Operator::ShiftBound), (Variants{0, 1}));
  EXPECT_EQ(proved(low("16"), Operator::ShiftBound), Variants{1});
  EXPECT_EQ(proved(low("15"), Operator::ShiftBound), Variants{});
}

/// A clamp whose result a branch uses only where the clamp is idle.
TEST(NoFault, ProvesClampUnusedByBranches) {
  auto joined = [](const std::string &limit) {
    return "  %m = call i64 @llvm.umin.i64(i64 %i, i64 150)\n  %c = icmp ult i64 %i, " + limit +
           "\n  br i1 %c, label %join, label %other\nother:\n  br label %join\njoin:\n"
           "  %at = phi i64 [ %m, %entry ], [ 0, %other ]\n"
           "  %p = getelementptr i64, ptr %memory, i64 %at\n  store i64 1, ptr %p\n  ret void";
  };
  EXPECT_EQ(proved(joined("151"), Operator::RemoveClamp), Variants{0});
  EXPECT_EQ(proved(joined("152"), Operator::RemoveClamp), Variants{});
}
