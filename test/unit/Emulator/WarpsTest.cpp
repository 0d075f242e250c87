// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Barriers and warp-wide operations: their effects, and injected faults.
#include "FaultyKernel.h"

#include "gtest/gtest.h"
#include <cstring>

using namespace sluice;
using namespace sluice::test;
using namespace sluice::emulator;

namespace {

const char *const shared = "@s = internal addrspace(3) global [256 x float] undef, align 16\n";

TEST(Barriers, ReportsBarrierReachedBySomeWarps) {
  expectCaught({R"(
  %early = icmp ult i64 %tid, 32
-  br i1 %early, label %wait, label %end
+  br label %wait
wait:
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  br label %end
end:)",
                ViolationKind::BarrierDivergence, "thread 32 has ended"});
}

TEST(Barriers, ReportsBarrierReachedByHalfAWarp) {
  expectCaught({R"(
  %bit = and i64 %tid, 16
  %half = icmp eq i64 %bit, 0
-  br i1 %half, label %one, label %other
+  br label %other
one:
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  br label %end
other:
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  br label %end
end:)",
                ViolationKind::BarrierDivergence, "to come whole, at one instruction"});
}

/// A producer warp arrives and continues; a consumer warp waits.
const char *const handOver = R"(
  %producer = icmp ult i64 %tid, 32
  br i1 %producer, label %produce, label %consume
produce:
  %p = getelementptr float, ptr addrspace(3) @s, i64 %tid
  store float 5.0, ptr addrspace(3) %p, align 4
  call void @llvm.nvvm.barrier.cta.arrive.aligned.count(i32 1, i32 64)
)";

TEST(Barriers, ReportsProducerWriteAfterArrival) {
  expectCaught({std::string(handOver) + R"(
-  store float 6.0, ptr addrspace(3) %p, align 4
  br label %end
consume:
  call void @llvm.nvvm.barrier.cta.sync.aligned.count(i32 1, i32 64)
  %i = sub i64 %tid, 32
  %c = getelementptr float, ptr addrspace(3) @s, i64 %i
  %x = load float, ptr addrspace(3) %c, align 4
  br label %end
end:)",
                ViolationKind::Race, "", shared});
}

TEST(Barriers, ReportsTwoCountsForOneBarrier) {
  expectCaught({std::string(handOver) + R"(
  br label %end
consume:
-  call void @llvm.nvvm.barrier.cta.sync.aligned.count(i32 1, i32 32)
+  call void @llvm.nvvm.barrier.cta.sync.aligned.count(i32 1, i32 64)
  br label %end
end:)",
                ViolationKind::BarrierDivergence, "", shared});
}

TEST(Barriers, ReportsBarrierNumberOutOfRange) {
  expectCaught({R"(
-  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 16)
+  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 15))",
                ViolationKind::Limit, "found 16"});
}

TEST(Warps, ReportsAbsentLane) {
  expectCaught({R"(
  %lane = and i64 %tid, 31
  %low = icmp ult i64 %lane, 16
  br i1 %low, label %go, label %end
go:
-  %x = call i32 @llvm.nvvm.shfl.sync.bfly.i32(i32 -1, i32 7, i32 16, i32 31)
+  %x = call i32 @llvm.nvvm.shfl.sync.bfly.i32(i32 65535, i32 7, i32 8, i32 31)
  br label %end
end:)",
                ViolationKind::AbsentLane, "expected lane 16"});
}

TEST(Warps, ReportsLaneThatWaitsElsewhere) {
  expectCaught({R"(
  %lane = and i64 %tid, 31
  %low = icmp ult i64 %lane, 16
-  br i1 %low, label %go, label %end
+  br label %go
go:
  %x = call i32 @llvm.nvvm.shfl.sync.bfly.i32(i32 -1, i32 7, i32 16, i32 31)
  br label %end
end:
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0))",
                ViolationKind::AbsentLane, "waits at 'call void @llvm.nvvm.barrier"});
}

TEST(Warps, ReportsMaskWithoutTheLaneItself) {
  expectCaught({R"(
-  call void @llvm.nvvm.bar.warp.sync(i32 -2)
+  call void @llvm.nvvm.bar.warp.sync(i32 -1))",
                ViolationKind::AbsentLane, "names the lane"});
}

TEST(Warps, ReportsMatrixInstructionInABranch) {
  expectCaught({R"(
  %p = getelementptr <4 x float>, ptr addrspace(3) @s, i64 %tid
  store <4 x float> zeroinitializer, ptr addrspace(3) %p, align 16
  call void @llvm.nvvm.bar.warp.sync(i32 -1)
  %lane = and i64 %tid, 31
-  %in4 = icmp ult i64 %lane, 31
+  %in4 = icmp ult i64 %lane, 32
  br i1 %in4, label %go, label %end
go:
  %x = call {i32, i32, i32, i32} @llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.b16.p3(ptr addrspace(3) %p)
  br label %end
end:)",
                ViolationKind::AbsentLane, "ldmatrix",
                std::string(shared) + "declare {i32, i32, i32, i32} "
                                      "@llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.b16.p3("
                                      "ptr addrspace(3))\n"});
}

/// Every shuffle and vote, against the PTX ISA's result for each lane.
TEST(Warps, ShufflesAndVotes) {
  FaultCase injected{R"(
  %lane = and i32 %tid32, 31
  %value = mul i32 %tid32, 10
  %slot = mul i64 %tid, 6
  %up = call i32 @llvm.nvvm.shfl.sync.up.i32(i32 -1, i32 %value, i32 3, i32 0)
  %pair = call {i32, i1} @llvm.nvvm.shfl.sync.down.i32p(i32 -1, i32 %value, i32 5, i32 31)
  %down = extractvalue {i32, i1} %pair, 0
  %inside = extractvalue {i32, i1} %pair, 1
  %flag = zext i1 %inside to i32
  %xor = call i32 @llvm.nvvm.shfl.sync.bfly.i32(i32 -1, i32 %value, i32 9, i32 31)
  %f = uitofp i32 %value to float
  %idx = call float @llvm.nvvm.shfl.sync.idx.f32(i32 -1, float %f, i32 6, i32 6175)
  %odd = trunc i32 %lane to i1
  %votes = call i32 @llvm.nvvm.vote.ballot.sync(i32 -1, i1 %odd)
  %all = call i1 @llvm.nvvm.vote.all.sync(i32 -1, i1 true)
  %sign = select i1 %all, i32 %votes, i32 0
  %o = getelementptr i32, ptr addrspace(1) %out, i64 %slot
  store i32 %up, ptr addrspace(1) %o, align 4
  %o1 = getelementptr i32, ptr addrspace(1) %o, i64 1
  store i32 %down, ptr addrspace(1) %o1, align 4
  %o2 = getelementptr i32, ptr addrspace(1) %o, i64 2
  store i32 %flag, ptr addrspace(1) %o2, align 4
  %o3 = getelementptr i32, ptr addrspace(1) %o, i64 3
  store i32 %xor, ptr addrspace(1) %o3, align 4
  %o4 = getelementptr float, ptr addrspace(1) %o, i64 4
  store float %idx, ptr addrspace(1) %o4, align 4
  %o5 = getelementptr i32, ptr addrspace(1) %o, i64 5
  store i32 %sign, ptr addrspace(1) %o5, align 4
)",
                     ViolationKind::Limit, ""};
  injected.words = 6;
  auto emulator = compileKernel(kernelText(injected, false));
  ASSERT_TRUE(emulator);
  for (Schedule schedule : {Schedule::InOrder, Schedule::Random}) {
    Options options;
    options.schedule = schedule;
    PlantedOutcome outcome = runKernel(*emulator, injected, options);
    ASSERT_TRUE(outcome.report.passed()) << outcome.report.str();
    for (int thread = 0; thread < 64; ++thread) {
      int lane = thread % 32, warp = thread - lane;
      int32_t found[6];
      std::memcpy(found, &outcome.out[size_t(thread) * 6], sizeof found);
      EXPECT_EQ(found[0], 10 * (lane >= 3 ? thread - 3 : thread));
      EXPECT_EQ(found[1], 10 * (lane + 5 <= 31 ? thread + 5 : thread));
      EXPECT_EQ(found[2], lane + 5 <= 31);
      EXPECT_EQ(found[3], 10 * (warp + (lane ^ 9)));
      // 6175 = 0x181f: segments of 8 lanes, the sixth of each.
      EXPECT_EQ(outcome.out[size_t(thread) * 6 + 4], float(10 * (warp + lane / 8 * 8 + 6)));
      EXPECT_EQ(uint32_t(found[5]), 0xaaaaaaaau);
    }
  }
}

TEST(Warps, Reductions) {
  struct WarpForm {
    const char *name;
    int32_t expected;
  };
  // Lanes 1, 3 and 4, with the values -1, 5 and 12.
  for (auto [name, expected] :
       {WarpForm{"add", 16}, WarpForm{"min", -1}, WarpForm{"max", 12}, WarpForm{"umin", 5},
        WarpForm{"umax", -1}, WarpForm{"and", 4}, WarpForm{"or", -1},
        WarpForm{"xor", int32_t(0xffffffffu ^ 5 ^ 12)}}) {
    std::string intrinsic = std::string("@llvm.nvvm.redux.sync.") + name + "(i32";
    FaultCase injected{R"(
  %bit = shl i32 1, %tid32
  %in3 = and i32 %bit, 26
  %takes = icmp ne i32 %in3, 0
  br i1 %takes, label %go, label %end
go:
  %three = icmp eq i64 %tid, 3
  %four = icmp eq i64 %tid, 4
  %v1 = select i1 %three, i32 5, i32 -1
  %v2 = select i1 %four, i32 12, i32 %v1
  %x = call i32 )" + intrinsic +
                           R"( %v2, i32 26)
  %q = getelementptr i32, ptr addrspace(1) %out, i64 %tid
  store i32 %x, ptr addrspace(1) %q, align 4
  br label %end
end:)",
                       ViolationKind::Limit, "", "declare i32 " + intrinsic + ", i32)\n"};
    injected.block = {32, 1, 1};
    auto emulator = compileKernel(kernelText(injected, false));
    ASSERT_TRUE(emulator);
    PlantedOutcome outcome = runKernel(*emulator, injected);
    ASSERT_TRUE(outcome.report.passed()) << outcome.report.str();
    for (size_t lane : {1, 3, 4}) {
      int32_t found;
      std::memcpy(&found, &outcome.out[lane], 4);
      EXPECT_EQ(found, expected) << name;
    }
  }
}

} // namespace
