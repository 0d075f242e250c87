// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs the entries of a plan on the CPU.
#pragma once

#include "sluice/Runtime/Artifact.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace sluice::runtime {

/// Processors that this process may use, at least 1.
int availableThreads();

/// Wall time of one kernel since timing was last reset.
struct KernelTime {
  int64_t launches = 0;
  double seconds = 0;
};

/// One arena and the threads that work on it. An executor is used by one thread at a time.
class Executor {
public:
  /// Allocates and zeroes the arena and copies the constants into it. `threads` >= 1.
  Executor(std::shared_ptr<const Artifact> artifact, int threads);
  ~Executor();
  Executor(const Executor &) = delete;
  Executor &operator=(const Executor &) = delete;

  const Artifact &artifact() const { return *loaded; }
  const Plan &plan() const { return loaded->plan(); }
  int threads() const { return threadCount; }

  /// Runs an entry's launches in order, each with all threads. Throws UserError where the artifact
  /// has no such entry.
  void run(const std::string &entry);

  /// To be called after the host has written tensors: brings what kernels keep of them up to date
  /// (entry `prepare`). Does nothing where the plan has no such entry.
  void prepare();

  /// A scalar in the arena; throws UserError where the plan has none of this name and type.
  int64_t &scalarI64(const std::string &name);
  int32_t &scalarI32(const std::string &name);
  float &scalarF32(const std::string &name);

  /// `tokens` [batch, context + 1], row-major; throws UserError where the plan's input has another
  /// shape.
  std::span<int32_t> tokens();
  /// Row `row` of an f32 output of shape [rows, width]: `width` elements.
  std::span<const float> outputRow(const std::string &name, int64_t row);

  std::span<float> tensor(const Tensor &tensor);
  std::span<float> gradient(const Tensor &tensor);
  /// Optimizer state `name` of a tensor, as long as the tensor.
  std::span<float> state(const Tensor &tensor, const std::string &name);

  /// Measures each launch from now on (two clock reads a launch), starting from zero.
  void startTiming();
  /// Time by kernel, in the plan's order.
  const std::vector<KernelTime> &times() const { return kernelTimes; }

private:
  struct Threads;

  uint8_t *scalar(const std::string &name, Type type);
  std::span<float> floats(int64_t offset, int64_t count);
  bool allowed(const Launch &launch) const;
  void launch(const Launch &launch);

  std::shared_ptr<const Artifact> loaded;
  int threadCount;
  struct Release {
    void operator()(uint8_t *memory) const;
  };
  std::unique_ptr<uint8_t, Release> arena;
  std::unique_ptr<Threads> workers;
  bool timing = false;
  std::vector<KernelTime> kernelTimes;
};

} // namespace sluice::runtime
