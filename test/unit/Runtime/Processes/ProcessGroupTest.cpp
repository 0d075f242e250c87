// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Mailboxes.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <gtest/gtest.h>
#include <optional>
#include <thread>

using namespace sluice;
using namespace sluice::runtime;
using namespace sluice::test;

namespace {

/// Runs `job` as each of three processes. Returns how many of them ended their communication.
int runTogether(const std::function<void(ProcessGroup &)> &job) {
  Mailboxes boxes;
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      ProcessGroup group(std::make_unique<ThreadMessenger>(boxes, rank, 3),
                         std::chrono::seconds(1));
      job(group);
    });
  }
  for (std::thread &thread : threads) {
    thread.join();
  }
  return boxes.finished;
}

TEST(ProcessGroup, AgreesOnTheMostUrgentIntent) {
  int finished = runTogether([](ProcessGroup &group) {
    auto all = group.agree(Intent::Continue, std::to_string(group.rank()));
    EXPECT_EQ(all.intent, Intent::Continue);
    EXPECT_EQ(all.texts, (std::vector<std::string>{"0", "1", "2"}));
    Intent own = group.rank() == 2 ? Intent::Break : Intent::Continue;
    EXPECT_EQ(group.agree(own).intent, Intent::Break);
    group.agree(Intent::Finish);
    group.end();
  });
  EXPECT_EQ(finished, 3);
}

TEST(ProcessGroup, ReportsAFailureToAll) {
  int finished = runTogether([](ProcessGroup &group) {
    group.agree();
    if (group.rank() == 1) {
      group.fail("out of memory");
    } else {
      try {
        group.agree();
        ADD_FAILURE();
      } catch (const PeerError &error) {
        EXPECT_STREQ(error.what(), "rank 1: out of memory");
      }
      group.fail("later"); // without effect
    }
    EXPECT_TRUE(group.isOver());
  });
  EXPECT_EQ(finished, 3);
}

TEST(ProcessGroup, WaitsForAProcessThatShowsItself) {
  int finished = runTogether([](ProcessGroup &group) { // with a time limit of a second
    for (int64_t busy : {0, 2}) {
      std::optional<ProcessGroup::Presence> presence;
      if (group.rank() == busy) {
        presence.emplace(&group);
        std::this_thread::sleep_for(std::chrono::milliseconds(1800));
        group.agree(Intent::Check); // while the object exists
      } else {
        EXPECT_EQ(group.agree().intent, Intent::Check);
      }
    }
    group.agree(Intent::Finish);
    group.end();
  });
  EXPECT_EQ(finished, 3);
}

/// Reports functions that a second thread calls at the same time, which MPI_THREAD_SERIALIZED
/// forbids.
class SerialMessenger : public ThreadMessenger {
public:
  using ThreadMessenger::ThreadMessenger;

  int64_t rank() const override {
    Use use(used);
    return ThreadMessenger::rank();
  }
  int64_t size() const override {
    Use use(used);
    return ThreadMessenger::size();
  }
  void *send(std::span<const uint8_t> bytes, int64_t to, Channel channel) override {
    Use use(used);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return ThreadMessenger::send(bytes, to, channel);
  }
  void *receive(std::span<uint8_t> bytes, int64_t from, Channel channel) override {
    Use use(used);
    return ThreadMessenger::receive(bytes, from, channel);
  }
  bool test(void *request) override {
    Use use(used);
    return ThreadMessenger::test(request);
  }

private:
  struct Use {
    explicit Use(std::atomic<int> &used) : used(used) { EXPECT_EQ(used++, 0) << "two threads"; }
    ~Use() { --used; }
    std::atomic<int> &used;
  };
  mutable std::atomic<int> used = 0;
};

TEST(ProcessGroup, OneThreadAtATimeUsesTheMessenger) {
  Mailboxes boxes;
  ProcessGroup group(std::make_unique<SerialMessenger>(boxes, 1, 3), std::chrono::seconds(1));
  ProcessGroup::Presence presence(&group); // sends after 250 and 500 ms
  auto begin = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(600)) {
    EXPECT_EQ(group.rank(), 1);
    EXPECT_EQ(group.size(), 3);
    EXPECT_FALSE(group.isFirst() || group.isOver());
  }
  std::scoped_lock lock(boxes.mutex);
  EXPECT_GT(boxes.sent.size(), 0U); // the thread did send
}

TEST(ProcessGroup, ExchangesDataWhileAProcessShowsItself) {
  int finished = runTogether([](ProcessGroup &group) { // with a time limit of a second
    ProcessGroup::Presence presence(&group);
    std::this_thread::sleep_for(std::chrono::milliseconds(600)); // two messages to each other one
    std::array<std::array<int64_t, 3>, 3> data{};
    data[static_cast<size_t>(group.rank())] = {group.rank(), 10, 20};
    std::vector<ProcessGroup::Outgoing> sent;
    std::vector<ProcessGroup::Incoming> received;
    for (int64_t other = 0; other < group.size(); ++other) {
      if (other != group.rank()) {
        auto getBytes = [&](int64_t rank) {
          auto &row = data[static_cast<size_t>(rank)];
          return std::span(reinterpret_cast<uint8_t *>(row.data()), sizeof row);
        };
        sent.push_back({other, getBytes(group.rank())});
        received.push_back({other, getBytes(other)});
      }
    }
    group.exchange(sent, received);
    for (int64_t rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(data[static_cast<size_t>(rank)], (std::array<int64_t, 3>{rank, 10, 20}));
    }
    EXPECT_EQ(group.agree(Intent::Finish).intent, Intent::Finish);
    group.end();
  });
  EXPECT_EQ(finished, 3);
}

/// Two exchanges in one order overlap with other work, and an agreement follows them.
TEST(ProcessGroup, ContinuesExchangesThatHaveBegun) {
  int finished = runTogether([](ProcessGroup &group) {
    std::array<std::array<int64_t, 3>, 2> data{}; // of two exchanges, by rank
    auto own = static_cast<size_t>(group.rank());
    for (size_t number : {0, 1}) {
      data[number][own] = 10 * static_cast<int64_t>(number) + group.rank();
      std::vector<ProcessGroup::Outgoing> sent;
      std::vector<ProcessGroup::Incoming> received;
      auto getBytes = [&](size_t rank) {
        return std::span(reinterpret_cast<uint8_t *>(&data[number][rank]), sizeof(int64_t));
      };
      for (size_t other = 0; other < 3; ++other) {
        if (other != own) {
          sent.push_back({static_cast<int64_t>(other), getBytes(own)});
          received.push_back({static_cast<int64_t>(other), getBytes(other)});
        }
      }
      group.begin(sent, received);
      group.progress();
    }
    group.complete();
    EXPECT_EQ(data[0], (std::array<int64_t, 3>{0, 1, 2}));
    EXPECT_EQ(data[1], (std::array<int64_t, 3>{10, 11, 12}));
    group.complete(); // nothing has begun
    EXPECT_EQ(group.agree(Intent::Finish).intent, Intent::Finish);
    group.end();
  });
  EXPECT_EQ(finished, 3);
}

TEST(ProcessGroup, NamesALostProcessNextToABusyOne) {
  runTogether([](ProcessGroup &group) {
    if (group.rank() == 2) {
      return; // without a word
    }
    auto begin = std::chrono::steady_clock::now();
    if (group.rank() == 0) {
      ProcessGroup::Presence presence(&group);
      std::this_thread::sleep_for(std::chrono::milliseconds(1800));
    }
    EXPECT_THROW(group.agree(), LostPeerError);
    EXPECT_GT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(2400));
  });
}

TEST(ProcessGroup, NamesALostProcess) {
  int finished = runTogether([](ProcessGroup &group) {
    if (group.rank() == 2) {
      return; // without a word
    }
    try {
      group.agree();
      ADD_FAILURE();
    } catch (const LostPeerError &error) {
      EXPECT_TRUE(std::string(error.what()).starts_with("rank 2 has not answered")) << error.what();
    }
  });
  EXPECT_EQ(finished, 0); // which would wait for it
}

/// Rank 0 waits for data of the failed process, and rank 1 for an agreement. None may end its
/// communication: the data of rank 0 never arrive.
TEST(ProcessGroup, AFailureEndsAWaitForData) {
  for (bool hasOther : {false, true}) { // rank 0 also waits for something else, as for its GPU
    auto start = std::chrono::steady_clock::now();
    int finished = runTogether([&](ProcessGroup &group) { // with a time limit of a second
      group.agree();
      ProcessGroup::Presence presence(&group);
      std::array<uint8_t, 8> bytes{};
      std::array<ProcessGroup::Incoming, 1> received{{{2, bytes}}};
      try {
        if (group.rank() == 2) {
          std::this_thread::sleep_for(std::chrono::milliseconds(300)); // shows itself once
          group.fail("out of memory");
        } else if (group.rank() == 1) {
          group.agree();
          ADD_FAILURE();
        } else if (hasOther) {
          while (true) {
            group.watch();
          }
        } else {
          group.exchange({}, received);
          ADD_FAILURE();
        }
      } catch (const PeerError &error) {
        EXPECT_STREQ(error.what(), "rank 2: out of memory");
      }
      EXPECT_TRUE(group.isOver() && group.isIncomplete());
      EXPECT_FALSE(group.isLost());
    });
    EXPECT_EQ(finished, 0);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(900));
  }
}

/// Messages of the next agreement that arrive during a wait for data are part of it.
TEST(ProcessGroup, AWaitForDataKeepsLaterMessages) {
  int finished = runTogether([](ProcessGroup &group) {
    std::array<uint8_t, 1> bytes{7};
    for (int i = 0; i < 3; ++i) {
      if (group.rank() == 0) { // later than the agreement of rank 1
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        group.exchange(std::array{ProcessGroup::Outgoing{2, bytes}}, {});
      } else if (group.rank() == 2) {
        group.exchange({}, std::array{ProcessGroup::Incoming{0, bytes}});
      }
      EXPECT_EQ(group.agree(Intent::Continue, std::to_string(10 * i + group.rank())).texts,
                (std::vector<std::string>{std::to_string(10 * i), std::to_string(10 * i + 1),
                                          std::to_string(10 * i + 2)}));
    }
    group.agree(Intent::Finish);
    group.end();
  });
  EXPECT_EQ(finished, 3);
}

TEST(ProcessGroup, KnowsThatAFailureReachedNoOther) {
  runTogether([](ProcessGroup &group) {
    group.agree();
    if (group.rank() == 2) {
      EXPECT_FALSE(group.isLost());
      group.fail("out of memory");
      EXPECT_TRUE(group.isLost());
    } // the others send nothing
  });
}

/// Never completes a receive, and writes to the memory of all of them at the end.
class LateMessenger : public Messenger {
public:
  explicit LateMessenger(std::vector<std::span<uint8_t>> &pending) : pending(pending) {}

  int64_t rank() const override { return 0; }
  int64_t size() const override { return 2; }
  void *send(std::span<const uint8_t>, int64_t, Channel) override { return nullptr; }
  void *receive(std::span<uint8_t> bytes, int64_t, Channel) override {
    pending.push_back(bytes);
    return this;
  }
  bool test(void *request) override { return !request; }
  void finish() override {}

private:
  std::vector<std::span<uint8_t>> &pending;
};

TEST(ProcessGroup, KeepsTheMemoryOfMessagesThatMayArriveLate) {
  std::vector<std::span<uint8_t>> pending;
  ProcessGroup group(std::make_unique<LateMessenger>(pending), std::chrono::seconds(0));
  EXPECT_THROW(group.agree(), LostPeerError);
  ASSERT_EQ(pending.size(), 1u);
  std::span<uint8_t> first = pending.front();
  // Freed memory would be reused for the equal messages of the next call.
  EXPECT_THROW(group.agree(), LostPeerError);
  ASSERT_EQ(pending.size(), 2u);
  ASSERT_NE(pending.back().data(), first.data());
  std::ranges::fill(first, uint8_t(7)); // an error in builds with the address sanitizer
}

} // namespace
