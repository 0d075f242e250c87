// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A complete GPU matmul: three stages of shared memory filled by cp.async, swizzled, read by
// ldmatrix, multiplied by mma. The injected faults are typical for such kernels, and most of them
// leave the numbers right.
#include "FaultyKernel.h"

#include "gtest/gtest.h"
#include <cstring>

using namespace sluice;
using namespace sluice::test;
using namespace sluice::emulator;

namespace {

constexpr int tile = 64, stepInner = 32, stages = 3;

enum class Fault {
  None,
  NoWait,
  WaitTooShort, ///< leaves the very stage that is read next pending
  NoBarrier,    ///< reads what other threads copied
  CopyTooEarly, ///< overwrites the stage that other warps still read
  NoSwizzle,    ///< right, but four lanes share a bank
  NoFinalWait
};

/// At least stages - 1 steps: out[64, 64] = a[64, inner] b[64, inner]^T of bf16; a block of 4
/// warps, each 32 x 32.
class PipelineMatmul {
public:
  PipelineMatmul(int inner, Fault fault) : inner(inner), fault(fault) {}

  std::string text() {
    head();
    for (int stage = 0; stage < stages - 1; ++stage) {
      copyStage(std::to_string(stage), std::to_string(stage));
      line("call void @llvm.nvvm.cp.async.commit.group()");
    }
    line("br label %loop");
    loop();
    results();
    return body;
  }

private:
  void line(const std::string &what) { body += "  " + what + "\n"; }
  std::string set(const std::string &what) {
    std::string name = "%v" + std::to_string(next++);
    line(name + " = " + what);
    return name;
  }
  std::string binary(const char *op, const std::string &x, const std::string &y) {
    return set(std::string(op) + " i64 " + x + ", " + y);
  }

  void head() {
    body = R"(target datalayout = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"
@s = external addrspace(3) global [0 x i8], align 1024
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32)
declare void @llvm.nvvm.cp.async.cg.shared.global.16(ptr addrspace(3), ptr addrspace(1))
declare void @llvm.nvvm.cp.async.commit.group()
declare void @llvm.nvvm.cp.async.wait.group(i32)
declare {i32, i32, i32, i32} @llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.b16.p3(ptr addrspace(3))
declare {float, float, float, float} @llvm.nvvm.mma.m16n8k16.row.col.bf16(i32, i32, i32, i32, i32, i32, float, float, float, float)
define ptx_kernel void @k(ptr addrspace(1) noalias readonly align 16 %a, ptr addrspace(1) noalias readonly align 16 %b, ptr addrspace(1) noalias align 8 %out) {
entry:
  %t32 = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %t = zext i32 %t32 to i64
  %lane = and i64 %t, 31
  %warp = lshr i64 %t, 5
)";
  }

  /// Byte of 16-byte chunk `chunk` of row `row`, in a tile of 64 rows of 64 bytes.
  std::string place(const std::string &row, const std::string &chunk) {
    std::string where = chunk;
    if (fault != Fault::NoSwizzle) {
      where = binary("xor", chunk, binary("and", binary("lshr", row, "1"), "3"));
    }
    return binary("add", binary("mul", row, "64"), binary("mul", where, "16"));
  }

  void copyStage(const std::string &step, const std::string &stage) {
    for (int i = 0; i < 2; ++i) {
      std::string id = binary("add", "%t", std::to_string(128 * i));
      std::string row = binary("lshr", id, "2"), chunk = binary("and", id, "3");
      std::string column = binary("add", binary("mul", step, "64"), binary("mul", chunk, "16"));
      std::string from = binary("add", binary("mul", row, std::to_string(2 * inner)), column);
      std::string to = binary("add", place(row, chunk), binary("mul", stage, "8192"));
      for (int operand = 0; operand < 2; ++operand) {
        std::string source = set("getelementptr i8, ptr addrspace(1) " +
                                 std::string(operand ? "%b" : "%a") + ", i64 " + from);
        std::string shift = binary("add", to, std::to_string(4096 * operand));
        std::string target = set("getelementptr i8, ptr addrspace(3) @s, i64 " + shift);
        line("call void @llvm.nvvm.cp.async.cg.shared.global.16(ptr addrspace(3) " + target +
             ", ptr addrspace(1) " + source + ")");
      }
    }
  }

  std::vector<std::string> loadMatrices(const std::string &row, const std::string &chunk,
                                        const std::string &base) {
    std::string at = binary("add", place(row, chunk), base);
    std::string from = set("getelementptr i8, ptr addrspace(3) @s, i64 " + at);
    std::string all = set("call {i32, i32, i32, i32} "
                          "@llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.b16.p3(ptr addrspace(3) " +
                          from + ")");
    std::vector<std::string> result;
    for (int i = 0; i < 4; ++i) {
      result.push_back(set("extractvalue {i32, i32, i32, i32} " + all + ", " + std::to_string(i)));
    }
    return result;
  }

  void nextCopy() {
    std::string step = binary("add", "%step", std::to_string(stages - 1));
    std::string more = set("icmp ult i64 " + step + ", " + std::to_string(inner / stepInner));
    line("br i1 " + more + ", label %copy, label %compute");
    body += "copy:\n";
    copyStage(step, binary("urem", step, std::to_string(stages)));
    line("br label %compute");
    body += "compute:\n";
    line("call void @llvm.nvvm.cp.async.commit.group()");
  }

  void arrive() {
    if (fault != Fault::NoWait) {
      std::string pending = std::to_string(stages - (fault == Fault::WaitTooShort ? 1 : 2));
      line("call void @llvm.nvvm.cp.async.wait.group(i32 " + pending + ")");
    }
    if (fault != Fault::NoBarrier) {
      line("call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)");
    }
  }

  void loop() {
    std::string phis;
    body += "loop:\n";
    line("%step = phi i64 [0, %entry], [%following, %compute]");
    for (int i = 0; i < 32; ++i) {
      std::string n = std::to_string(i);
      line("%sum" + n + " = phi float [0.0, %entry], [%new" + n + ", %compute]");
    }
    // With three stages the copy of step + 2 goes where step - 1 was read.
    if (fault == Fault::CopyTooEarly) {
      nextCopy();
      arrive();
    } else {
      arrive();
      nextCopy();
    }
    multiply();
    line("%following = add i64 %step, 1");
    line("%again = icmp ult i64 %following, " + std::to_string(inner / stepInner));
    line("br i1 %again, label %loop, label %end");
  }

  void multiply() {
    std::string stage = binary("mul", binary("urem", "%step", std::to_string(stages)), "8192");
    std::string stageB = binary("add", stage, "4096");
    std::string firstRow = binary("mul", binary("lshr", "%warp", "1"), "32");
    std::string firstColumn = binary("mul", binary("and", "%warp", "1"), "32");
    std::string rowA = binary("add", firstRow, binary("and", "%lane", "15"));
    std::string chunkA = binary("lshr", "%lane", "4");
    std::string rowB = binary("add", binary("add", firstColumn, binary("and", "%lane", "7")),
                              binary("mul", binary("lshr", "%lane", "4"), "8"));
    std::string chunkB = binary("and", binary("lshr", "%lane", "3"), "1");
    std::vector<std::string> sums(32);
    for (int i = 0; i < 32; ++i) {
      sums[size_t(i)] = "%sum" + std::to_string(i);
    }
    for (int half = 0; half < 2; ++half) {
      std::string chunk = std::to_string(2 * half);
      std::vector<std::string> a[2], b[2];
      for (int i = 0; i < 2; ++i) {
        std::string down = std::to_string(16 * i);
        a[i] = loadMatrices(binary("add", rowA, down), binary("add", chunkA, chunk), stage);
        b[i] = loadMatrices(binary("add", rowB, down), binary("add", chunkB, chunk), stageB);
      }
      for (size_t fragment = 0; fragment < 8; ++fragment) {
        const auto &left = a[fragment / 4];
        const auto &right = b[fragment % 4 / 2];
        std::string call =
            "call {float, float, float, float} @llvm.nvvm.mma.m16n8k16.row.col.bf16(";
        for (const std::string &value : left) {
          call += "i32 " + value + ", ";
        }
        call += "i32 " + right[fragment % 2 * 2] + ", i32 " + right[fragment % 2 * 2 + 1];
        for (size_t i = 0; i < 4; ++i) {
          call += ", float " + sums[fragment * 4 + i];
        }
        std::string product = set(call + ")");
        for (size_t i = 0; i < 4; ++i) {
          std::string part = std::to_string(i), number = std::to_string(fragment * 4 + i);
          std::string name = half ? "%new" + number : "%mid" + number;
          line(name + " = extractvalue {float, float, float, float} " + product + ", " + part);
          sums[fragment * 4 + i] = name;
        }
      }
    }
  }

  void results() {
    body += "end:\n";
    if (fault != Fault::NoFinalWait) {
      line("call void @llvm.nvvm.cp.async.wait.group(i32 0)");
    }
    std::string row = binary("add", binary("mul", binary("lshr", "%warp", "1"), "32"),
                             binary("lshr", "%lane", "2"));
    std::string column = binary("add", binary("mul", binary("and", "%warp", "1"), "32"),
                                binary("mul", binary("and", "%lane", "3"), "2"));
    for (int fragment = 0; fragment < 8; ++fragment) {
      for (int half = 0; half < 2; ++half) {
        std::string r = binary("add", row, std::to_string(fragment / 4 * 16 + half * 8));
        std::string c = binary("add", column, std::to_string(fragment % 4 * 8));
        std::string at = set("getelementptr float, ptr addrspace(1) %out, i64 " +
                             binary("add", binary("mul", r, std::to_string(tile)), c));
        std::string first = std::to_string(fragment * 4 + half * 2),
                    second = std::to_string(fragment * 4 + half * 2 + 1);
        std::string one = set("insertelement <2 x float> poison, float %new" + first + ", i32 0");
        std::string two =
            set("insertelement <2 x float> " + one + ", float %new" + second + ", i32 1");
        line("store <2 x float> " + two + ", ptr addrspace(1) " + at + ", align 8");
      }
    }
    line("ret void");
    body += "}\n";
  }

  int inner;
  Fault fault;
  std::string body;
  int next = 0;
};

float valueA(int row, int k) { return float((row * 3 + k * 5) % 11 - 5); }
float valueB(int column, int k) { return float((column * 7 + k * 2 + 3) % 9 - 4); }

std::vector<uint16_t> toBf16(int inner, float (*value)(int, int)) {
  std::vector<uint16_t> result;
  for (int row = 0; row < tile; ++row) {
    for (int k = 0; k < inner; ++k) {
      float x = value(row, k);
      uint32_t bits;
      std::memcpy(&bits, &x, sizeof bits);
      result.push_back(static_cast<uint16_t>(bits >> 16));
    }
  }
  return result;
}

/// Report and whether the numbers are right.
std::pair<Report, bool> run(Emulator &emulator, int inner, const Options &options) {
  std::vector<uint16_t> a = toBf16(inner, valueA), b = toBf16(inner, valueB);
  std::vector<float> out(tile * tile, -1);
  EmulatedLaunch launch;
  launch.block = {128, 1, 1};
  launch.dynamicSharedBytes = stages * 8192;
  launch.arguments = {reinterpret_cast<uint64_t>(a.data()), reinterpret_cast<uint64_t>(b.data()),
                      reinterpret_cast<uint64_t>(out.data())};
  launch.buffers = {{"a", a.data(), a.size() * 2},
                    {"b", b.data(), b.size() * 2},
                    {"out", out.data(), out.size() * 4, Writes::Once, false}};
  Report report = emulator.launch(launch, options);
  bool right = true;
  for (int row = 0; row < tile; ++row) {
    for (int column = 0; column < tile; ++column) {
      float sum = 0;
      for (int k = 0; k < inner; ++k) {
        sum += valueA(row, k) * valueB(column, k);
      }
      right &= out[size_t(row * tile + column)] == sum;
    }
  }
  return {std::move(report), right};
}

const Options ways[] = {
    {.seed = 0, .schedule = Schedule::InOrder, .copies = Copies::Early},
    {.seed = 1, .schedule = Schedule::WarpAlone, .copies = Copies::Late},
    {.seed = 2, .schedule = Schedule::Random, .copies = Copies::Random},
};

TEST(Pipeline, CorrectKernelHasNoViolation) {
  for (int inner : {64, 96, 256}) {
    auto emulator = compileKernel(PipelineMatmul(inner, Fault::None).text());
    ASSERT_TRUE(emulator);
    for (const Options &options : ways) {
      auto [report, right] = run(*emulator, inner, options);
      EXPECT_TRUE(report.passed()) << report.str();
      EXPECT_TRUE(right) << "inner " << inner << " seed " << options.seed;
      EXPECT_EQ(report.counters.tensorFlops, uint64_t(2 * tile * tile * inner));
      EXPECT_EQ(report.counters.bankConflicts(), 0u);
      EXPECT_EQ(report.counters.globalReadBytes, uint64_t(2 * tile * inner * 2));
      EXPECT_EQ(report.counters.barriers, uint64_t(inner / stepInner));
      const BlockCount *body = &report.counters.coverage[1];
      EXPECT_EQ(body->name, "k:%loop");
      EXPECT_EQ(body->entered, uint64_t(128 * inner / stepInner));
      EXPECT_EQ(body->barriers, 1u);
      EXPECT_EQ(report.counters.coverage[3].tensorInstructions, 16u); // "compute"
    }
  }
}

TEST(Pipeline, AcceptsEndWithoutLastWait) {
  auto emulator = compileKernel(PipelineMatmul(64, Fault::NoFinalWait).text());
  ASSERT_TRUE(emulator);
  // The pending groups are empty: no bytes are in flight.
  EXPECT_TRUE(run(*emulator, 64, ways[1]).first.passed());
}

TEST(Pipeline, ReportsTypicalFaults) {
  const std::pair<Fault, ViolationKind> faults[] = {
      {Fault::NoWait, ViolationKind::UnwaitedCopy},
      {Fault::WaitTooShort, ViolationKind::UnwaitedCopy},
      {Fault::NoBarrier, ViolationKind::UnwaitedCopy},
      {Fault::CopyTooEarly, ViolationKind::UnwaitedCopy}};
  for (auto [fault, kind] : faults) {
    auto emulator = compileKernel(PipelineMatmul(256, fault).text());
    ASSERT_TRUE(emulator);
    for (Options options : ways) {
      options.mostViolations = 1000;
      auto [report, right] = run(*emulator, 256, options);
      ASSERT_FALSE(report.passed()) << int(fault) << " seed " << options.seed;
      EXPECT_EQ(report.violations[0].kind, kind) << report.str();
      if (fault == Fault::NoWait || fault == Fault::WaitTooShort) {
        // Comparing numbers would find it only if copies happen to be slow.
        EXPECT_EQ(right, options.copies == Copies::Early) << int(fault);
      }
    }
  }
}

TEST(Pipeline, UnswizzledRowsHaveBankConflicts) {
  auto emulator = compileKernel(PipelineMatmul(64, Fault::NoSwizzle).text());
  ASSERT_TRUE(emulator);
  auto [report, right] = run(*emulator, 64, ways[0]);
  EXPECT_TRUE(report.passed() && right) << report.str();
  EXPECT_GT(report.counters.bankConflicts(), report.counters.leastPasses / 2);
}

} // namespace
