// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A thread pool for launches of a few microseconds. A launch costs one store per thread and one
// barrier, and does not wait for threads that start late.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace sluice::runtime {

/// A fixed number of threads, including the caller's, that share the items of one job at a time.
/// Not thread-safe.
class Workers {
public:
  /// Runs items [first, last) on thread `thread`, 0 <= thread < threads.
  using Body = void (*)(void *context, int64_t first, int64_t last, int thread);

  /// `threads` >= 1. Throws std::system_error if the system cannot create a thread.
  explicit Workers(int threads);
  ~Workers();
  Workers(const Workers &) = delete;
  Workers &operator=(const Workers &) = delete;

  /// Runs items [0, items), at most `mostItems`, in pieces of at most `grain` >= 1. Every thread
  /// starts with its own part of the range, and then takes items of other threads. Returns when all
  /// items are done.
  void run(Body body, void *context, int64_t items, int64_t grain);

private:
  /// A thread's part of the job. The ticket has the job's number and, in its low half, the number
  /// of items that no thread has taken. A thread takes items by compare-and-swap with a lower
  /// number.
  struct alignas(64) WorkerShare {
    std::atomic<uint64_t> ticket = 0;
    std::atomic<int64_t> end = 0;
  };

  void work(int thread);
  void takeAll(int thread);
  int64_t takeFrom(WorkerShare &part, int thread);
  void close();

  const int count;
  std::unique_ptr<WorkerShare[]> parts;
  std::vector<std::thread> threads;
  // Parameters of the current job. They change only when no ticket has items left, so values that
  // were read before a successful swap belong to the ticket's job.
  std::atomic<Body> body = nullptr;
  std::atomic<void *> context = nullptr;
  std::atomic<int64_t> grain = 1;
  alignas(64) std::atomic<uint32_t> job = 0; ///< number of the newest job, which idle threads watch
  std::atomic<bool> closing = false;
  alignas(64) std::atomic<int64_t> pending = 0; ///< number of unfinished items
};

} // namespace sluice::runtime
