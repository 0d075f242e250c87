// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One small kernel with a site of every operator: detects every observable fault.
#include "Trial.h"

#include "llvm/ADT/STLExtras.h"
#include "gtest/gtest.h"
#include <map>
#include <numeric>

using namespace sluice;
using namespace sluice::mutation;

namespace {

/// Reverses tiles of 64 numbers through a ring of two stages of shared memory, with the copies of
/// the next tile in flight; `%count` numbers, the rest of the last tile zero.
const char *const text = R"(
target datalayout = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32)
declare void @llvm.nvvm.cp.async.ca.shared.global.4.s(ptr addrspace(3), ptr addrspace(1), i32)
declare void @llvm.nvvm.cp.async.commit.group()
declare void @llvm.nvvm.cp.async.wait.group(i32)
declare i64 @llvm.smin.i64(i64, i64)
@ring = internal addrspace(3) global [128 x float] undef, align 16
define ptx_kernel void @k(ptr addrspace(1) %in, ptr addrspace(1) %out, i64 %count, i64 %tiles) {
entry:
  %tid32 = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %tid = zext i32 %tid32 to i64
  %mirror = sub i64 63, %tid
  br label %loop
loop:
  %tile = phi i64 [ 0, %entry ], [ %next, %step ]
  %copied = icmp slt i64 %tile, %tiles
  br i1 %copied, label %copy, label %join
copy:
  %slot = urem i64 %tile, 2
  %first = mul i64 %tile, 64
  %from = add i64 %first, %tid
  %inside = icmp slt i64 %from, %count
  %size = select i1 %inside, i32 4, i32 0
  %last = sub i64 %count, 1
  %clamped = call i64 @llvm.smin.i64(i64 %from, i64 %last)
  %source = getelementptr float, ptr addrspace(1) %in, i64 %clamped
  %line = mul i64 %slot, 64
  %place = add i64 %line, %tid
  %target = getelementptr float, ptr addrspace(3) @ring, i64 %place
  call void @llvm.nvvm.cp.async.ca.shared.global.4.s(ptr addrspace(3) %target, ptr addrspace(1) %source, i32 %size)
  br label %join
join:
  call void @llvm.nvvm.cp.async.commit.group()
  %started = icmp sgt i64 %tile, 0
  br i1 %started, label %use, label %step
use:
  call void @llvm.nvvm.cp.async.wait.group(i32 1)
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  %before = sub i64 %tile, 1
  %oldslot = urem i64 %before, 2
  %oldline = mul i64 %oldslot, 64
  %oldplace = add i64 %oldline, %mirror
  %reads = getelementptr float, ptr addrspace(3) @ring, i64 %oldplace
  %number = load float, ptr addrspace(3) %reads, align 4
  %oldfirst = mul i64 %before, 64
  %to = add i64 %oldfirst, %tid
  %result = getelementptr float, ptr addrspace(1) %out, i64 %to
  store float %number, ptr addrspace(1) %result, align 4
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  br label %step
step:
  %next = add i64 %tile, 1
  %done = icmp sgt i64 %next, %tiles
  br i1 %done, label %end, label %loop
end:
  ret void
}
)";

class InjectFaultTest : public ::testing::Test {
protected:
  InjectFaultTest() : in(tiles * 64), out(tiles * 64, 7.0f) {
    std::iota(in.begin(), in.end(), 1.0f);
    emulator::EmulatedLaunch launch;
    launch.grid = {1, 1, 1};
    launch.block = {64, 1, 1};
    launch.arguments = {reinterpret_cast<uint64_t>(in.data()),
                        reinterpret_cast<uint64_t>(out.data()), uint64_t(count), uint64_t(tiles)};
    // Other numbers of the buffer follow the last one: a read there is wrong, not rejected.
    launch.buffers = {{"in", in.data(), in.size() * 4},
                      {"out", out.data(), out.size() * 4, emulator::Writes::Once, false}};
    subject = {"reverse", text, {{"k", launch}}, {{out.data(), out.size() * 4}}, nullptr, [this] {
                 for (int64_t i = 0; i < tiles * 64; ++i) {
                   int64_t from = i / 64 * 64 + 63 - i % 64;
                   float right = from < count ? in[from] : 0;
                   if (out[i] != right) {
                     return "number " + std::to_string(i) + " is " + std::to_string(out[i]);
                   }
                 }
                 return std::string();
               }};
  }

  static constexpr int64_t tiles = 5, count = 300;
  std::vector<float> in, out;
  Subject subject;
};

} // namespace

TEST_F(InjectFaultTest, FindsASiteOfEveryOperator) {
  std::map<Operator, int> sites;
  for (const Mutation &mutation : mutationsIn(subject)) {
    ++sites[mutation.op];
  }
  std::map<Operator, int> expected = {
      {Operator::RemoveBarrier, 2},  {Operator::RemoveCommit, 1}, {Operator::WaitForLess, 1},
      {Operator::CopyWhole, 1},      {Operator::CopyNothing, 1},  {Operator::ShiftBound, 8},
      {Operator::ForceCondition, 2}, {Operator::RemoveClamp, 1},  {Operator::ShiftStage, 6}};
  EXPECT_EQ(sites, expected);
}

/// One fault is equivalent: where the clamp matters no byte is read.
TEST_F(InjectFaultTest, DetectsHarmfulFaults) {
  Faults faults(subject, mutationsIn(subject));
  std::vector<std::string> survivors;
  for (const auto &[mutation, outcome] : llvm::zip_equal(faults.all, Trials(subject).run(faults))) {
    if (outcome.fate != Fate::Judged && outcome.fate != Fate::Wrong) {
      survivors.push_back(name(mutation.op).str() + ": " + name(outcome.fate).str() + outcome.text);
    }
  }
  EXPECT_EQ(survivors, std::vector<std::string>{"clamp removed: survived"});
}

TEST_F(InjectFaultTest, RejectsKernelWithAViolation) {
  subject.ir.erase(subject.ir.rfind("  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)"),
                   58);
  EXPECT_THROW(Trials{subject}, std::runtime_error);
}
