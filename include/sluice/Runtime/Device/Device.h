// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The interface of devices that hold an arena and run launches: the CPU, a GPU, or the GPU
// emulator.
#pragma once

#include "sluice/Runtime/Device/RangeExchange.h"
#include "sluice/Runtime/Plan/Artifact.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace sluice::runtime {

/// Counts of the emulator for the launches of a kernel.
struct KernelCounts {
  int64_t instructions = 0, tensorInstructions = 0; ///< per thread; per warp
  int64_t barriers = 0;
  int64_t bytes = 0; ///< of its buffers, read and written, each byte once per launch
  int64_t sectors = 0, leastSectors = 0; ///< of 32 bytes, over all memory requests
  int64_t passes = 0, leastPasses = 0;   ///< over the banks of shared memory
};

/// Time of one kernel since the start of timing, by the clock of the CPU or of the GPU.
struct KernelTime {
  int64_t launches = 0;
  double seconds = 0;
  KernelCounts counts;                                   ///< only on the emulator
  std::unordered_map<const Launch *, double> ofLaunches; ///< seconds, of launches of the plan
};

/// A byte range of the arena.
struct MemoryRange {
  int64_t offset = 0, bytes = 0;
};

/// Ranges of the result of a launch, ascending and disjoint. The items of its kernel compute
/// consecutive parts of the result, all equal but the last, which may be smaller.
struct ResultParts {
  std::vector<MemoryRange> ranges; ///< offsets are from the start of the result
  int64_t bytes = 0;               ///< of the complete result
};

/// Holds an arena, which is zeroed except for the constants, and runs launches on it. Not
/// thread-safe.
class Device {
public:
  virtual ~Device() = default;
  Device(const Device &) = delete;
  Device &operator=(const Device &) = delete;

  const Artifact &artifact() const { return *loaded; }
  const Plan &plan() const { return loaded->plan(); }

  /// Returns the target of the code that runs: cpu-avx512, sm_90a.
  virtual std::string target() const = 0;
  /// Returns a description for people: "NVIDIA H200", "4 threads".
  virtual std::string describe() const = 0;
  virtual int threads() const { return 1; }
  /// Returns a warning to show to the user once; empty if there is none.
  virtual std::string notice() const { return ""; }

  /// Checks that `host` is the arena itself, so that no data needs to be copied.
  virtual bool sharesMemory() const = 0;
  /// Returns the host's view of the complete arena. If it is a copy, only downloaded ranges hold
  /// the device's data.
  virtual uint8_t *host() = 0;
  /// Copies a range from `host` to the device before any later launch. The caller may overwrite the
  /// range immediately.
  virtual void upload(MemoryRange range) = 0;
  /// Copies a range from the device to `host` after all earlier launches.
  virtual void download(MemoryRange range) = 0;

  /// Copies a range of the device's data to `offset`, after all earlier launches and before any
  /// later one. The ranges do not overlap.
  virtual void copy(MemoryRange range, int64_t offset) = 0;

  /// Runs the launches of an entry in order, except those whose guard fails. May return before they
  /// finish.
  void run(const std::string &entry, const std::vector<Launch> &launches) {
    runPart(entry, launches, 0, launches.size());
  }
  /// Runs only launches [first, last). In a bucket's entry, parts begin and end after the launches
  /// in `Plan::countsIn`.
  virtual void runPart(const std::string &entry, const std::vector<Launch> &launches, size_t first,
                       size_t last) = 0;
  /// Runs one of the plan's launches, regardless of its guard. May return before it finishes.
  /// With `parts`, at least the items that compute these parts of the result, each once; others may
  /// run too.
  virtual void launch(const Launch &launch, const std::optional<ResultParts> &parts = {}) = 0;
  /// Waits until all launches have finished.
  virtual void synchronize() {}

  /// Joins the devices of other processes, which all call it. Returns null if the arena is host
  /// memory, which processes exchange by themselves. The device must outlive the result. Throws
  /// UserError if the devices cannot be joined.
  virtual std::unique_ptr<RangeExchange> join(const ExchangeGroup &) { return nullptr; }

  /// Starts to measure each launch, from zero.
  void startTiming() {
    timing = true;
    kernelTimes.assign(plan().kernels.size(), {});
  }
  void stopTiming() { timing = false; }
  /// Returns the time of each kernel, in the plan's order.
  const std::vector<KernelTime> &times() const { return kernelTimes; }

protected:
  explicit Device(std::shared_ptr<const Artifact> artifact) : loaded(std::move(artifact)) {}

  /// Adds one run of a launch to its time and to the time of its kernel.
  void addTime(const Launch &launch, double seconds) {
    KernelTime &time = kernelTimes[static_cast<size_t>(launch.kernel)];
    time.seconds += seconds;
    ++time.launches;
    time.ofLaunches[&launch] += seconds;
  }

  const std::shared_ptr<const Artifact> loaded;
  bool timing = false;
  std::vector<KernelTime> kernelTimes;
};

} // namespace sluice::runtime
