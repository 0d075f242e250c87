// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Device/CPU/Workers.h"

#include <chrono>
#include <gtest/gtest.h>

using namespace sluice;
using namespace sluice::runtime;

namespace {

/// A job with the lifetime of its run: the execution count of each item, and its threads.
struct TestJob {
  explicit TestJob(int64_t items) : runs(static_cast<size_t>(items)) {}
  std::vector<std::atomic<int>> runs;
  std::atomic<int> threads = 0; ///< bits
  int64_t most = 0;             ///< items per piece
  std::atomic<bool> tooLong = false;

  static void run(void *context, int64_t first, int64_t last, int thread) {
    TestJob &job = *static_cast<TestJob *>(context);
    job.threads |= 1 << thread;
    job.tooLong = job.tooLong || last - first > job.most;
    for (int64_t item = first; item < last; ++item) {
      ++job.runs[static_cast<size_t>(item)];
    }
  }
};

void expectOnce(Workers &workers, int64_t items, int64_t grain) {
  TestJob job(items);
  job.most = grain;
  workers.run(TestJob::run, &job, items, grain);
  for (const std::atomic<int> &runs : job.runs) {
    ASSERT_EQ(runs, 1) << items << " items by " << grain;
  }
  EXPECT_FALSE(job.tooLong);
}

TEST(Workers, RunEveryItemOfEveryJobOnce) {
  for (int threads : {1, 2, 3, 7}) {
    Workers workers(threads);
    for (int64_t turn = 0; turn < 3000; ++turn) {
      int64_t grain = threads == 1 ? 100 : 1 + turn % 5;
      expectOnce(workers, turn * 7 % 67, grain);
    }
  }
}

/// Sleeping threads take part again.
TEST(Workers, WakeForTheNextJob) {
  using namespace std::chrono_literals;
  constexpr int threads = 3;
  Workers workers(threads);
  for (int turn = 0; turn < 5; ++turn) {
    std::this_thread::sleep_for(5ms);
    std::atomic<int> seen = 0;
    // No item ends before every thread has one: the run returns only if all threads arrive.
    auto meet = [](void *context, int64_t, int64_t, int) {
      auto &arrived = *static_cast<std::atomic<int> *>(context);
      ++arrived;
      while (arrived < threads) {
        std::this_thread::yield();
      }
    };
    workers.run(meet, &seen, threads, 1);
    EXPECT_EQ(seen, threads);
  }
}

/// If one thread blocks, the others run its items.
TEST(Workers, StealWorkOfABlockedThread) {
  Workers workers(2);
  struct Held {
    std::atomic<int64_t> others = 0;
    int64_t items = 64;
  } held;
  auto run = [](void *context, int64_t first, int64_t, int) {
    auto &all = *static_cast<Held *>(context);
    if (first != 0) {
      ++all.others;
    }
    while (first == 0 && all.others < all.items - 1) {
      std::this_thread::yield();
    }
  };
  workers.run(run, &held, held.items, 1);
  EXPECT_EQ(held.others, held.items - 1);
}

} // namespace
