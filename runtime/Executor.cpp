// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Executor.h"

#include "sluice/Runtime/Error.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <sched.h>
#include <sys/mman.h>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

namespace sluice::runtime {
namespace {

constexpr size_t hugePage = size_t(2) << 20;

/// Zeroed memory on a huge-page boundary: an arena of hundreds of megabytes would else miss the TLB
/// in every matmul.
uint8_t *allocate(size_t bytes) {
  size_t rounded = std::max<size_t>(bytes, 64);
  size_t alignment = rounded >= hugePage ? hugePage : 64;
  rounded = (rounded + alignment - 1) / alignment * alignment;
  auto *memory = static_cast<uint8_t *>(std::aligned_alloc(alignment, rounded));
  if (!memory) {
    throw UserError("cannot allocate " + std::to_string(bytes) +
                    " bytes of memory; lower the spec's batch or context, or free memory");
  }
  if (alignment == hugePage) {
    ::madvise(memory, rounded, MADV_HUGEPAGE);
  }
  std::memset(memory, 0, rounded);
  return memory;
}

} // namespace

int availableThreads() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) {
    return 1;
  }
  return std::max(1, CPU_COUNT(&set));
}

void Executor::Release::operator()(uint8_t *memory) const { std::free(memory); }

/// The task arena, and scratch memory by slot: a thread keeps its slot while it works in the arena.
struct Executor::Threads {
  tbb::global_control limit;
  tbb::task_arena tasks;
  std::vector<std::unique_ptr<uint8_t, Release>> scratch;

  Threads(int count, int64_t scratchBytes)
      : limit(tbb::global_control::max_allowed_parallelism, static_cast<size_t>(count)),
        tasks(count) {
    for (int i = 0; i < count; ++i) {
      scratch.emplace_back(allocate(static_cast<size_t>(scratchBytes)));
    }
  }
};

Executor::Executor(std::shared_ptr<const Artifact> artifact, int threads)
    : loaded(std::move(artifact)), threadCount(threads) {
  if (threads < 1) {
    throw UserError("expected at least 1 thread, found " + std::to_string(threads));
  }
  arena.reset(allocate(static_cast<size_t>(plan().memory.arenaBytes)));
  std::span<const uint8_t> constants = loaded->constants();
  std::copy(constants.begin(), constants.end(), arena.get() + plan().constantsOffset);
  int64_t scratch = 0;
  for (const LoadedKernel &kernel : loaded->kernels()) {
    scratch = std::max(scratch, kernel.scratchBytes);
  }
  workers = std::make_unique<Threads>(threads, scratch);
}

Executor::~Executor() = default;

void Executor::prepare() {
  if (plan().entries.contains("prepare")) {
    run("prepare");
  }
}

void Executor::run(const std::string &entry) {
  auto found = plan().entries.find(entry);
  if (found == plan().entries.end()) {
    throw UserError(loaded->path() + ": expected the entry \"" + entry +
                    "\", found none; compile the spec again");
  }
  auto runAll = [&] {
    for (const Launch &node : found->second) {
      if (!allowed(node)) {
        continue;
      }
      if (!timing) {
        launch(node);
        continue;
      }
      auto start = std::chrono::steady_clock::now();
      launch(node);
      KernelTime &time = kernelTimes[static_cast<size_t>(node.kernel)];
      time.seconds +=
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      ++time.launches;
    }
  };
  // Entering the arena once an entry instead of once a launch keeps its workers looking for work.
  if (threadCount == 1) {
    runAll();
  } else {
    workers->tasks.execute(runAll);
  }
}

bool Executor::allowed(const Launch &launch) const {
  if (!launch.guard) {
    return true;
  }
  const Scalar &scalar = plan().scalars.at(launch.guard->scalar);
  const uint8_t *at = arena.get() + scalar.offset;
  int64_t value = scalar.type == Type::i64 ? *reinterpret_cast<const int64_t *>(at)
                                           : *reinterpret_cast<const int32_t *>(at);
  return value == launch.guard->equals;
}

void Executor::launch(const Launch &launch) {
  const auto &[kernel, items, scratchBytes] = loaded->kernels()[static_cast<size_t>(launch.kernel)];
  const int64_t *arguments = launch.arguments.data();
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

uint8_t *Executor::scalar(const std::string &name, Type type) {
  auto found = plan().scalars.find(name);
  if (found == plan().scalars.end() || found->second.type != type) {
    throw UserError(loaded->path() + ": expected the scalar \"" + name + "\" of type " +
                    std::string(nameOf(type)) + ", found " +
                    (found == plan().scalars.end()
                         ? "none"
                         : "type " + std::string(nameOf(found->second.type))) +
                    "; compile the spec again");
  }
  return arena.get() + found->second.offset;
}

int64_t &Executor::scalarI64(const std::string &name) {
  return *reinterpret_cast<int64_t *>(scalar(name, Type::i64));
}
int32_t &Executor::scalarI32(const std::string &name) {
  return *reinterpret_cast<int32_t *>(scalar(name, Type::i32));
}
float &Executor::scalarF32(const std::string &name) {
  return *reinterpret_cast<float *>(scalar(name, Type::f32));
}

std::span<int32_t> Executor::tokens() {
  auto found = plan().inputs.find("tokens");
  std::vector<int64_t> shape = {plan().model.batch, plan().model.context + 1};
  if (found == plan().inputs.end() || found->second.type != Type::i32 ||
      found->second.shape != shape || found->second.rowStride != shape[1]) {
    throw UserError(
        loaded->path() +
        ": expected the input \"tokens\", i32 [batch, context + 1], found none like it; " +
        "compile the spec again");
  }
  return {reinterpret_cast<int32_t *>(arena.get() + found->second.offset),
          static_cast<size_t>(shape[0] * shape[1])};
}

std::span<const float> Executor::outputRow(const std::string &name, int64_t row) {
  auto found = plan().outputs.find(name);
  if (found == plan().outputs.end() || found->second.type != Type::f32 ||
      found->second.shape.size() != 2 || row < 0 || row >= found->second.shape[0]) {
    throw UserError(loaded->path() + ": expected the output \"" + name + "\", f32 with a row " +
                    std::to_string(row) + ", found none like it; compile the spec again");
  }
  return floats(found->second.offset + row * found->second.rowStride * 4, found->second.shape[1]);
}

std::span<float> Executor::floats(int64_t offset, int64_t count) {
  return {reinterpret_cast<float *>(arena.get() + offset), static_cast<size_t>(count)};
}
std::span<float> Executor::tensor(const Tensor &tensor) {
  return floats(tensor.offset, tensor.elements());
}
std::span<float> Executor::gradient(const Tensor &tensor) {
  return floats(tensor.gradient, tensor.elements());
}
std::span<float> Executor::state(const Tensor &tensor, const std::string &name) {
  return floats(tensor.states.at(name), tensor.elements());
}

void Executor::startTiming() {
  timing = true;
  kernelTimes.assign(plan().kernels.size(), {});
}

} // namespace sluice::runtime
