// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Updates by several processes, here threads: the bits of one process, and failures between the
// exchanges.
#include "../Runtime/Processes/Mailboxes.h"
#include "Harness.h"
#include "sluice/Runtime/Execute/Executor.h"
#include "sluice/Support/Error.h"

#include <algorithm>
#include <functional>
#include <gtest/gtest.h>
#include <thread>

using namespace sluice::testing;
using sluice::JobError;
using sluice::runtime::Access;
using sluice::runtime::Artifact;
using sluice::runtime::Executor;
using sluice::runtime::PeerError;
using sluice::runtime::ProcessGroup;

namespace {

constexpr int64_t batches = 6;

/// A model with several buckets of gradients.
struct SharedModel {
  SharedModel() {
    std::string spec = R"({"sluice": 1, "vocabulary": 50, "context": 8, "batch": 1, "width": 32,
      "defaults": {"heads": 2, "dropout": 0.1},
      "stages": [{"op": "embedding"}, {"op": "layer"}, {"op": "layer"}, {"op": "head"}],
      "training": {"accumulate": 6, "learning_rate": 0.01}})";
    artifact =
        Artifact::load(compile(folder, folder.write("shared.json", spec), "cpu-avx2"), "cpu-avx2");
  }

  std::unique_ptr<Executor> makeExecutor() const {
    auto executor = std::make_unique<Executor>(artifact, 1);
    executor->run("initialize");
    executor->prepare();
    return executor;
  }

  /// Fills the inputs of a batch.
  static void fill(Executor &executor, int64_t batch) {
    std::span<int32_t> tokens = executor.inputs().tokens;
    for (size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = static_cast<int32_t>((7 * batch + 3 * static_cast<int64_t>(i)) % 50);
    }
  }

  static std::vector<float> getWeights(Executor &executor) {
    std::vector<float> all;
    for (const auto &tensor : executor.plan().tensors) {
      std::span<float> weights = executor.tensor(tensor, Access::Read);
      all.insert(all.end(), weights.begin(), weights.end());
    }
    return all;
  }

  Folder folder;
  std::shared_ptr<const Artifact> artifact;
};

/// Runs `job` as each of `count` processes, with a time limit of ten seconds for each wait.
void runTogether(int64_t count, const std::function<void(ProcessGroup &)> &job) {
  sluice::test::Mailboxes boxes;
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < count; ++rank) {
    threads.emplace_back([&, rank] {
      ProcessGroup group(std::make_unique<sluice::test::ThreadMessenger>(boxes, rank, count),
                         std::chrono::seconds(10));
      job(group);
    });
  }
  for (std::thread &thread : threads) {
    thread.join();
  }
}

/// The exchange of a bucket begins after the last launch that writes it, and not later unless the
/// exchange before it does.
TEST(SharedUpdate, BeginsExchangesEarly) {
  SharedModel model;
  const sluice::runtime::Plan &plan = model.artifact->plan();
  const auto &launches = plan.entries.at("gradient");
  size_t before = 0;
  int64_t end = plan.gradientsBytes;
  for (const auto &collective : plan.getCollectives("gradient")) {
    int64_t begin = plan.buckets[static_cast<size_t>(collective.bucket)];
    size_t last = 0;
    for (size_t i = 0; i < launches.size(); ++i) {
      const auto &operands = plan.kernels[static_cast<size_t>(launches[i].kernel)].operands;
      for (size_t j = 0; j < operands.size(); ++j) {
        int64_t offset = launches[i].arguments[j] - plan.gradientsOffset;
        bool isWritten = operands[j].written && offset < end && offset + operands[j].bytes > begin;
        last = isWritten ? i + 1 : last;
      }
    }
    EXPECT_GT(last, 0u);
    EXPECT_EQ(collective.position, std::max(before, last)) << "bucket " << collective.bucket;
    before = collective.position;
    end = begin;
  }
  EXPECT_EQ(end, 0);
  EXPECT_LT(plan.getCollectives("gradient").front().position, launches.size() * 3 / 4);
}

TEST(SharedUpdate, HasTheBitsOfOneProcess) {
  SharedModel model;
  ASSERT_GT(model.artifact->plan().buckets.size(), 3u);
  std::unique_ptr<Executor> alone = model.makeExecutor();
  for (int64_t step : {1, 2}) {
    alone->runUpdate(step, [&](int64_t batch) { SharedModel::fill(*alone, batch); });
  }
  std::vector<float> expected = SharedModel::getWeights(*alone);
  for (bool shards : {false, true}) {
    for (int64_t count : {2, 3, 6}) {
      runTogether(count, [&](ProcessGroup &group) {
        std::unique_ptr<Executor> executor = model.makeExecutor();
        executor->share(group, shards);
        for (int64_t step : {1, 2}) {
          executor->runUpdate(
              step, [&](int64_t batch) { SharedModel::fill(*executor, batch); }, &group);
        }
        EXPECT_EQ(SharedModel::getWeights(*executor), expected) << count << " processes";
        group.end();
      });
    }
  }
}

/// An artifact of an earlier version has no collectives, and one bucket.
TEST(SharedUpdate, ExchangesAtTheEndWithoutCollectives) {
  SharedModel model;
  std::vector<float> expected;
  for (bool isEarlier : {false, true}) {
    if (isEarlier) {
      auto &plan = const_cast<sluice::runtime::Plan &>(model.artifact->plan());
      plan.collectives.clear();
      plan.buckets = {0};
    }
    runTogether(2, [&](ProcessGroup &group) {
      std::unique_ptr<Executor> executor = model.makeExecutor();
      executor->runUpdate(1, [&](int64_t batch) { SharedModel::fill(*executor, batch); }, &group);
      if (group.isFirst()) {
        std::vector<float> found = SharedModel::getWeights(*executor);
        EXPECT_TRUE(!isEarlier || found == expected);
        expected = found;
      }
      group.end();
    });
  }
}

/// A process fails in each batch of the update in turn, while others exchange gradients. All of
/// them report it, long before the time limit.
TEST(SharedUpdate, AFailureEndsAllProcesses) {
  SharedModel model;
  for (int64_t failing = 0; failing < batches; ++failing) {
    auto start = std::chrono::steady_clock::now();
    runTogether(3, [&](ProcessGroup &group) {
      std::unique_ptr<Executor> executor = model.makeExecutor();
      auto fill = [&](int64_t batch) {
        if (batch == failing && group.rank() == 1) {
          throw JobError("no memory");
        }
        SharedModel::fill(*executor, batch);
      };
      try {
        executor->runUpdate(1, fill, &group);
        ADD_FAILURE() << "rank " << group.rank() << ", batch " << failing;
      } catch (const PeerError &error) {
        EXPECT_NE(group.rank(), 1);
        EXPECT_STREQ(error.what(), "rank 1: no memory");
      } catch (const JobError &error) {
        EXPECT_EQ(group.rank(), 1);
        group.fail(error.what());
      }
      EXPECT_FALSE(group.isLost());
    });
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(8));
  }
}

} // namespace
