// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The bigram model through the driver API, on the fake driver of FakeCuda.cpp: the calls, their
// order, and results equal to the CPU's.
#include "CudaFixture.h"
#include "Device/CUDA/CudaGpu.h"
#include "Device/CUDA/CudaGraph.h"
#include "Device/CUDA/CudaLaunch.h"

#include "sluice/Runtime/Device/CUDA/CudaDevice.h"
#include "sluice/Runtime/Execute/Evaluator.h"
#include "sluice/Runtime/Train/Checkpoint.h"
#include "sluice/Support/Error.h"

#include <cmath>
#include <numeric>
#include <thread>

using namespace sluice;
using namespace sluice::runtime;
using namespace sluice::test;

namespace {

void fillTokens(Executor &executor, unsigned seed) {
  std::string text = easyText(executor.tokens().size(), seed);
  std::copy(text.begin(), text.end(), executor.tokens().begin());
  executor.scalarI64("length") = 13;
  executor.scalarI64("rows") = 3;
}

/// Steps with different tokens; then every number visible to the host, as bytes.
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

TEST_F(CudaDevice, TrainingMatchesTheCpu) {
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

TEST_F(CudaDevice, TimingDoesNotChangeResults) {
  Executor cpu(artifact, 1);
  std::string expected = trainedBytes(cpu, false);
  auto gpu = open();
  gpu->startTiming();
  EXPECT_TRUE(trainedBytes(*gpu, true) == expected);
  EXPECT_EQ(count("cuGraphLaunch"), 0);
  EXPECT_EQ(gpu->times()[6].launches, 5);
  EXPECT_NEAR(gpu->times()[6].seconds, 5 * 0.5e-3, 1e-9); // the fake's half a millisecond
}

TEST_F(CudaDevice, CapturesEachEntryOnce) {
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

// The guard's scalar is copied with all others, before the optimizer, which writes none of them.
TEST_F(CudaDevice, ReadsMetricsWithoutWaiting) {
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

TEST_F(CudaDevice, GuardSkipsTheOptimizer) {
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

TEST_F(CudaDevice, TransfersCheckpointsAndWeightsThroughTheHost) {
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

/// A ring of 64 rows, in the place of a weight: rows within the ring, past its end, and all of
/// them.
TEST_F(CudaDevice, CopiesRowsOfStatesLikeTheCpu) {
  auto gpu = open();
  Executor cpu(artifact, 1);
  const Tensor &table = artifact->plan().tensors.front();
  State ring{{table.offset, Type::f32, {2, 64, 128}, 128}, 1};
  auto copy = [&](Executor &executor, int64_t begin, int64_t end) {
    std::span<float> numbers = executor.tensor(table);
    for (size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] = static_cast<float>(i / 128);
    }
    executor.copyState(ring, 0, 1, begin, end);
    std::span<const float> all = executor.tensor(table, Access::Read);
    std::vector<float> rows; // the rows of the ring that were copied
    for (size_t row = 0; row < 64; ++row) {
      bool isCopied = all[(64 + row) * 128] == static_cast<float>(row);
      EXPECT_EQ(all[(64 + row) * 128 + 127], all[(64 + row) * 128]);
      isCopied ? rows.push_back(static_cast<float>(row)) : void();
    }
    return rows;
  };
  std::vector<float> whole(64);
  std::iota(whole.begin(), whole.end(), 0.0F);
  for (Executor *executor : {gpu.get(), &cpu}) {
    EXPECT_EQ(copy(*executor, 5, 8), (std::vector<float>{5, 6, 7}));
    EXPECT_EQ(copy(*executor, 62, 66), (std::vector<float>{0, 1, 62, 63}));
    EXPECT_EQ(copy(*executor, 8, 8), std::vector<float>());
    EXPECT_EQ(copy(*executor, 3, 90), whole);
  }
}

/// Weight gradients in parallel with the contraction that follows them, the input's gradient.
size_t countGradientPairs(const Plan &plan) {
  const std::vector<Launch> &launches = plan.entries.at("gradient");
  std::vector<std::set<size_t>> before =
      getLaneOrder(cuda::assignLanes(plan, "sm_80", launches, 0, launches.size(), true));
  auto isKind = [&](size_t launch, const char *kind) {
    return plan.kernels[static_cast<size_t>(launches[launch].kernel)].name.starts_with(kind);
  };
  size_t pairs = 0;
  for (size_t i = 1; i < launches.size(); ++i) {
    pairs +=
        isKind(i - 1, "weight_gradient_") && isKind(i, "contract_") && !before[i].contains(i - 1);
  }
  return pairs;
}

TEST_F(CudaDevice, StreamsRespectTheOrderOfThePlan) {
  EXPECT_EQ(countUnordered(artifact->plan(), "gradient"),
            2u); // the mean loss in parallel with the rest
  EXPECT_EQ(countUnordered(artifact->plan(), "update"), 0u);
}

// The order required by the compiler, in a model with attention, norms and two scales, and the
// launches of one graph.
TEST_F(CudaDevice, StreamsOfACompiledModelRespectItsOrder) {
  std::string command = std::string(SLUICE_PROGRAM) + " compile " TINY_MODEL " --target sm_80 -o " +
                        (folder / "tiny.sla").string();
  ASSERT_EQ(std::system(command.c_str()), 0);
  auto tiny = Artifact::load(folder / "tiny.sla");
  EXPECT_GT(countUnordered(tiny->plan(), "gradient"), 0u);
  EXPECT_GT(countGradientPairs(tiny->plan()), 10u); // four products per layer, of four layers
  for (const char *entry :
       {"initialize", "update", "evaluate", "predict", "prepare", "prefill", "step", "reset"}) {
    countUnordered(tiny->plan(), entry);
  }
  // Kernels evaluate the guards of due rows: a token is one graph, without a wait.
  const std::vector<Launch> &step = tiny->plan().entries.at("step");
  EXPECT_TRUE(std::ranges::any_of(step, [](const Launch &launch) { return bool(launch.guard); }));
  EXPECT_EQ(cuda::cutSegments(tiny->plan(), "step", step).size(), 1u);
  EXPECT_GT(cuda::cutSegments(tiny->plan(), "update", tiny->plan().entries.at("update")).size(),
            1u);
}

TEST_F(CudaDevice, UsesHopperCodeOnlyOnHopper) {
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

// The mean loss (launch 1) runs, at a lower priority, in parallel with the gradient (2): it reads
// losses, which launch 0 writes.
TEST_F(CudaDevice, UnusedResultsRunInParallel) {
  auto gpu = open();
  forget();
  fillTokens(*gpu, 1);
  gpu->run("gradient");
  EXPECT_EQ(std::string(symbol<const char *(*)()>("fakeCudaDependences")()),
            "0:\n1 (low): 0\n2: 0\n3: 2\n");
  EXPECT_EQ(count("cuStreamWaitEvent"), 3) << "fork, launch 0, join";
}

TEST_F(CudaDevice, StreamsDoNotShareAWorkspaceConcurrently) {
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
  EXPECT_FALSE(getLaneOrder(own)[2].contains(1));
  EXPECT_TRUE(getLaneOrder(shared)[2].contains(1));
  for (size_t kernel : {2, 3}) { // only counters are shared too
    plan.kernels[kernel].deviceVariants.at("sm_80").workspaceBytes = 0;
  }
  shared = cuda::assignLanes(plan, "sm_80", launches, 0, 4, false);
  EXPECT_TRUE(getLaneOrder(shared)[2].contains(1));
}

TEST_F(CudaDevice, AcceptsCallsFromAnyThread) {
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

TEST_F(CudaDevice, LoadsCubinOrPtx) {
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

// The reason, the cost, and the remedy; nothing if no cubin was rejected.
TEST_F(CudaDevice, ReportsRejectedCubinsOnce) {
  EXPECT_EQ(makeCudaDevice(artifact)->notice(), "");
  ::setenv("FAKE_CUDA_CAPABILITY", "90", 1); // PTX because no cubin fits: none was rejected
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
  EXPECT_NE(notice.find(" s and may give slower kernels than the ledger has. Update the driver, or "
                        "compile the spec with the ptxas of a CUDA release that the driver knows"),
            std::string::npos)
      << notice;
  EXPECT_EQ(notice.find('\n'), std::string::npos);
}

// Larger than the pinned memory: the range may be overwritten as soon as `upload` returns.
TEST_F(CudaDevice, SourceOfUploadMayBeOverwritten) {
  std::unique_ptr<Device> device = makeCudaDevice(artifact);
  MemoryRange range{0, cuda::stagingBytes(artifact->plan()) + 64};
  std::fill_n(device->host(), range.bytes, uint8_t(1));
  device->upload(range);
  std::fill_n(device->host(), range.bytes, uint8_t(2));
  device->download(range);
  EXPECT_EQ(std::count(device->host(), device->host() + range.bytes, 1), range.bytes);
}

TEST_F(CudaDevice, ReportsErrors) {
  auto expectMessage = [&](const char *variable, const char *value, const std::string &piece) {
    ::setenv(variable, value, 1);
    std::string message = userError([&] { open(); });
    EXPECT_NE(message.find(piece), std::string::npos) << message;
    ::unsetenv(variable);
    EXPECT_EQ(allocated(), 0u) << variable;
  };
  expectMessage("FAKE_CUDA_COUNT", "0", "expected an NVIDIA GPU, found none");
  expectMessage("FAKE_CUDA_VERSION", "11080",
                "CUDA 12.0 or later, found one for CUDA 11.8; update");
  expectMessage("FAKE_CUDA_CAPABILITY", "75",
                "compute capability 8.0 (Ampere) or later, found Fake H200 of 7.5");
  // 300352 bytes at batch 4, none of them in flat buffers: 40% of the memory is 40% of the batch.
  expectMessage(
      "FAKE_CUDA_FREE", "160000",
      "expected 300352 bytes of GPU memory for the arena at batch 4 (the plan's peak is 300352), "
      "found 160000 free on Fake H200; set the spec's batch to 2");
  expectMessage("FAKE_CUDA_FREE", "1000", "free memory of the GPU");
  expectMessage("FAKE_CUDA_FAIL", "cuMemAlloc_v2",
                "failed to allocate the arena: CUDA_ERROR_INVALID_VALUE");
  expectMessage("FAKE_CUDA_FAIL", "cuModuleLoadData",
                "failed to compile the PTX of initialize_table (ptxas fake: line 3)");
  expectMessage(
      "FAKE_CUDA_STATIC", "240000",
      "needs 240000 bytes of shared memory per block (240000 of them static), expected at most "
      "the 232448");
  expectMessage("FAKE_CUDA_FAIL", "cuModuleGetFunction", "initialize_table");
  std::string message = userError([&] { makeCudaDevice(artifact, "sm_90a"); });
  EXPECT_NE(message.find("expected code for sm_90a for --device cuda, found code for cpu-avx2"),
            std::string::npos)
      << message;
}

TEST_F(CudaDevice, FailingLaunchLeavesNoGraph) {
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
