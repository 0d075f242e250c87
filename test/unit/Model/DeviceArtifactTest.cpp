// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Lowers dispatches to an artifact with GPU code, and runs that code in the runtime on the
// emulator.
#include "DeviceArtifact.h"

#include "sluice/Runtime/Device/Emulator/EmulatorDevice.h"
#include "sluice/Runtime/Execute/Executor.h"
#include "sluice/Runtime/Generate/Generator.h"
#include "sluice/Runtime/Plan/Inspect.h"
#include "sluice/Support/Error.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <random>

using namespace sluice;
using namespace sluice::runtime;
using namespace sluice::test;

namespace {

/// A feed-forward layer between an embedding and a head, on the last row, of bf16 with f32 master
/// weights; no size is a multiple of another.
const char *feedForward = R"(
#row = #dispatch.access<row, factor = 1>
#out = #dispatch.access<row>
#vector = #dispatch.access<vector>
#table = #dispatch.access<gather, index = 0>
#lastRow = #dispatch.access<row[n - 1], factor = 1>
#all = #dispatch.domain<batch = 3, positions = 21, factor = 1>
#one = #dispatch.domain<batch = 3, positions = 1, factor = 0>
#flat = #dispatch.access<flat>
#parameters = #dispatch.domain<batch = 1, positions = 7, factor = 0>
module attributes {sluice.batch = 3 : i64, sluice.context = 21 : i64, sluice.name = "road",
    sluice.seed = 0 : i64, sluice.training = {steps = 1.0 : f64}, sluice.vocabulary = 70 : i64,
    sluice.width = 25 : i64} {
  sluice.parameter @table : tensor<70x25xf32> {initial = "zeros", names = ["table"], sizes = array<i64: 70>}
  sluice.parameter @in : tensor<37x25xf32> {initial = "zeros", names = ["in"], sizes = array<i64: 37>}
  sluice.parameter @bias : tensor<37xf32> {initial = "zeros", names = ["bias"], sizes = array<i64: 37>}
  sluice.parameter @out : tensor<25x37xf32> {initial = "zeros", names = ["out"], sizes = array<i64: 25>}
  sluice.parameter @head : tensor<70x25xf32> {initial = "zeros", names = ["head"], sizes = array<i64: 70>}
  func.func @predict() {
    %tokens = plan.bind "input:tokens" : tensor<3x22xi32>
    %table = plan.bind "parameter:table" : tensor<70x25xf32>
    %x = dispatch.rows %tokens, %table attributes {accesses = [#row, #table], domain = #all,
        result_accesses = [#out]} {
    ^bb0(%token: i32, %row: tensor<25xf32>):
      dispatch.yield %row : tensor<25xf32>
    } : (tensor<3x22xi32>, tensor<70x25xf32>) -> tensor<3x21x25xbf16>
    %w1 = plan.bind "compute:in" : tensor<37x25xbf16>
    %b1 = plan.bind "parameter:bias" : tensor<37xf32>
    %h = dispatch.contract %x, %w1, %b1 attributes {accesses = [#vector], domain = #all,
        result_accesses = [#out]} {
    ^bb0(%acc: f32, %bias: f32):
      %sum = arith.addf %acc, %bias : f32
      %zero = arith.constant 0.0 : f32
      %positive = arith.cmpf ogt, %sum, %zero : f32
      %y = arith.select %positive, %sum, %zero : f32
      dispatch.yield %y : f32
    } : (tensor<3x21x25xbf16>, tensor<37x25xbf16>, tensor<37xf32>) -> tensor<3x21x37xbf16>
    %w2 = plan.bind "compute:out" : tensor<25x37xbf16>
    %z = dispatch.contract %h, %w2, %x attributes {accesses = [#row], domain = #all,
        result_accesses = [#out]} {
    ^bb0(%acc: f32, %residual: f32):
      %y = arith.addf %acc, %residual : f32
      dispatch.yield %y : f32
    } : (tensor<3x21x37xbf16>, tensor<25x37xbf16>, tensor<3x21x25xbf16>) -> tensor<3x21x25xbf16>
    %l = dispatch.rows %z attributes {accesses = [#lastRow], domain = #one,
        result_accesses = [#out]} {
    ^bb0(%row: tensor<25xf32>):
      dispatch.yield %row : tensor<25xf32>
    } : (tensor<3x21x25xbf16>) -> tensor<3x1x25xbf16>
    %w3 = plan.bind "compute:head" : tensor<70x25xbf16>
    %logits = dispatch.contract %l, %w3 attributes {accesses = [], domain = #one,
        result_accesses = [#out]} {
    ^bb0(%acc: f32):
      dispatch.yield %acc : f32
    } : (tensor<3x1x25xbf16>, tensor<70x25xbf16>) -> tensor<3x1x70xf32>
    plan.store "output:logits", %logits : tensor<3x1x70xf32>
    return
  }
  func.func @prepare() {
    %masters = plan.bind "flat:parameters" : tensor<7x1024xf32>
    %copies = dispatch.rows %masters attributes {accesses = [#flat], aliases = array<i64: -1>,
        domain = #parameters, result_accesses = [#flat]} {
    ^bb0(%row: tensor<1024xf32>):
      dispatch.yield %row : tensor<1024xf32>
    } : (tensor<7x1024xf32>) -> tensor<7x1024xbf16>
    plan.store "flat:compute", %copies : tensor<7x1024xbf16>
    return
  }
}
)";

class DeviceArtifact : public testing::Test {
protected:
  DeviceArtifact() : folder(::mkdtemp(pattern.data())) {}
  ~DeviceArtifact() override { std::filesystem::remove_all(folder); }

  std::shared_ptr<const Artifact> compile(const std::vector<std::string> &targets,
                                          bool claimsLess = false, int64_t workspaceBytes = 0,
                                          int64_t counters = 0) {
    LoweringRequest request = {feedForward, targets,        folder + "/art.sla",
                               claimsLess,  workspaceBytes, counters};
    std::string problem = lowerToArtifact(request);
    EXPECT_EQ(problem, "");
    return problem.empty() ? Artifact::load(request.path) : nullptr;
  }

  std::string pattern = (std::filesystem::temp_directory_path() / "sluice-road-XXXXXX").string();
  std::string folder;
};

/// Small integers, four per row of the layer's matrices: every product and sum is exact in bf16 and
/// f32, so targets must agree bitwise.
void setWeights(Executor &executor) {
  std::mt19937 generator(1);
  auto draw = [&](int from, int to) {
    return static_cast<float>(std::uniform_int_distribution<int>(from, to)(generator));
  };
  for (const Tensor &tensor : executor.plan().tensors) {
    std::span<float> values = executor.tensor(tensor);
    bool sparse = tensor.name == "in" || tensor.name == "out";
    auto width = static_cast<size_t>(tensor.shape.back());
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = sparse && i % width % 9 != i / width % 9 ? 0 : draw(-2, 2);
    }
  }
  executor.prepare();
}

std::vector<float> predict(Executor &executor, int64_t length, int64_t rows) {
  std::span<int32_t> tokens = executor.tokens();
  for (size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<int32_t>(i * 31 % 70);
  }
  executor.scalarI64("length") = length;
  executor.scalarI64("rows") = rows;
  executor.run("predict");
  std::vector<float> all;
  for (int64_t row = 0; row < rows; ++row) {
    std::span<const float> logits = executor.outputRow("logits", row);
    all.insert(all.end(), logits.begin(), logits.end());
  }
  return all;
}

TEST_F(DeviceArtifact, EmulatedKernelsMatchTheCpu) {
  auto artifact = compile({"cpu-avx2", "sm_80", "sm_90a"});
  ASSERT_TRUE(artifact);
  Executor cpu(artifact, 1);
  setWeights(cpu);
  for (const char *target : {"sm_80", "sm_90a"}) {
    Executor emulated(makeEmulatorDevice(artifact, target));
    EXPECT_EQ(emulated.target(), target);
    setWeights(emulated);
    for (auto [length, rows] : {std::pair{21, 3}, std::pair{8, 2}, std::pair{1, 1}}) {
      std::vector<float> expected = predict(cpu, length, rows);
      EXPECT_GT(*std::max_element(expected.begin(), expected.end()), 8) << "hardly a test";
      EXPECT_EQ(predict(emulated, length, rows), expected) << target << " length " << length;
    }
  }
}

TEST_F(DeviceArtifact, GpuArtifactNeedsNoCpuCode) {
  auto artifact = compile({"sm_80"});
  ASSERT_TRUE(artifact);
  EXPECT_EQ(artifact->target(), "");
  Executor emulated(makeEmulatorDevice(artifact));
  setWeights(emulated);
  std::string text;
  SamplingOptions likeliest;
  likeliest.temperature = 0;
  generate(emulated, "12#3", 3, likeliest, [&](uint8_t byte) {
    text += static_cast<char>(byte);
    return true;
  });
  EXPECT_EQ(text.size(), 3u);
  try {
    Executor cpu(artifact, 1);
    FAIL() << "there is no code for a CPU";
  } catch (const UserError &error) {
    EXPECT_NE(std::string(error.what()).find("found code for sm_80"), std::string::npos)
        << error.what();
  }
}

TEST_F(DeviceArtifact, ViolationsNameTheKernel) {
  auto artifact = compile({"sm_80"}, true);
  ASSERT_TRUE(artifact);
  Executor emulated(makeEmulatorDevice(artifact));
  try {
    predict(emulated, 21, 3);
    FAIL() << "a kernel wrote past what the plan says";
  } catch (const JobError &error) {
    std::string message = error.what();
    std::string symbol = artifact->plan().kernels[0].deviceVariants.at("sm_80").stages[0].symbol;
    EXPECT_NE(message.find("in kernel \"rows_3x22_70x25_k0\" (" + symbol + ", sm_80)"),
              std::string::npos)
        << message;
    EXPECT_NE(message.find("out of bounds"), std::string::npos) << message;
  }
}

TEST_F(DeviceArtifact, LaunchesShareOneWorkspace) {
  auto artifact = compile({"sm_80"}, false, 5000);
  ASSERT_TRUE(artifact);
  const Plan &plan = artifact->plan();
  auto workspace = std::find_if(plan.buffers.begin(), plan.buffers.end(),
                                [](const Buffer &buffer) { return buffer.kind == "workspace"; });
  ASSERT_NE(workspace, plan.buffers.end());
  EXPECT_EQ(workspace->bytes, 5000);
  for (const Launch &launch : plan.entries.at("predict")) {
    EXPECT_EQ(launch.arguments.back(), workspace->offset);
    size_t operands = plan.kernels[static_cast<size_t>(launch.kernel)].operands.size();
    EXPECT_EQ(launch.arguments.size(), operands + 4 + 2); // scalars, first stream, workspace
  }
  for (const Buffer &buffer : plan.buffers) {
    EXPECT_TRUE(buffer.kind == "workspace" || buffer.offset + buffer.bytes <= workspace->offset);
  }
  Executor emulated(makeEmulatorDevice(artifact));
  predict(emulated, 21, 3);
}

TEST_F(DeviceArtifact, CountersPrecedeTheWorkspaceAndStayZero) {
  auto artifact = compile({"sm_80"}, false, 5000, 3);
  ASSERT_TRUE(artifact);
  const Plan &plan = artifact->plan();
  auto find = [&](const std::string &kind) {
    return *std::find_if(plan.buffers.begin(), plan.buffers.end(),
                         [&](const Buffer &buffer) { return buffer.kind == kind; });
  };
  Buffer counters = find("counters");
  EXPECT_EQ(counters.bytes, 64); // three of them, rounded up to what offsets are multiples of
  EXPECT_EQ(counters.offset + counters.bytes, find("workspace").offset);
  for (const Buffer &buffer : plan.buffers) {
    EXPECT_TRUE(buffer.kind == "counters" || buffer.kind == "workspace" ||
                buffer.offset + buffer.bytes <= counters.offset);
  }
  std::unique_ptr<Device> device = makeEmulatorDevice(artifact);
  uint8_t *middle = device->host() + find("workspace").offset - 8;
  Executor emulated(std::move(device));
  predict(emulated, 21, 3);
  *middle = 1; // as if one block had arrived and the others had not
  try {
    predict(emulated, 21, 3);
    FAIL() << "a kernel left a counter that is not zero";
  } catch (const JobError &error) {
    std::string message = error.what();
    EXPECT_NE(message.find("a counter of arrived blocks that is not zero"), std::string::npos)
        << message;
  }
}

TEST_F(DeviceArtifact, HoldsBitcodePtxAndCubins) {
  auto artifact = compile({"cpu-avx2", "sm_80", "sm_90a"});
  ASSERT_TRUE(artifact);
  bool hasCubins = !artifact->blob("k0_sm_80_cubin").empty();
  if (!hasCubins) {
    std::cout << "no ptxas: PTX only\n";
  }
  for (const PlanKernel &kernel : artifact->plan().kernels) {
    for (const char *target : {"sm_80", "sm_90a"}) {
      const DeviceVariant &variant = kernel.deviceVariants.at(target);
      std::span<const uint8_t> ptx = artifact->blob(variant.module + "_ptx"),
                               bitcode = artifact->blob(variant.module + "_bitcode"),
                               cubin = artifact->blob(variant.module + "_cubin");
      std::string text(ptx.begin(), ptx.end());
      EXPECT_NE(text.find(".target " + std::string(target)), std::string::npos);
      EXPECT_EQ(variant.stages[0].symbol.find(kernel.kind + "_"), 0u); // and a hash
      EXPECT_NE(text.find(".entry " + variant.stages[0].symbol + "("), std::string::npos);
      EXPECT_EQ(std::string(bitcode.begin(), bitcode.begin() + 2), "BC");
      EXPECT_EQ(!cubin.empty(), hasCubins);
      EXPECT_EQ(variant.stages[0].registers > 0, hasCubins);
      EXPECT_LE(variant.stages[0].spills, 0);
    }
  }
  auto again = compile({"cpu-avx2", "sm_80", "sm_90a"});
  std::span<const uint8_t> first = artifact->elf(), second = again->elf();
  EXPECT_TRUE(std::equal(first.begin(), first.end(), second.begin(), second.end()))
      << "the same input gave other bytes";
  std::string people = describeForPeople(*artifact, false);
  EXPECT_NE(people.find("sm_90a: kernels for a GPU"), std::string::npos);
}

} // namespace
