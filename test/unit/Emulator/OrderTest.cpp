// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Blocks that pass data to one another: the last one to arrive sums the others' results. Injects
// every way to lose the order.
#include "FaultyKernel.h"

#include "gtest/gtest.h"

using namespace sluice;
using namespace sluice::test;
using namespace sluice::emulator;

namespace {

const char *const barrier = "  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)\n";
const char *const arrival = "  %count = atomicrmw uinc_wrap ptr addrspace(1) %counters, i32 3 "
                            "syncscope(\"device\") monotonic\n";

/// Four blocks write 64 numbers each to %out; the last adds each number's neighbors into the next
/// 64.
struct Protocol {
  std::string before = barrier;
  std::string release = "  fence syncscope(\"device\") release\n";
  std::string arrive = arrival;
  std::string acquire = "  fence syncscope(\"device\") acquire\n";
  std::string after; ///< work of the leading thread after it has arrived
  std::string publish = std::string("  store i32 %count, ptr addrspace(3) @s, align 4\n");
  std::string hear = std::string(barrier) + "  %told = load i32, ptr addrspace(3) @s, align 4\n";
  std::string last = "  %last = icmp eq i32 %told, 3\n";
  std::string close; ///< work of the leading thread of the last block at its end
  std::string leave = "  store float %x, ptr addrspace(1) %part, align 4\n";

  FaultCase inject(ViolationKind kind, const std::string &says) const {
    std::string body = R"(
  %first = mul i64 %block, 64
  %mine = add i64 %first, %tid
  %part = getelementptr float, ptr addrspace(1) %out, i64 %mine
  %x = uitofp i64 %mine to float
)" + leave + before + R"(
  %leads = icmp eq i64 %tid, 0
  br i1 %leads, label %arrive, label %meet
arrive:
)" + release + arrive + acquire +
                       after + publish + R"(
  br label %meet
meet:
)" + hear + last + R"(
  br i1 %last, label %sum, label %end
sum:
  %neighbour = xor i64 %tid, 1
  br label %loop
loop:
  %i = phi i64 [0, %sum], [%next, %loop]
  %so = phi float [0.0, %sum], [%with, %loop]
  %row = mul i64 %i, 64
  %at = add i64 %row, %neighbour
  %p = getelementptr float, ptr addrspace(1) %out, i64 %at
  %y = load float, ptr addrspace(1) %p, align 4
  %with = fadd float %so, %y
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, 4
  br i1 %more, label %loop, label %done
done:
  %to = add i64 %tid, 256
  %q = getelementptr float, ptr addrspace(1) %out, i64 %to
  store float %with, ptr addrspace(1) %q, align 4
  br i1 %leads, label %close, label %end
close:
)" + close + "  br label %end\nend:\n";
    FaultCase injected{body, kind, says, "@s = internal addrspace(3) global i32 undef, align 4\n"};
    injected.words = 5;
    injected.grid = {4, 1, 1};
    injected.parameters = "ptr addrspace(1) %in, ptr addrspace(1) %out, ptr addrspace(1) %counters";
    injected.counters = 1;
    return injected;
  }
};

std::string wrongly(const std::string &wrong, const std::string &right) {
  std::string lines;
  for (auto [mark, text] : {std::pair('-', wrong), std::pair('+', right)}) {
    for (size_t begin = 0; begin < text.size();) {
      size_t end = text.find('\n', begin) + 1;
      lines += mark + text.substr(begin, end - begin);
      begin = end;
    }
  }
  return lines;
}

/// Replaces a correct piece by `wrong`.
void expectConflict(std::string Protocol::*piece, const std::string &wrong,
                    const std::string &says = "which wrote it at 'store float %x",
                    ViolationKind kind = ViolationKind::BlockConflict) {
  Protocol protocol;
  protocol.*piece = wrongly(wrong, protocol.*piece);
  expectCaught(protocol.inject(kind, says));
}

TEST(Order, ReportsMissingBarrierBeforeRelease) { expectConflict(&Protocol::before, ""); }

TEST(Order, ReportsWarpBarrierBeforeRelease) {
  expectConflict(&Protocol::before, "  call void @llvm.nvvm.bar.warp.sync(i32 -1)\n");
}

TEST(Order, ReportsMissingRelease) { expectConflict(&Protocol::release, ""); }

TEST(Order, ReportsFenceWithoutRelease) {
  expectConflict(&Protocol::release, "  fence syncscope(\"device\") acquire\n");
}

TEST(Order, ReportsReleaseOfBlockScope) {
  expectConflict(&Protocol::release, "  fence syncscope(\"block\") release\n");
}

TEST(Order, ReportsReleaseAfterArrival) {
  Protocol protocol;
  std::string right = protocol.release + protocol.arrive;
  protocol.arrive = wrongly(protocol.arrive + protocol.release, right);
  protocol.release = "";
  expectCaught(protocol.inject(ViolationKind::BlockConflict, "which wrote it at 'store float %x"));
}

TEST(Order, ReportsMissingAcquire) { expectConflict(&Protocol::acquire, ""); }

TEST(Order, ReportsFenceWithoutAcquire) {
  expectConflict(&Protocol::acquire, "  fence syncscope(\"device\") release\n");
}

TEST(Order, ReportsAcquireOfBlockScope) {
  expectConflict(&Protocol::acquire, "  fence syncscope(\"block\") acquire\n");
}

TEST(Order, ReportsAcquireBeforeArrival) {
  Protocol protocol;
  std::string right = protocol.arrive + protocol.acquire;
  protocol.arrive = wrongly(protocol.acquire + protocol.arrive, right);
  protocol.acquire = "";
  expectCaught(protocol.inject(ViolationKind::BlockConflict, "which wrote it at 'store float %x"));
}

TEST(Order, ReportsAtomicOfBlockScope) {
  expectConflict(&Protocol::arrive,
                 "  %count = atomicrmw uinc_wrap ptr addrspace(1) %counters, i32 3 "
                 "syncscope(\"block\") monotonic\n",
                 "address 'counters' + 0");
}

TEST(Order, ReportsNonAtomicArrival) {
  expectConflict(&Protocol::arrive,
                 "  %count = load i32, ptr addrspace(1) %counters, align 4\n"
                 "  %counted = add i32 %count, 1\n"
                 "  store i32 %counted, ptr addrspace(1) %counters, align 4\n",
                 "address 'counters' + 0");
}

TEST(Order, ReportsMissingBarrierAfterAcquire) {
  expectConflict(&Protocol::hear, "  %told = load i32, ptr addrspace(3) @s, align 4\n",
                 "address 's' + 0", ViolationKind::Race);
}

/// A shuffle passes the number, but orders nothing.
TEST(Order, ReportsShuffleInsteadOfBarrierAfterAcquire) {
  Protocol protocol;
  protocol.publish = "";
  std::string shuffle =
      "  %got = phi i32 [0, %0], [%count, %arrive]\n"
      "  %sum16 = call i32 @llvm.nvvm.shfl.sync.bfly.i32(i32 -1, i32 %got, i32 16, i32 31)\n"
      "  %t16 = add i32 %got, %sum16\n"
      "  %sum8 = call i32 @llvm.nvvm.shfl.sync.bfly.i32(i32 -1, i32 %t16, i32 8, i32 31)\n"
      "  %t8 = add i32 %t16, %sum8\n"
      "  %sum4 = call i32 @llvm.nvvm.shfl.sync.bfly.i32(i32 -1, i32 %t8, i32 4, i32 31)\n"
      "  %t4 = add i32 %t8, %sum4\n"
      "  %sum2 = call i32 @llvm.nvvm.shfl.sync.bfly.i32(i32 -1, i32 %t4, i32 2, i32 31)\n"
      "  %t2 = add i32 %t4, %sum2\n"
      "  %sum1 = call i32 @llvm.nvvm.shfl.sync.bfly.i32(i32 -1, i32 %t2, i32 1, i32 31)\n"
      "  %told = add i32 %t2, %sum1\n";
  protocol.hear = shuffle + std::string("+") + barrier;
  FaultCase injected =
      protocol.inject(ViolationKind::BlockConflict, "which wrote it at 'store float %x");
  injected.block = {32, 1, 1};
  // Lines of 64 of which the upper half stays unwritten and unread.
  expectCaught(injected);
}

TEST(Order, ReportsWriteAfterRelease) {
  Protocol protocol;
  protocol.leave = "+  store float %x, ptr addrspace(1) %part, align 4\n";
  protocol.after = "-  store float %x, ptr addrspace(1) %part, align 4\n";
  expectCaught(protocol.inject(ViolationKind::BlockConflict, "which wrote it at 'store float %x"));
}

TEST(Order, ReportsSumBeforeAllArrivals) {
  expectConflict(&Protocol::last, "  %last = icmp uge i32 %told, 2\n", "");
}

TEST(Order, ReportsReadWithoutArrival) {
  Protocol protocol;
  protocol.arrive = wrongly("  %arrives = icmp ult i64 %block, 3\n"
                            "  %one = zext i1 %arrives to i32\n"
                            "  %lane = select i1 %arrives, i64 0, i64 1\n"
                            "  %own = getelementptr i32, ptr addrspace(1) %counters, i64 %lane\n"
                            "  %found = atomicrmw add ptr addrspace(1) %own, i32 %one "
                            "syncscope(\"device\") monotonic\n"
                            "  %count = select i1 %arrives, i32 0, i32 3\n",
                            protocol.arrive);
  FaultCase injected = protocol.inject(ViolationKind::BlockConflict, "");
  injected.counters = 2;
  expectCaught(injected);
}

/// The fence precedes the arrivals, and so orders none of them before the last block's store.
TEST(Order, ReportsCounterResetByPlainStore) {
  Protocol protocol;
  protocol.close = wrongly("  store i32 0, ptr addrspace(1) %counters, align 4\n",
                           "  store atomic i32 0, ptr addrspace(1) %counters "
                           "syncscope(\"device\") monotonic, align 4\n");
  expectCaught(protocol.inject(ViolationKind::BlockConflict, "address 'counters' + 0"));
}

/// LLVM 22 gives NVPTX's atom.add no order, whatever ordering the instruction requests.
TEST(Order, RejectsAtomicsWithUnsupportedOrdering) {
  Protocol protocol;
  protocol.arrive = "  %count = atomicrmw add ptr addrspace(1) %counters, i32 1 acq_rel\n";
  auto emulator =
      Emulator::create(kernelText(protocol.inject(ViolationKind::Race, ""), false), "k");
  ASSERT_FALSE(bool(emulator));
  EXPECT_NE(llvm::toString(emulator.takeError()).find("expected atomicrmw of monotonic order"),
            std::string::npos);
}

} // namespace
