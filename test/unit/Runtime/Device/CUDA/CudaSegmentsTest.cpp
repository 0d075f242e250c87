// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Memory that follows the segments of texts, on the fake of a GPU: the allocated arena, the moved
// data, the end of a batch that does not fit, and the order of launches on streams.
#include "CudaFixture.h"
#include "Device/CUDA/CudaGraph.h"
#include "Device/CUDA/CudaLaunch.h"

#include "sluice/Support/Error.h"

using namespace sluice;
using namespace sluice::runtime;
using namespace sluice::test;

namespace {

/// A model whose texts may have one segment per token, on the fake with its CPU code.
class CudaSegments : public CudaDevice {
protected:
  CudaSegments() {
    artifact = compiled();
    ::setenv("FAKE_CUDA_KERNELS", artifact->path().c_str(), 1);
    forget();
  }

  /// Once for all tests.
  static std::shared_ptr<const Artifact> compiled() {
    static TemporaryFolder folder;
    static std::shared_ptr<const Artifact> artifact = compileInto(folder);
    return artifact;
  }
  static std::shared_ptr<const Artifact> compileInto(const TemporaryFolder &folder) {
    writeFile(folder / "words.json", R"({"sluice": 1, "vocabulary": 48, "context": 64, "batch": 3,
        "width": 32, "precision": {"compute": "bf16"}, "defaults": {"heads": 2, "dropout": 0.2},
        "stages": [{"op": "embedding"}, {"op": "boundaries", "name": "words", "rule": "whitespace"},
          {"op": "shorten", "segments": "words"}, {"op": "layer"},
          {"op": "upsample", "segments": "words"}, {"op": "head"}]})");
    std::string path = (folder / "words.sla").string();
    std::string command = std::string(SLUICE_PROGRAM) + " compile " +
                          (folder / "words.json").string() + " --target cpu-avx2,sm_80 -o " + path;
    EXPECT_EQ(std::system(command.c_str()), 0);
    return Artifact::load(path);
  }

  static void begin(Executor &executor) {
    executor.scalarI64("seed") = 3;
    executor.run("initialize");
  }
  /// Loss and weights of a step whose texts have a segment every `every` tokens.
  static std::vector<float> step(Executor &executor, int64_t number, size_t every) {
    executor.runUpdate(number, [&](int64_t) {
      std::span<int32_t> tokens = executor.tokens();
      for (size_t i = 0; i < tokens.size(); ++i) {
        tokens[i] = i % 65 % every == every - 1 ? ' ' : static_cast<int32_t>(33 + i * 7 % 13);
      }
    });
    std::vector<float> left{executor.scalarF32("loss"), executor.scalarF32("grad_norm")};
    for (const Tensor &tensor : executor.plan().tensors) {
      for (std::span<float> values : {executor.tensor(tensor, Access::Read),
                                      executor.state(tensor, "adam.v", Access::Read)}) {
        left.insert(left.end(), values.begin(), values.end());
      }
    }
    return left;
  }
  /// The bytes of each allocation since `forget`.
  std::vector<int64_t> allocations() const {
    std::istringstream lines(calls());
    std::vector<int64_t> bytes;
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("cuMemAlloc_v2 ")) {
        bytes.push_back(std::stoll(line.substr(line.find(' '))));
      }
    }
    return bytes;
  }
};

// 5, 7, 21, 21, 5 and 64 segments of a text: the minimum memory, the memory of half of 64 rows, and
// all.
TEST_F(CudaSegments, ArenaGrowsWithTheSegments) {
  const Plan &plan = artifact->plan();
  ASSERT_EQ(plan.memoryBuckets.size(), 3u);
  auto gpu = open();
  Executor cpu(artifact, 1);
  begin(*gpu);
  begin(cpu);
  int64_t first = allocations().at(0); // with the side stream's memory after the arena
  EXPECT_LT(first, plan.memory.arenaBytes);
  forget();
  size_t every[] = {12, 9, 3, 3, 12, 1}, grown[] = {0, 0, 1, 0, 0, 1};
  int64_t arenas[] = {0, 0, plan.memoryBuckets[2].arenaBytes, 0, 0, plan.memory.arenaBytes};
  for (size_t i = 0; i < std::size(every); ++i) {
    SCOPED_TRACE("step " + std::to_string(i + 1));
    size_t before = allocated();
    std::vector<float> found = step(*gpu, int64_t(i) + 1, every[i]);
    EXPECT_TRUE(found == step(cpu, int64_t(i) + 1, every[i]));
    EXPECT_EQ(gpu->room(), cpu.room());
    std::vector<int64_t> made = allocations();
    ASSERT_EQ(made.size(), 2 * grown[i]) << "an arena and its launches' arguments";
    if (grown[i] > 0) {
      EXPECT_EQ(made[0] - first, arenas[i] - plan.memoryBuckets[0].arenaBytes);
    }
    EXPECT_EQ(allocated(), before) << "the former arena was not given back";
    bool isNew = i == 0 || grown[i] > 0;
    EXPECT_EQ(count("cuStreamBeginCapture_v2") > 0, isNew) << "graphs of another arena";
    forget();
  }
}

// A batch that does not fit waits only for the scan, and the rest of its launches never run.
TEST_F(CudaSegments, StopsBatchThatDoesNotFitAfterItsScan) {
  const Plan &plan = artifact->plan();
  int64_t rows = plan.memoryBuckets[0].rows;
  std::string name = entryOfBucket("gradient", rows);
  std::vector<cuda::Segment> pieces = cuda::cutSegments(plan, name, plan.entries.at(name));
  ASSERT_EQ(pieces.size(), 2u);
  EXPECT_EQ(cuda::cutSegments(plan, "gradient", plan.entries.at("gradient")).size(), 1u);
  auto gpu = open();
  step(*gpu, 1, 12);
  int pieceCount = count("cuGraphLaunch ");
  forget();
  step(*gpu, 2, 3);
  EXPECT_EQ(count("cuGraphLaunch "), pieceCount + 1);
}

// If a larger arena does not fit, the present one remains, with its contents.
TEST_F(CudaSegments, RetainsArenaWhenGrowthFails) {
  const Plan &plan = artifact->plan();
  auto gpu = open();
  Executor cpu(artifact, 1);
  begin(*gpu);
  begin(cpu);
  EXPECT_TRUE(step(*gpu, 1, 12) == step(cpu, 1, 12));
  ::setenv("FAKE_CUDA_FREE", "4096", 1);
  std::string message = userError([&] { step(*gpu, 2, 3); });
  EXPECT_NE(message.find("expected " + std::to_string(plan.memoryBuckets[2].arenaBytes) +
                         " bytes of GPU memory for the arena at batch 3 and at most " +
                         std::to_string(plan.memoryBuckets[2].rows) + " segments a text"),
            std::string::npos)
      << message;
  ::unsetenv("FAKE_CUDA_FREE");
  EXPECT_TRUE(step(*gpu, 2, 3) == step(cpu, 2, 3));
}

// Tensors between each other's rows do not delay each other. Launches over the rows of segments
// wait for their number.
TEST_F(CudaSegments, StreamsRespectTheOrder) {
  const Plan &plan = artifact->plan();
  EXPECT_GT(countUnordered(plan, "gradient"), 0u);
  for (const Bucket &bucket : plan.memoryBuckets) {
    std::string name = entryOfBucket("gradient", bucket.rows);
    EXPECT_GT(countUnordered(plan, name), 0u);
    Plan whole = plan;
    for (Launch &launch : whole.entries.at(name)) {
      launch.runs.clear();
    }
    auto waits = [&](const Plan &of) {
      size_t launches = of.entries.at(name).size();
      auto lanes = cuda::assignLanes(of, "sm_80", of.entries.at(name), 0, launches, true);
      size_t ordered = 0;
      for (const std::set<size_t> &before : getLaneOrder(lanes)) {
        ordered += before.size();
      }
      return ordered;
    };
    EXPECT_LT(waits(plan), waits(whole)) << name;
  }
}

} // namespace
