// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Workers.h"

#include <algorithm>
#include <chrono>

namespace sluice::runtime {
namespace {

/// Spins until `ready` or until the time limit. Returns whether it became ready. After about 20 us
/// it yields the processor: if there are more threads than processors, the awaited thread may need
/// it.
template <typename Ready> bool spin(Ready ready, std::chrono::microseconds limit) {
  constexpr int pauses = 64;
  constexpr std::chrono::microseconds own(20);
  auto start = std::chrono::steady_clock::now();
  while (true) {
    for (int i = 0; i < pauses; ++i) {
      if (ready()) {
        return true;
      }
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }
    auto waited = std::chrono::steady_clock::now() - start;
    if (waited > limit) {
      return false;
    }
    if (waited > own) {
      std::this_thread::yield();
    }
  }
}

} // namespace

Workers::Workers(int threads) : count(threads), parts(std::make_unique<WorkerShare[]>(threads)) {
  try {
    for (int thread = 1; thread < count; ++thread) {
      this->threads.emplace_back([this, thread] { work(thread); });
    }
  } catch (...) {
    close();
    throw;
  }
}

Workers::~Workers() { close(); }

void Workers::close() {
  closing = true;
  ++job;
  job.notify_all();
  for (std::thread &thread : threads) {
    thread.join();
  }
}

void Workers::run(Body newBody, void *newContext, int64_t items, int64_t newGrain) {
  if (count == 1 || items <= newGrain) {
    newBody(newContext, 0, items, 0);
    return;
  }
  uint32_t number = job.load(std::memory_order_relaxed) + 1;
  body.store(newBody, std::memory_order_relaxed);
  context.store(newContext, std::memory_order_relaxed);
  grain.store(newGrain, std::memory_order_relaxed);
  pending.store(items, std::memory_order_relaxed);
  for (int64_t thread = 0; thread < count; ++thread) {
    int64_t first = items * thread / count, end = items * (thread + 1) / count;
    parts[thread].end.store(end, std::memory_order_relaxed);
    parts[thread].ticket.store(uint64_t(number) << 32 | uint64_t(end - first),
                               std::memory_order_release);
  }
  job.store(number);
  job.notify_all(); // costs one read of a counter if no thread sleeps
  takeAll(0);
  auto done = [&] { return pending.load(std::memory_order_acquire) == 0; };
  while (!spin(done, std::chrono::seconds(1))) {
  }
}

void Workers::work(int thread) {
  constexpr std::chrono::microseconds patience(100); // longer than the time between two launches
  uint32_t seen = 0;
  while (!closing) {
    takeAll(thread);
    auto isNew = [&] { return job.load(std::memory_order_acquire) != seen; };
    if (!spin(isNew, patience)) {
      job.wait(seen);
    }
    seen = job.load(std::memory_order_acquire);
  }
}

/// Runs the remaining items of the job, first the items of the thread's own part.
void Workers::takeAll(int thread) {
  int64_t done = 0;
  for (int i = 0; i < count; ++i) {
    done += takeFrom(parts[(thread + i) % count], thread);
  }
  if (done > 0) {
    pending.fetch_sub(done, std::memory_order_acq_rel);
  }
}

int64_t Workers::takeFrom(WorkerShare &part, int thread) {
  int64_t done = 0;
  uint64_t ticket = part.ticket.load(std::memory_order_acquire);
  while (uint32_t left = static_cast<uint32_t>(ticket)) {
    Body run = body.load(std::memory_order_relaxed);
    void *with = context.load(std::memory_order_relaxed);
    int64_t first = part.end.load(std::memory_order_relaxed) - left;
    int64_t taken = std::min<int64_t>(left, grain.load(std::memory_order_relaxed));
    if (!part.ticket.compare_exchange_weak(ticket, ticket - static_cast<uint64_t>(taken),
                                           std::memory_order_acq_rel, std::memory_order_acquire)) {
      continue;
    }
    run(with, first, first + taken, thread);
    done += taken;
    ticket = part.ticket.load(std::memory_order_acquire);
  }
  return done;
}

} // namespace sluice::runtime
