// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The bigram model through the driver's interface, on the stand-in of FakeCuda.cpp: what is called,
// in which order, and that the numbers are the CPU's.
#include "CudaGpu.h"
#include "CudaLanes.h"
#include "CudaLaunch.h"
#include "Fixture.h"

#include "sluice/Runtime/Checkpoint.h"
#include "sluice/Runtime/Error.h"
#include "sluice/Runtime/Evaluator.h"

#include <cmath>
#include <dlfcn.h>
#include <set>
#include <sstream>
#include <thread>

using namespace sluice::runtime;
using namespace sluice::test;

namespace {

class CudaDevice : public testing::Test {
protected:
  CudaDevice() : library(::dlopen(FAKE_CUDA, RTLD_NOW | RTLD_LOCAL)) {
    ::setenv("SLUICE_CUDA_DRIVER", FAKE_CUDA, 1);
    ::setenv("FAKE_CUDA_KERNELS", BIGRAM_GPU_LIBRARY, 1);
    artifact = gpuBigramArtifact(folder);
    forget();
    changedBefore = changed();
  }
  ~CudaDevice() override {
    EXPECT_EQ(changed(), changedBefore) << "a copy's source was let go before it was read";
    for (const char *name : {"FAKE_CUDA_CAPABILITY", "FAKE_CUDA_FREE", "FAKE_CUDA_REFUSE_CUBIN",
                             "FAKE_CUDA_FAIL", "FAKE_CUDA_VERSION", "FAKE_CUDA_COUNT"}) {
      ::unsetenv(name);
    }
  }

  std::unique_ptr<Executor> open() { return std::make_unique<Executor>(makeCudaDevice(artifact)); }
  template <typename T> T symbol(const char *name) const {
    return reinterpret_cast<T>(::dlsym(library, name));
  }
  void forget() const { symbol<void (*)()>("fakeCudaForget")(); }
  std::string calls() const { return symbol<const char *(*)()>("fakeCudaCalls")(); }
  size_t allocated() const { return symbol<size_t (*)()>("fakeCudaAllocated")(); }
  size_t changed() const { return symbol<size_t (*)()>("fakeCudaChanged")(); }
  /// Calls whose line begins with `start`.
  int count(const std::string &start) const {
    std::istringstream lines(calls());
    int found = 0;
    for (std::string line; std::getline(lines, line);) {
      found += line.starts_with(start);
    }
    return found;
  }

  TemporaryFolder folder;
  void *library;
  size_t changedBefore = 0;
  std::shared_ptr<const Artifact> artifact;
};

void fillTokens(Executor &executor, unsigned seed) {
  std::string text = easyText(executor.tokens().size(), seed);
  std::copy(text.begin(), text.end(), executor.tokens().begin());
  executor.scalarI64("length") = 13;
  executor.scalarI64("rows") = 3;
}

/// Steps with other tokens each; then every number that the host can see, as bytes.
std::string trainedBytes(Executor &executor, bool fillAhead) {
  executor.scalarI64("seed") = 3;
  executor.run("initialize");
  std::string bytes;
  auto add = [&](const void *data, size_t size) {
    bytes.append(static_cast<const char *>(data), size);
  };
  for (int step = 1; step <= 5; ++step) {
    fillTokens(executor, static_cast<unsigned>(step));
    executor.scalarI64("step") = step;
    executor.run("gradient");
    if (fillAhead) { // while the device may not have read the tokens yet
      fillTokens(executor, 99);
      executor.scalarI64("step") = step; // update reads it too
    }
    executor.run("update");
    for (const char *name : {"loss", "grad_norm", "learning_rate"}) {
      float value = executor.scalarF32(name);
      add(&value, sizeof value);
    }
  }
  for (const Tensor &tensor : executor.plan().tensors) {
    for (std::span<float> values :
         {executor.tensor(tensor, Access::Read), executor.gradient(tensor, Access::Read),
          executor.state(tensor, "adam.m", Access::Read),
          executor.state(tensor, "adam.v", Access::Read)}) {
      add(values.data(), values.size_bytes());
    }
  }
  fillTokens(executor, 7);
  executor.run("evaluate");
  for (int64_t row = 0; row < 4; ++row) {
    std::span<const float> losses = executor.outputRow("losses", row);
    add(losses.data(), losses.size_bytes());
  }
  executor.run("predict");
  for (int64_t row = 0; row < 3; ++row) {
    std::span<const float> logits = executor.outputRow("logits", row);
    add(logits.data(), logits.size_bytes());
  }
  return bytes;
}

TEST_F(CudaDevice, TrainsAsTheCpuDoes) {
  Executor cpu(artifact, 2);
  std::string expected = trainedBytes(cpu, false);
  for (bool fillAhead : {false, true}) {
    auto gpu = open();
    EXPECT_EQ(gpu->target(), "sm_80");
    EXPECT_EQ(gpu->describeDevice(), "Fake H200");
    EXPECT_TRUE(trainedBytes(*gpu, fillAhead) == expected) << fillAhead;
  }
  EXPECT_EQ(allocated(), 0u) << "memory of the device or pinned memory was not given back";
}

TEST_F(CudaDevice, ResultsAreTheSameWhileTiming) {
  Executor cpu(artifact, 1);
  std::string expected = trainedBytes(cpu, false);
  auto gpu = open();
  gpu->startTiming();
  EXPECT_TRUE(trainedBytes(*gpu, true) == expected);
  EXPECT_EQ(count("cuGraphLaunch"), 0);
  EXPECT_EQ(gpu->times()[6].launches, 5);
  EXPECT_NEAR(gpu->times()[6].seconds, 5 * 0.5e-3, 1e-9); // the stand-in's half a millisecond
}

TEST_F(CudaDevice, EntriesBecomeGraphsOnce) {
  auto gpu = open();
  gpu->run("initialize");
  fillTokens(*gpu, 1);
  forget();
  for (int step = 1; step <= 3; ++step) {
    gpu->scalarI64("step") = step;
    gpu->run("gradient");
    gpu->run("update");
  }
  EXPECT_EQ(count("cuStreamBeginCapture_v2"), 3); // gradient, update, update under its guard
  EXPECT_EQ(count("cuGraphInstantiateWithFlags"), 3);
  EXPECT_EQ(count("cuLaunchKernel"), 6);
  EXPECT_EQ(count("cuGraphLaunch 4"), 3);
  EXPECT_EQ(count("cuGraphLaunch 1"), 6);
  EXPECT_EQ(count("cuMemAlloc_v2") + count("cuMemAllocHost_v2"), 0);
  EXPECT_EQ(count("cuMemcpyHtoDAsync_v2 272 pinned"), 3) << "tokens, once a step";
  EXPECT_EQ(count("cuMemcpyHtoDAsync_v2 8 pinned"), 5) << "length and rows once, step thrice";
  EXPECT_EQ(count("cuStreamSynchronize"), 3) << "for the guard, once a step";
}

// The guard's scalar is fetched with all others, before the optimizer, which writes none of them.
TEST_F(CudaDevice, MetricsAreReadWithoutWaiting) {
  auto gpu = open();
  gpu->run("initialize");
  fillTokens(*gpu, 1);
  gpu->scalarI64("step") = 1;
  gpu->run("gradient");
  gpu->run("update");
  forget();
  EXPECT_EQ(gpu->scalarI32("finite"), 1);
  EXPECT_GT(gpu->scalarF32("loss"), 0);
  EXPECT_GT(gpu->scalarF32("grad_norm"), 0);
  EXPECT_EQ(calls(), "");
}

TEST_F(CudaDevice, GuardKeepsTheOptimizerFromRunning) {
  auto gpu = open();
  gpu->run("initialize");
  fillTokens(*gpu, 1);
  gpu->scalarI64("step") = 1;
  gpu->run("gradient");
  const Tensor &table = gpu->plan().tensors[0];
  gpu->gradient(table)[5] = NAN; // taken back by the next run
  forget();
  gpu->run("update");
  EXPECT_EQ(gpu->scalarI32("finite"), 0);
  EXPECT_EQ(count("cuGraphLaunch"), 1);
  gpu->gradient(table)[5] = 1;
  gpu->run("update");
  EXPECT_EQ(gpu->scalarI32("finite"), 1);
  EXPECT_EQ(count("cuGraphLaunch"), 3);
}

TEST_F(CudaDevice, CheckpointsAndWeightsGoThroughTheHost) {
  auto gpu = open();
  trainedBytes(*gpu, false);
  TrainingState state;
  state.step = 5;
  saveCheckpoint(folder / "run", *gpu, state, 1);
  auto other = open();
  loadCheckpoint(folder / "run", *other);
  Executor cpu(artifact, 1);
  loadWeights(folder / "run", cpu);
  for (Executor *executor : {gpu.get(), other.get(), &cpu}) {
    fillTokens(*executor, 5);
    executor->run("predict");
  }
  for (int64_t row = 0; row < 3; ++row) {
    std::span<const float> a = gpu->outputRow("logits", row), b = other->outputRow("logits", row),
                           c = cpu.outputRow("logits", row);
    EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin()));
    EXPECT_TRUE(std::equal(a.begin(), a.end(), c.begin()));
  }
}

/// For each launch, those that surely end before it begins.
std::vector<std::set<size_t>> orderOf(const std::vector<cuda::Lane> &lanes) {
  std::vector<std::set<size_t>> before(lanes.size());
  for (size_t i = 0; i < lanes.size(); ++i) {
    auto add = [&](size_t other) {
      before[i].insert(before[other].begin(), before[other].end());
      before[i].insert(other);
    };
    for (size_t other = i; other-- > 0;) { // the one before it in its lane
      if (lanes[other].side == lanes[i].side) {
        add(other);
        break;
      }
    }
    if (lanes[i].waitsFor >= 0 && lanes[static_cast<size_t>(lanes[i].waitsFor)].signals) {
      add(static_cast<size_t>(lanes[i].waitsFor));
    }
  }
  return before;
}

/// Pairs of launches that nothing orders, once the plan's own dependences hold.
size_t countUnordered(const Plan &plan, const std::string &entry) {
  const std::vector<Launch> &launches = plan.entries.at(entry);
  // The plan's dependences count the one workspace, as lanes that share it do.
  std::vector<std::set<size_t>> before =
      orderOf(cuda::assignLanes(plan, "sm_80", launches, 0, launches.size(), false));
  size_t unordered = 0;
  for (size_t b = 0; b < launches.size(); ++b) {
    for (int64_t a : launches[b].after) {
      EXPECT_TRUE(before[b].contains(static_cast<size_t>(a))) << entry << " " << a << " " << b;
    }
    unordered += b - before[b].size();
  }
  return unordered;
}

/// Weight gradients beside the contraction that follows them, the input's gradient.
size_t countGradientPairs(const Plan &plan) {
  const std::vector<Launch> &launches = plan.entries.at("gradient");
  std::vector<std::set<size_t>> before =
      orderOf(cuda::assignLanes(plan, "sm_80", launches, 0, launches.size(), true));
  auto isOf = [&](size_t launch, const char *kind) {
    return plan.kernels[static_cast<size_t>(launches[launch].kernel)].name.starts_with(kind);
  };
  size_t pairs = 0;
  for (size_t i = 1; i < launches.size(); ++i) {
    pairs += isOf(i - 1, "weight_gradient_") && isOf(i, "contract_") && !before[i].contains(i - 1);
  }
  return pairs;
}

TEST_F(CudaDevice, LanesKeepThePlansOrder) {
  EXPECT_EQ(countUnordered(artifact->plan(), "gradient"), 2u); // the mean loss beside the rest
  EXPECT_EQ(countUnordered(artifact->plan(), "update"), 0u);
}

// What the compiler says must come after what, in a model with attention, norms and two scales, and
// what is one graph.
TEST_F(CudaDevice, LanesOfACompiledModelKeepItsOrder) {
  std::string command = std::string(SLUICE_PROGRAM) + " compile " TINY_MODEL " --target sm_80 -o " +
                        (folder / "tiny.sla").string();
  ASSERT_EQ(std::system(command.c_str()), 0);
  auto tiny = Artifact::load(folder / "tiny.sla");
  EXPECT_GT(countUnordered(tiny->plan(), "gradient"), 0u);
  EXPECT_GT(countGradientPairs(tiny->plan()), 10u); // four products a layer, of four layers
  for (const char *entry :
       {"initialize", "update", "evaluate", "predict", "prepare", "prefill", "step", "reset"}) {
    countUnordered(tiny->plan(), entry);
  }
  // Guards of rows that are due are the kernels' own: a token is one graph, without a wait.
  const std::vector<Launch> &step = tiny->plan().entries.at("step");
  EXPECT_TRUE(std::ranges::any_of(step, [](const Launch &launch) { return bool(launch.guard); }));
  EXPECT_EQ(cuda::cutSegments(tiny->plan(), "step", step).size(), 1u);
  EXPECT_GT(cuda::cutSegments(tiny->plan(), "update", tiny->plan().entries.at("update")).size(),
            1u);
}

TEST_F(CudaDevice, HopperCodeIsForHoppers) {
  cuda::Gpu gpu{0, "NVIDIA A100", 8, 0, 163 << 10};
  EXPECT_EQ(cuda::chooseTarget(*artifact, gpu, "sm_80"), "sm_80");
  std::string message = userError([&] { cuda::chooseTarget(*artifact, gpu, "sm_90a"); });
  EXPECT_EQ(message,
            "--gpu-target: expected code that NVIDIA A100 of compute capability 8.0 runs, "
            "found sm_90a, which runs on 9.0 alone; leave out --gpu-target, or give sm_80");
}

TEST_F(CudaDevice, PinnedMemoryDoesNotGrowWithTheBatch) {
  Plan plan = artifact->plan();
  EXPECT_EQ(cuda::stagingBytes(plan), 320); // 4 x 17 tokens
  plan.model.batch = 1 << 20;
  EXPECT_EQ(cuda::stagingBytes(plan), 4 << 20);
}

// The mean loss (launch 1) runs, at a lower priority, beside the gradient (2): it reads losses,
// which launch 0 writes.
TEST_F(CudaDevice, WhatNobodyReadsRunsBeside) {
  auto gpu = open();
  forget();
  fillTokens(*gpu, 1);
  gpu->run("gradient");
  EXPECT_EQ(std::string(symbol<const char *(*)()>("fakeCudaDependences")()),
            "0:\n1 (low): 0\n2: 0\n3: 2\n");
  EXPECT_EQ(count("cuStreamWaitEvent"), 3) << "fork, launch 0, join";
}

TEST_F(CudaDevice, LanesShareAWorkspaceOnlyInTurn) {
  Plan plan = artifact->plan();
  for (size_t kernel : {2, 3}) { // the mean loss and the gradient
    plan.kernels[kernel].deviceVariants.at("sm_80").workspaceBytes = 64;
    plan.kernels[kernel].deviceVariants.at("sm_80").counters = 3;
  }
  const std::vector<Launch> &launches = plan.entries.at("gradient");
  cuda::SideMemory needed = cuda::sideMemory(plan, "sm_80", launches, 0, 4);
  EXPECT_EQ(needed.workspaceBytes, 64);
  EXPECT_EQ(needed.counterBytes, 12);
  auto own = cuda::assignLanes(plan, "sm_80", launches, 0, 4, true),
       shared = cuda::assignLanes(plan, "sm_80", launches, 0, 4, false);
  EXPECT_TRUE(own[1].side);
  EXPECT_FALSE(orderOf(own)[2].contains(1));
  EXPECT_TRUE(orderOf(shared)[2].contains(1));
  for (size_t kernel : {2, 3}) { // counters alone are shared too
    plan.kernels[kernel].deviceVariants.at("sm_80").workspaceBytes = 0;
  }
  shared = cuda::assignLanes(plan, "sm_80", launches, 0, 4, false);
  EXPECT_TRUE(orderOf(shared)[2].contains(1));
}

TEST_F(CudaDevice, AnyThreadMayCall) {
  auto gpu = open();
  forget();
  gpu->run("initialize");
  EXPECT_EQ(count("cuCtxSetCurrent"), 0);
  std::thread([&] {
    gpu->run("initialize");
    gpu->synchronize();
  }).join();
  EXPECT_EQ(count("cuCtxSetCurrent"), 1);
  gpu->run("initialize");
  EXPECT_EQ(count("cuCtxSetCurrent"), 2);
}

TEST_F(CudaDevice, TakesTheCubinOrThePtx) {
  open();
  EXPECT_EQ(count("cuModuleLoadData cubin"), 8);
  EXPECT_EQ(count("cuModuleLoadData ptx"), 0);
  forget();
  ::setenv("FAKE_CUDA_CAPABILITY", "90", 1); // sm_80's cubin does not run there, its PTX does
  open();
  EXPECT_EQ(count("cuModuleLoadData cubin"), 0);
  EXPECT_EQ(count("cuModuleLoadData ptx"), 8);
  ::setenv("FAKE_CUDA_CAPABILITY", "86", 1);
  ::setenv("FAKE_CUDA_REFUSE_CUBIN", "1", 1);
  forget();
  open();
  EXPECT_EQ(count("cuModuleLoadData cubin"), 8);
  EXPECT_EQ(count("cuModuleLoadData ptx"), 8);
}

// Why, what it costs, and what to do; nothing where all is as it should be.
TEST_F(CudaDevice, SaysOnceThatTheCubinsWereRefused) {
  EXPECT_EQ(makeCudaDevice(artifact)->notice(), "");
  ::setenv("FAKE_CUDA_CAPABILITY", "90", 1); // PTX because no cubin fits: nothing was refused
  EXPECT_EQ(makeCudaDevice(artifact)->notice(), "");
  ::setenv("FAKE_CUDA_CAPABILITY", "86", 1);
  ::setenv("FAKE_CUDA_REFUSE_CUBIN", "1", 1);
  std::string notice = makeCudaDevice(artifact)->notice();
  size_t took = notice.find("which took ");
  ASSERT_NE(took, std::string::npos) << notice;
  EXPECT_EQ(notice.substr(0, took),
            artifact->path() +
                ": expected a driver that takes the machine code for sm_80 in the artifact, found "
                "one that refused 8 of 8 kernels (CUDA_ERROR_OTHER, as the fake was told); it "
                "compiled their PTX instead, ");
  EXPECT_NE(notice.find(" s and may give slower kernels than the ledger says. Update the driver, "
                        "or compile the spec with the ptxas of a CUDA release that the driver "
                        "knows"),
            std::string::npos)
      << notice;
  EXPECT_EQ(notice.find('\n'), std::string::npos);
}

// Larger than what is pinned: the range may be written again as soon as `upload` returns.
TEST_F(CudaDevice, LargeUploadsMayBeOverwrittenAtOnce) {
  std::unique_ptr<Device> device = makeCudaDevice(artifact);
  Range range{0, cuda::stagingBytes(artifact->plan()) + 64};
  std::fill_n(device->host(), range.bytes, uint8_t(1));
  device->upload(range);
  std::fill_n(device->host(), range.bytes, uint8_t(2));
  device->download(range);
  EXPECT_EQ(std::count(device->host(), device->host() + range.bytes, 1), range.bytes);
}

TEST_F(CudaDevice, SaysWhatIsWrong) {
  auto says = [&](const char *variable, const char *value, const std::string &piece) {
    ::setenv(variable, value, 1);
    std::string message = userError([&] { open(); });
    EXPECT_NE(message.find(piece), std::string::npos) << message;
    ::unsetenv(variable);
    EXPECT_EQ(allocated(), 0u) << variable;
  };
  says("FAKE_CUDA_COUNT", "0", "expected an NVIDIA GPU, found none");
  says("FAKE_CUDA_VERSION", "11080", "CUDA 12.0 or later, found one for CUDA 11.8; update");
  says("FAKE_CUDA_CAPABILITY", "75",
       "compute capability 8.0 (Ampere) or later, found Fake H200 of 7.5");
  // 300352 bytes at batch 4, none of them in flat buffers: 40% of the memory is 40% of the batch.
  says("FAKE_CUDA_FREE", "160000",
       "expected 300352 bytes of GPU memory for the arena at batch 4 (the plan's peak is 300352), "
       "found 160000 free on Fake H200; set the spec's batch to 2");
  says("FAKE_CUDA_FREE", "1000", "free memory of the GPU");
  says("FAKE_CUDA_FAIL", "cuMemAlloc_v2", "failed to allocate the arena: CUDA_ERROR_INVALID_VALUE");
  says("FAKE_CUDA_FAIL", "cuModuleLoadData",
       "failed to compile the PTX of initialize_table (ptxas fake: line 3)");
  says("FAKE_CUDA_STATIC", "240000",
       "needs 240000 bytes of shared memory a block (240000 of them static), expected at most the "
       "232448");
  says("FAKE_CUDA_FAIL", "cuModuleGetFunction", "initialize_table");
  std::string message = userError([&] { makeCudaDevice(artifact, "sm_90a"); });
  EXPECT_NE(message.find("expected code for sm_90a for --device cuda, found code for cpu-avx2"),
            std::string::npos)
      << message;
}

/// A model whose texts may have as many segments as tokens, on the stand-in with its CPU code.
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

// 5, 7, 21, 21, 5 and 64 segments of a text: the least memory, that of half of 64 rows, and all.
TEST_F(CudaSegments, TheArenaIsThatOfTheSegmentsSoFar) {
  const Plan &plan = artifact->plan();
  ASSERT_EQ(plan.memoryBuckets.size(), 3u);
  auto gpu = open();
  Executor cpu(artifact, 1);
  begin(*gpu);
  begin(cpu);
  int64_t first = allocations().at(0); // with what the side lane has behind the arena
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

// A batch that does not fit waits for nothing but the scan, and the rest of its launches never run.
TEST_F(CudaSegments, ABatchThatDoesNotFitEndsBehindItsScan) {
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

// Where a larger arena does not fit, the one that there is stays, with all that is in it.
TEST_F(CudaSegments, TheArenaStaysWhereALargerOneDoesNotFit) {
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

// Tensors that lie between each other's rows do not hold each other up. Whatever runs over the rows
// of segments waits for their number.
TEST_F(CudaSegments, LanesKeepTheOrder) {
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
      for (const std::set<size_t> &before : orderOf(lanes)) {
        ordered += before.size();
      }
      return ordered;
    };
    EXPECT_LT(waits(plan), waits(whole)) << name;
  }
}

TEST_F(CudaDevice, AFailingLaunchLeavesNoGraphBehind) {
  auto gpu = open();
  ::setenv("FAKE_CUDA_FAIL", "cuLaunchKernel", 1);
  std::string message = userError([&] { gpu->run("initialize"); });
  EXPECT_NE(message.find("failed to launch initialize_table"), std::string::npos) << message;
  ::unsetenv("FAKE_CUDA_FAIL");
  gpu->run("initialize");
  gpu->synchronize();
  EXPECT_NE(gpu->tensor(gpu->plan().tensors[0], Access::Read)[3], 0);
}

} // namespace
