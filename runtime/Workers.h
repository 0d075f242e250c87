// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Threads for launches of a few microseconds: a launch costs one store a thread and one barrier,
// and a thread that comes too late is not waited for.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace sluice::runtime {

/// A fixed number of threads, the caller's among them, that share out the items of one job after
/// another. Used by one thread at a time.
class Workers {
public:
  /// Runs items [first, last) on thread `thread`, 0 <= thread < threads.
  using Body = void (*)(void *context, int64_t first, int64_t last, int thread);

  /// `threads` >= 1. Throws std::system_error where the machine refuses a thread.
  explicit Workers(int threads);
  ~Workers();
  Workers(const Workers &) = delete;
  Workers &operator=(const Workers &) = delete;

  /// Runs items [0, items), at most `mostItems`, in pieces of at most `grain` >= 1. Every thread
  /// begins with its own part of the range and then helps the others. Returns when all are done.
  void run(Body body, void *context, int64_t items, int64_t grain);

private:
  /// A thread's part of the job. The ticket holds the job's number and, in its low half, how many
  /// items nobody has taken: whoever swaps it for a lower count owns the difference.
  struct alignas(64) Part {
    std::atomic<uint64_t> ticket = 0;
    std::atomic<int64_t> end = 0;
  };

  void work(int thread);
  void takeAll(int thread);
  int64_t takeFrom(Part &part, int thread);
  void close();

  const int count;
  std::unique_ptr<Part[]> parts;
  std::vector<std::thread> threads;
  // Of the job at hand. They change only while no ticket has items left, so what was read before a
  // ticket was swapped belongs to the ticket's job.
  std::atomic<Body> body = nullptr;
  std::atomic<void *> context = nullptr;
  std::atomic<int64_t> grain = 1;
  alignas(64) std::atomic<uint32_t> job = 0; ///< number of the newest; what idle threads watch
  std::atomic<bool> closing = false;
  alignas(64) std::atomic<int64_t> pending = 0; ///< items that are not done
};

} // namespace sluice::runtime
