// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "HostLaunch.h"
#include "sluice/Runtime/Error.h"

#include <algorithm>
#include <chrono>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

namespace sluice::runtime {
namespace {

/// The task arena, and scratch memory by slot: a thread keeps its slot while it works in the arena.
struct Threads {
  tbb::global_control limit;
  tbb::task_arena tasks;
  std::vector<HostMemory> scratch;

  Threads(int count, int64_t scratchBytes)
      : limit(tbb::global_control::max_allowed_parallelism, static_cast<size_t>(count)),
        tasks(count) {
    for (int i = 0; i < count; ++i) {
      scratch.push_back(allocateHost(static_cast<size_t>(scratchBytes)));
    }
  }
};

class CpuDevice : public Device {
public:
  CpuDevice(std::shared_ptr<const Artifact> artifact, int threads)
      : Device(std::move(artifact)), threadCount(threads) {
    loaded->requireCpu();
    if (threads < 1) {
      throw UserError("expected at least 1 thread, found " + std::to_string(threads));
    }
    arena = makeArena(*loaded);
    int64_t scratch = 0;
    for (const LoadedKernel &kernel : loaded->kernels()) {
      scratch = std::max(scratch, kernel.scratchBytes);
    }
    workers = std::make_unique<Threads>(threads, scratch);
  }

  std::string target() const override { return loaded->target(); }
  std::string describe() const override {
    return std::to_string(threadCount) + (threadCount == 1 ? " thread" : " threads");
  }
  int threads() const override { return threadCount; }
  bool sharesMemory() const override { return true; }
  uint8_t *host() override { return arena.get(); }
  void upload(Range) override {}
  void download(Range) override {}

  void run(const std::string &, const std::vector<Launch> &launches) override {
    auto runAll = [&] {
      for (const Launch &node : launches) {
        if (isAllowed(plan(), node.guard, arena.get())) {
          launch(node);
        }
      }
    };
    // Entering the arena once an entry instead of once a launch keeps its workers looking for work.
    if (threadCount == 1) {
      runAll();
    } else {
      workers->tasks.execute(runAll);
    }
  }

  void launch(const Launch &node) override {
    if (!timing) {
      runItems(node);
      return;
    }
    auto start = std::chrono::steady_clock::now();
    runItems(node);
    KernelTime &time = kernelTimes[static_cast<size_t>(node.kernel)];
    time.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    ++time.launches;
  }

private:
  void runItems(const Launch &node) {
    const auto &[kernel, items, scratchBytes] = loaded->kernels()[static_cast<size_t>(node.kernel)];
    const int64_t *arguments = node.arguments.data();
    if (threadCount == 1 || items == 1) {
      int slot = threadCount == 1 ? 0 : tbb::this_task_arena::current_thread_index();
      uint8_t *scratch = workers->scratch[static_cast<size_t>(slot)].get();
      for (int64_t item = 0; item < items; ++item) {
        kernel(arena.get(), arguments, item, scratch);
      }
      return;
    }
    // Up to 16 pieces a thread: enough to even out items of unequal cost, at some 50 ns a piece.
    int64_t grain = std::max<int64_t>(1, items / (16 * threadCount));
    tbb::parallel_for(
        tbb::blocked_range<int64_t>(0, items, static_cast<size_t>(grain)),
        [&, run = kernel](const tbb::blocked_range<int64_t> &range) {
          uint8_t *scratch =
              workers->scratch[static_cast<size_t>(tbb::this_task_arena::current_thread_index())]
                  .get();
          for (int64_t item = range.begin(); item < range.end(); ++item) {
            run(arena.get(), arguments, item, scratch);
          }
        },
        tbb::simple_partitioner());
  }

  int threadCount;
  HostMemory arena;
  std::unique_ptr<Threads> workers;
};

} // namespace

std::unique_ptr<Device> makeCpuDevice(std::shared_ptr<const Artifact> artifact, int threads) {
  return std::make_unique<CpuDevice>(std::move(artifact), threads);
}

} // namespace sluice::runtime
