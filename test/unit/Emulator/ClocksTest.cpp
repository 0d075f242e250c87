// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Histories store few accesses of each byte. They must find a conflict if and only if a history of
// every access and every thread's complete knowledge finds one.
#include "Clocks.h"

#include "gtest/gtest.h"
#include <random>
#include <set>

using namespace sluice::emulator;

namespace {

constexpr unsigned threads = 5, cells = 3, flags = 2;

struct Past {
  Access access;
  unsigned cell;
  bool copy;
  unsigned thread;
  Time time;
};

/// Events, and the threads that know of them.
class ClockModel {
public:
  bool add(const Past &event) {
    bool conflict = false;
    for (size_t i = 0; i < all.size(); ++i) {
      bool clash = all[i].cell == event.cell &&
                   (all[i].access != Access::Read || event.access != Access::Read) &&
                   !(all[i].access == Access::Atomic && event.access == Access::Atomic);
      conflict |= clash && !known[event.thread].count(i);
    }
    if (!event.copy) {
      known[event.thread].insert(all.size());
    }
    all.push_back(event);
    return conflict;
  }
  void wait(unsigned thread, Time time) {
    for (size_t i = 0; i < all.size(); ++i) {
      if (all[i].copy && all[i].thread == thread && all[i].time <= time) {
        known[thread].insert(i);
      }
    }
  }
  void join(const std::vector<unsigned> &members) {
    std::set<size_t> sum;
    for (unsigned member : members) {
      sum.insert(known[member].begin(), known[member].end());
    }
    for (unsigned member : members) {
      known[member] = sum;
    }
  }
  std::set<size_t> known[threads], published[flags];

private:
  std::vector<Past> all;
};

class Histories : public testing::TestWithParam<unsigned> {};

TEST_P(Histories, MatchCompleteHistories) {
  std::mt19937 random(GetParam());
  const Access kinds[] = {Access::Read, Access::Write, Access::Atomic};
  auto draw = [&](unsigned below) { return static_cast<unsigned>(random() % below); };
  Clocks clocks;
  clocks.reset(threads);
  sluice::emulator::Histories histories(clocks);
  uint32_t state[cells] = {};
  Knowledge published[flags];
  Time group[threads] = {1, 1, 1, 1, 1};
  ClockModel model;
  unsigned conflicts = 0, accesses = 0;
  for (unsigned step = 0; step < 400; ++step) {
    unsigned thread = draw(threads), choice = draw(20), flag = draw(flags);
    if (choice < 10) {
      Past event{kinds[draw(3)], draw(cells), draw(4) == 0, thread, group[thread]};
      AccessEvent packed(event.copy ? thread + threads : thread,
                         event.copy ? event.time : clocks.now(thread), step, event.access);
      auto found = histories.add(state[event.cell], packed, thread);
      state[event.cell] = found.next;
      bool expected = model.add(event);
      ASSERT_EQ(bool(found.conflict), expected) << "step " << step;
      conflicts += expected;
      ++accesses;
    } else if (choice < 12) {
      model.wait(thread, group[thread]);
      clocks.learnCopies(thread, group[thread]++);
    } else if (choice < 14) {
      std::vector<unsigned> members;
      for (unsigned i = 0; i < threads; ++i) {
        if (i == thread || draw(3) > 0) {
          members.push_back(i);
        }
      }
      model.join(members);
      clocks.join(members, members);
    } else if (choice == 14) {
      model.published[flag].insert(model.known[thread].begin(), model.known[thread].end());
      clocks.release(thread, published[flag]);
    } else if (choice > 15) {
      // Models a barrier of all threads after they waited for their copies.
      std::vector<unsigned> members;
      for (unsigned i = 0; i < threads; ++i) {
        members.push_back(i);
        model.wait(i, group[i]);
        clocks.learnCopies(i, group[i]++);
      }
      model.join(members);
      clocks.join(members, members);
    } else {
      model.known[thread].insert(model.published[flag].begin(), model.published[flag].end());
      clocks.acquire(thread, published[flag]);
    }
  }
  // Both answers must occur.
  EXPECT_GT(conflicts, 10u);
  EXPECT_GT(accesses - conflicts, 10u);
}

INSTANTIATE_TEST_SUITE_P(Seeds, Histories, testing::Range(0u, 100u));

} // namespace
