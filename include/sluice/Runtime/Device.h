// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Where an arena lies and a plan's launches run: the CPU, a GPU, or the emulator of one.
#pragma once

#include "sluice/Runtime/Artifact.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace sluice::runtime {

/// What the emulator counts of a kernel's launches.
struct KernelCounts {
  int64_t instructions = 0, tensorInstructions = 0; ///< of threads, of warps
  int64_t barriers = 0;
  int64_t bytes = 0;                     ///< of its buffers: read, and written, each once a launch
  int64_t sectors = 0, leastSectors = 0; ///< of 32 bytes, over all requests
  int64_t passes = 0, leastPasses = 0;   ///< over the banks of shared memory
};

/// Time of one kernel since timing was last reset: on the CPU's clock, or the GPU's.
struct KernelTime {
  int64_t launches = 0;
  double seconds = 0;
  KernelCounts counts; ///< on the emulator
};

/// Bytes of the arena.
struct Range {
  int64_t offset = 0, bytes = 0;
};

/// An arena, zeroed and with the constants in it, and what runs launches on it. Used by one thread
/// at a time.
class Device {
public:
  virtual ~Device() = default;
  Device(const Device &) = delete;
  Device &operator=(const Device &) = delete;

  const Artifact &artifact() const { return *loaded; }
  const Plan &plan() const { return loaded->plan(); }

  /// Whose code runs: cpu-avx512, sm_90a.
  virtual std::string target() const = 0;
  /// For people: "NVIDIA H200", "4 threads".
  virtual std::string describe() const = 0;
  virtual int threads() const { return 1; }
  /// What a user should be told once, though everything runs; empty: nothing.
  virtual std::string notice() const { return ""; }

  /// Whether `host` is the arena itself, so that nothing needs to be moved.
  virtual bool sharesMemory() const = 0;
  /// The host's view of the arena, whole. Where it is a copy, only ranges that were downloaded
  /// hold what the device holds.
  virtual uint8_t *host() = 0;
  /// Gives the device what `host` holds there, before whatever runs next. The range may be written
  /// again at once.
  virtual void upload(Range range) = 0;
  /// Makes `host` hold there what the device holds, after all that was run.
  virtual void download(Range range) = 0;

  /// Runs launches of an entry in order, each unless its guard forbids it. May return before they
  /// are done.
  void run(const std::string &entry, const std::vector<Launch> &launches) {
    runPart(entry, launches, 0, launches.size());
  }
  /// The same of launches [first, last) alone; of a bucket's entry, whose parts begin and end where
  /// `Plan::countsIn` says.
  virtual void runPart(const std::string &entry, const std::vector<Launch> &launches, size_t first,
                       size_t last) = 0;
  /// Runs one of the plan's launches, whatever its guard says. May return before it is done.
  virtual void launch(const Launch &launch) = 0;
  /// Waits until all that was run is done.
  virtual void synchronize() {}

  /// Measures each launch from now on, starting from zero.
  void startTiming() {
    timing = true;
    kernelTimes.assign(plan().kernels.size(), {});
  }
  void stopTiming() { timing = false; }
  /// Time by kernel, in the plan's order.
  const std::vector<KernelTime> &times() const { return kernelTimes; }

protected:
  explicit Device(std::shared_ptr<const Artifact> artifact) : loaded(std::move(artifact)) {}

  const std::shared_ptr<const Artifact> loaded;
  bool timing = false;
  std::vector<KernelTime> kernelTimes;
};

/// `threads` >= 1. Throws UserError where the artifact has no code that this CPU runs.
std::unique_ptr<Device> makeCpuDevice(std::shared_ptr<const Artifact> artifact, int threads);

/// The first NVIDIA GPU that the driver shows. `target` forces code (sm_80, sm_90a); empty takes
/// what fits the GPU best. Throws UserError where there is no driver, GPU, memory or code that
/// fits. The driver is libcuda.so.1, or the library that the environment's SLUICE_CUDA_DRIVER
/// names.
std::unique_ptr<Device> makeCudaDevice(std::shared_ptr<const Artifact> artifact,
                                       const std::string &target = "");

/// What an element of a launch's result should hold. Results are seen as rows that lie `stride`
/// elements apart.
struct Expectation {
  size_t result = 0;
  int64_t row = 0, column = 0; ///< row -1: all rows of the column together
  int64_t rows = 0, stride = 0;
  Type type = Type::f32;
  double value = 0, bound = 0;
};
/// Told of all elements that a launch is held to, after it ran.
using Observer = std::function<void(const Expectation &)>;

/// GPU code on the CPU, judged: a launch that breaks a rule throws JobError with the kernel's name.
/// `target` as above, empty takes the artifact's first. Throws UserError where the artifact has no
/// code for a GPU, or the plug-in libsluice_emulator_plugin.so does not lie beside the runtime.
std::unique_ptr<Device> makeEmulatorDevice(std::shared_ptr<const Artifact> artifact,
                                           const std::string &target = "", Observer observer = {});

} // namespace sluice::runtime
