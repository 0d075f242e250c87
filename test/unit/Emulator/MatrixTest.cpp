// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Fragment layouts of mma, ldmatrix and stmatrix, compared element by element with the PTX ISA
// ("Matrix Fragments for mma.m16n8k..."). Uses small integers, so every number is exact.
#include "FaultyKernel.h"

#include "gtest/gtest.h"
#include <cstring>
#include <functional>

using namespace sluice;
using namespace sluice::test;
using namespace sluice::emulator;

namespace {

/// Position of element i of a lane's fragment; group = lane / 4, inGroup = lane mod 4.
using PlaceFunction = std::function<int(int group, int inGroup, int i)>;

struct Form {
  const char *intrinsic;
  int inner, aElements, bElements, elementsPerRegister;
  const char *registerType;
  PlaceFunction aRow, aColumn, bRow;
  std::function<uint32_t(float)> encode; ///< the bits of a small integer
};

uint32_t toBits(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}
uint32_t asBf16(float x) { return toBits(x) >> 16; }
uint32_t asF16(float x) {
  _Float16 half = static_cast<_Float16>(x);
  uint16_t bits;
  std::memcpy(&bits, &half, sizeof bits);
  return bits;
}
/// With garbage in the bits that TF32 does not have.
uint32_t asTf32(float x) { return toBits(x) | 0x5a5; }

const PlaceFunction rowK16 = [](int g, int, int i) {
  return i < 2 || (i >= 4 && i < 6) ? g : g + 8;
};
const PlaceFunction columnK16 = [](int, int t, int i) {
  return t * 2 + (i & 1) + (i >= 4 ? 8 : 0);
};
const PlaceFunction bRowK16 = [](int, int t, int i) { return t * 2 + (i & 1) + (i >= 2 ? 8 : 0); };
const PlaceFunction rowK8 = [](int g, int, int i) { return i < 2 ? g : g + 8; };
const PlaceFunction columnK8 = [](int, int t, int i) { return t * 2 + (i & 1); };

std::vector<Form> forms() {
  PlaceFunction rowTf32K8 = [](int g, int, int i) { return i == 0 || i == 2 ? g : g + 8; };
  PlaceFunction columnTf32K8 = [](int, int t, int i) { return i < 2 ? t : t + 4; };
  PlaceFunction bRowTf32K8 = [](int, int t, int i) { return i == 0 ? t : t + 4; };
  PlaceFunction rowTf32K4 = [](int g, int, int i) { return i == 0 ? g : g + 8; };
  PlaceFunction justInGroup = [](int, int t, int) { return t; };
  return {
      {"mma.m16n8k16.row.col.bf16", 16, 8, 4, 2, "i32", rowK16, columnK16, bRowK16, asBf16},
      {"mma.m16n8k8.row.col.bf16", 8, 4, 2, 2, "i32", rowK8, columnK8, columnK8, asBf16},
      {"mma.m16n8k16.row.col.f32.f32", 16, 8, 4, 2, "<2 x half>", rowK16, columnK16, bRowK16,
       asF16},
      {"mma.m16n8k8.row.col.f32.f32", 8, 4, 2, 2, "<2 x half>", rowK8, columnK8, columnK8, asF16},
      {"mma.m16n8k8.row.col.tf32", 8, 4, 2, 1, "i32", rowTf32K8, columnTf32K8, bRowTf32K8, asTf32},
      {"mma.m16n8k4.row.col.tf32", 4, 2, 1, 1, "i32", rowTf32K4, justInGroup, justInGroup, asTf32},
  };
}

/// Each lane reads its registers of A and B and its numbers of C, 16 words in all, and writes its 4
/// numbers.
std::string multiplyText(const Form &form) {
  std::string type = form.registerType, call, types, loads;
  int registers = (form.aElements + form.bElements) / form.elementsPerRegister;
  for (int i = 0; i < registers + 4; ++i) {
    std::string n = std::to_string(i), loaded = i < registers ? type : "float";
    loads += "  %p" + n + " = getelementptr i32, ptr addrspace(1) %base, i64 " + n + "\n  %r" + n +
             " = load " + loaded + ", ptr addrspace(1) %p" + n + ", align 4\n";
    call += (i ? ", " : "") + loaded + " %r" + n;
    types += (i ? ", " : "") + loaded;
  }
  std::string name = "@llvm.nvvm." + std::string(form.intrinsic),
              result = "{float, float, float, float}";
  std::string body = "  %first = mul i64 %tid, 16\n"
                     "  %base = getelementptr i32, ptr addrspace(1) %in, i64 %first\n" +
                     loads + "  %d = call " + result + " " + name + "(" + call + ")\n";
  for (int i = 0; i < 4; ++i) {
    std::string n = std::to_string(i);
    body += "  %d" + n + " = extractvalue " + result + " %d, " + n + "\n  %o" + n +
            " = add i64 %first, " + n + "\n  %q" + n +
            " = getelementptr float, ptr addrspace(1) %out, i64 %o" + n + "\n  store float %d" + n +
            ", ptr addrspace(1) %q" + n + ", align 4\n";
  }
  FaultCase injected{body, ViolationKind::Limit, ""};
  injected.globals = "declare " + result + " " + name + "(" + types + ")\n";
  return kernelText(injected, false);
}

float smallInteger(int i, int j) { return float((i * 7 + j * 5 + i * j) % 13 - 6); }

TEST(Matrices, MatchFragmentLayoutsOfThePtxIsa) {
  for (const Form &form : forms()) {
    auto emulator = compileKernel(multiplyText(form));
    ASSERT_TRUE(emulator) << form.intrinsic;
    std::vector<uint32_t> in(32 * 16);
    std::vector<float> out(32 * 16, -99);
    for (int lane = 0; lane < 32; ++lane) {
      int g = lane / 4, t = lane % 4, each = form.elementsPerRegister;
      uint32_t *registers = &in[size_t(lane) * 16];
      for (int i = 0; i < form.aElements; ++i) {
        float a = smallInteger(form.aRow(g, t, i), form.aColumn(g, t, i));
        registers[i / each] |= form.encode(a) << 16 * (i % each);
      }
      for (int i = 0; i < form.bElements; ++i) {
        float b = smallInteger(form.bRow(g, t, i) + 20, g);
        registers[(form.aElements + i) / each] |= form.encode(b) << 16 * (i % each);
      }
      for (int i = 0; i < 4; ++i) {
        float c = smallInteger(i < 2 ? g : g + 8, t * 2 + (i & 1) + 40);
        registers[(form.aElements + form.bElements) / each + i] = toBits(c);
      }
    }
    EmulatedLaunch launch;
    launch.block = {32, 1, 1};
    launch.arguments = {reinterpret_cast<uint64_t>(in.data()),
                        reinterpret_cast<uint64_t>(out.data())};
    launch.buffers = {{"in", in.data(), in.size() * 4},
                      {"out", out.data(), out.size() * 4, Writes::AtMostOnce}};
    Report report = emulator->launch(launch);
    EXPECT_TRUE(report.passed()) << report.str();
    EXPECT_EQ(report.counters.tensorInstructions, 1u);
    EXPECT_EQ(report.counters.tensorFlops, uint64_t(2 * 16 * 8 * form.inner));
    for (int lane = 0; lane < 32; ++lane) {
      for (int i = 0; i < 4; ++i) {
        int row = lane / 4 + (i < 2 ? 0 : 8), column = lane % 4 * 2 + (i & 1);
        float expected = smallInteger(row, column + 40);
        for (int k = 0; k < form.inner; ++k) {
          expected += smallInteger(row, k) * smallInteger(k + 20, column);
        }
        EXPECT_EQ(out[size_t(lane) * 16 + size_t(i)], expected)
            << form.intrinsic << " row " << row << " column " << column;
      }
    }
  }
}

/// Rows of 16 bytes, `stride` apart: lane i brings the address of row i mod 8 of matrix i / 8.
std::string moveText(int count, bool transposed, bool stores, int stride) {
  std::string n = std::to_string(count), result, arguments, types;
  for (int i = 0; i < count; ++i) {
    result += i ? ", i32" : "i32";
    types += ", i32";
    arguments += ", i32 %r" + std::to_string(i);
  }
  result = count > 1 ? "{" + result + "}" : result;
  std::string name = "@llvm.nvvm." + std::string(stores ? "st" : "ld") +
                     "matrix.sync.aligned.m8n8.x" + n + (transposed ? ".trans" : "") + ".b16.p3";
  std::string body = "  %at = mul i64 %tid, " + std::to_string(stride) + R"(
  %row = getelementptr i8, ptr addrspace(3) @s, i64 %at
  %g = getelementptr <4 x i32>, ptr addrspace(1) %in, i64 %tid
  %v = load <4 x i32>, ptr addrspace(1) %g, align 16
)";
  std::string out = "  %o = getelementptr <4 x i32>, ptr addrspace(1) %out, i64 %tid\n";
  FaultCase injected{"", ViolationKind::Limit, ""};
  injected.globals = "@s = internal addrspace(3) global [4096 x i8] undef, align 16\n";
  if (stores) {
    injected.globals += "declare void " + name + "(ptr addrspace(3)" + types + ")\n";
    for (int i = 0; i < count; ++i) {
      std::string r = std::to_string(i);
      body += "  %r" + r + " = extractelement <4 x i32> %v, i32 " + r + "\n";
    }
    body += "  store <4 x i32> zeroinitializer, ptr addrspace(3) %row, align 16\n"
            "  call void @llvm.nvvm.bar.warp.sync(i32 -1)\n  call void " +
            name + "(ptr addrspace(3) %row" + arguments +
            ")\n  call void @llvm.nvvm.bar.warp.sync(i32 -1)\n"
            "  %x = load <4 x i32>, ptr addrspace(3) %row, align 16\n" +
            out + "  store <4 x i32> %x, ptr addrspace(1) %o, align 16\n";
  } else {
    injected.globals += "declare " + result + " " + name + "(ptr addrspace(3))\n";
    body += "  store <4 x i32> %v, ptr addrspace(3) %row, align 16\n"
            "  call void @llvm.nvvm.bar.warp.sync(i32 -1)\n  %d = call " +
            result + " " + name + "(ptr addrspace(3) %row)\n" + out;
    for (int i = 0; i < count; ++i) {
      std::string r = std::to_string(i);
      std::string value = count > 1 ? "%d" + r : "%d";
      body += count > 1 ? "  %d" + r + " = extractvalue " + result + " %d, " + r + "\n" : "";
      body += "  %q" + r + " = getelementptr i32, ptr addrspace(1) %o, i64 " + r +
              "\n  store i32 " + value + ", ptr addrspace(1) %q" + r + ", align 4\n";
    }
  }
  injected.body = body;
  return kernelText(injected, false);
}

class Moves : public testing::TestWithParam<std::tuple<int, bool, int>> {
protected:
  std::vector<uint16_t> run(bool stores, const std::vector<uint16_t> &in) {
    auto [count, transposed, stride] = GetParam();
    std::vector<uint16_t> out(256, 0xffff), source(in);
    auto emulator = compileKernel(moveText(count, transposed, stores, stride));
    if (emulator) {
      EmulatedLaunch launch;
      launch.block = {32, 1, 1};
      launch.arguments = {reinterpret_cast<uint64_t>(source.data()),
                          reinterpret_cast<uint64_t>(out.data())};
      launch.buffers = {{"in", source.data(), 512}, {"out", out.data(), 512, Writes::AtMostOnce}};
      Report report = emulator->launch(launch);
      EXPECT_TRUE(report.passed()) << report.str();
    }
    return out;
  }
};

/// Register m of a lane holds row lane / 4 of matrix m, columns 2 (lane mod 4) and the next.
TEST_P(Moves, Load) {
  auto [count, transposed, stride] = GetParam();
  std::vector<uint16_t> in(256);
  for (int matrix = 0; matrix < 4; ++matrix) {
    for (int i = 0; i < 64; ++i) {
      in[size_t(matrix * 64 + i)] = uint16_t(matrix * 1000 + i / 8 * 10 + i % 8);
    }
  }
  std::vector<uint16_t> out = run(false, in);
  for (int lane = 0; lane < 32; ++lane) {
    for (int matrix = 0; matrix < count; ++matrix) {
      for (int e = 0; e < 2; ++e) {
        int row = lane / 4, column = lane % 4 * 2 + e;
        int expected = matrix * 1000 + (transposed ? column * 10 + row : row * 10 + column);
        EXPECT_EQ(out[size_t(lane * 8 + matrix * 2 + e)], expected) << lane << ", " << matrix;
      }
    }
  }
}

TEST_P(Moves, Store) {
  auto [count, transposed, stride] = GetParam();
  std::vector<uint16_t> in(256);
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < 8; ++i) {
      int row = lane / 4, column = lane % 4 * 2 + i % 2;
      in[size_t(lane * 8 + i)] =
          uint16_t(i / 2 * 1000 + (transposed ? column * 10 + row : row * 10 + column));
    }
  }
  std::vector<uint16_t> out = run(true, in);
  for (int i = 0; i < 256; ++i) {
    int expected = i / 64 < count ? i / 64 * 1000 + i % 64 / 8 * 10 + i % 8 : 0;
    EXPECT_EQ(out[size_t(i)], expected) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Matrices, Moves,
                         testing::Combine(testing::Values(1, 2, 4), testing::Bool(),
                                          testing::Values(16, 48)));

} // namespace
