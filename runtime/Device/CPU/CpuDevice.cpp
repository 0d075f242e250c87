// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Device/CPU/CpuDevice.h"

#include "Device/HostDevice.h"
#include "Workers.h"
#include "sluice/Support/Error.h"

#include <algorithm>

namespace sluice::runtime {
namespace {

class CpuDevice : public HostDevice {
public:
  CpuDevice(std::shared_ptr<const Artifact> artifact, int threads)
      : HostDevice(std::move(artifact)), threadCount(threads) {
    loaded->requireCpu();
    if (threads < 1) {
      throw UserError("expected at least 1 thread, found " + std::to_string(threads));
    }
    arena = makeArena(*loaded);
    int64_t bytes = 0;
    for (const LoadedKernel &kernel : loaded->kernels()) {
      bytes = std::max(bytes, kernel.scratchBytes);
    }
    for (int i = 0; i < threads; ++i) {
      scratch.push_back(allocateHost(static_cast<size_t>(bytes)));
    }
    workers = std::make_unique<Workers>(threads);
  }

  std::string target() const override { return loaded->target(); }
  std::string describe() const override {
    return std::to_string(threadCount) + (threadCount == 1 ? " thread" : " threads");
  }
  int threads() const override { return threadCount; }

  /// An item computes q bytes, where n q >= `bytes` > (n - 1) q for n items. So byte x belongs to
  /// an item from x (n - 1) / `bytes` to x n / `bytes`.
  void launch(const Launch &node, const std::optional<ResultParts> &parts) override {
    const LoadedKernel &kernel = loaded->kernels()[static_cast<size_t>(node.kernel)];
    if (!parts || kernel.phases != 1 || parts->bytes <= 0) {
      runItems(node, 0, kernel.items / kernel.phases);
      return;
    }
    int64_t next = 0; // an item with parts of two ranges runs once
    for (const MemoryRange &range : parts->ranges) {
      int64_t end = range.offset + range.bytes;
      int64_t first = std::max(next, range.offset * (kernel.items - 1) / parts->bytes);
      int64_t last = std::min(kernel.items, (end * kernel.items + parts->bytes - 1) / parts->bytes);
      if (range.bytes > 0 && first < last) {
        runItems(node, first, last);
        next = last;
      }
    }
  }

private:
  /// The parameters of a launch for the threads.
  struct Items {
    CpuDevice *device;
    KernelFunction kernel;
    const int64_t *arguments;
    int64_t first; ///< item of the phase
  };

  /// Runs the items [begin, end) of each phase.
  void runItems(const Launch &node, int64_t begin, int64_t end) {
    if (!timing) {
      runPhases(node, begin, end);
      return;
    }
    auto start = Clock::now();
    runPhases(node, begin, end);
    addTime(node, since(start));
  }

  void runPhases(const Launch &node, int64_t begin, int64_t end) {
    const LoadedKernel &kernel = loaded->kernels()[static_cast<size_t>(node.kernel)];
    int64_t each = kernel.items / kernel.phases, grain = getGrain(node.kernel, each, kernel.phases);
    Items all{this, kernel.function, node.arguments.data(), begin};
    auto run = [](void *context, int64_t first, int64_t last, int thread) {
      const Items &of = *static_cast<const Items *>(context);
      uint8_t *scratch = of.device->scratch[static_cast<size_t>(thread)].get();
      for (int64_t item = first; item < last; ++item) {
        of.kernel(of.device->arena.get(), of.arguments, of.first + item, scratch);
      }
    };
    for (int64_t phase = 0; phase < kernel.phases; ++phase, all.first += each) {
      workers->run(run, &all, end - begin, grain);
    }
  }

  /// Returns the number of items per piece, of the items of a phase. A phase of a few microseconds
  /// is one piece on the calling thread, because waking another thread would cost more. Other
  /// phases have up to 16 pieces per thread, enough to balance items of unequal cost at about 20 ns
  /// per piece.
  int64_t getGrain(int64_t number, int64_t items, int64_t phases) const {
    constexpr int64_t fewBytes = 64 << 10, fewFlops = 128 << 10;
    const PlanKernel &kernel = plan().kernels[static_cast<size_t>(number)];
    auto count = static_cast<double>(phases);
    bool isShort = kernel.bytes < fewBytes * count && kernel.flops < fewFlops * count;
    return isShort ? items : std::max<int64_t>(1, items / (16 * threadCount));
  }

  int threadCount;
  std::vector<HostMemory> scratch;  ///< by thread
  std::unique_ptr<Workers> workers; // destroyed before the data that its threads use
};

} // namespace

std::unique_ptr<Device> makeCpuDevice(std::shared_ptr<const Artifact> artifact, int threads) {
  return std::make_unique<CpuDevice>(std::move(artifact), threads);
}

} // namespace sluice::runtime
