// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Random atomics, fences and barriers of several blocks: the emulator must find the same orders as
// a model that stores every access and every thread's complete knowledge.
#include "Blocks.h"

#include "gtest/gtest.h"
#include <random>
#include <set>

using namespace sluice;
using namespace sluice::emulator;

namespace {

constexpr unsigned threads = 3, blocks = 5, cells = 12, flags = 2;
using Set = std::set<size_t>;

/// Every access, and every thread's knowledge of each.
struct OrderModel {
  struct Past {
    unsigned block, cell;
    bool writes, atomic, strong;
  };
  struct Thread {
    Set known, fencedBlock, fencedDevice, seenBlock, seenDevice;
  };
  std::vector<Past> all;
  Thread of[threads];
  Set inBlock[flags], inLaunch[flags];
  bool clashesElsewhere =
      false; ///< of the last access: with one of another block, were neither known

  static void add(Set &to, const Set &from) { to.insert(from.begin(), from.end()); }

  void startBlock() {
    std::fill_n(of, threads, Thread());
    std::fill_n(inBlock, flags, Set());
  }
  bool access(unsigned thread, const Past &event) {
    bool conflict = clashesElsewhere = false;
    for (size_t i = 0; i < all.size(); ++i) {
      const Past &other = all[i];
      bool both =
          other.block == event.block ? other.atomic && event.atomic : other.strong && event.strong;
      bool clash = other.cell == event.cell && (other.writes || event.writes) && !both;
      conflict |= clash && !of[thread].known.count(i);
      clashesElsewhere |= clash && other.block != event.block;
    }
    of[thread].known.insert(all.size());
    all.push_back(event);
    return conflict;
  }
  void atomic(unsigned thread, unsigned flag, const Site &site) {
    Thread &t = of[thread];
    bool device = site.scope == Scope::Device;
    Set none;
    if (site.reads) {
      add(t.seenBlock, inBlock[flag]);
      add(t.seenDevice, device ? inLaunch[flag] : none);
    }
    if (site.acquires) {
      add(t.known, inBlock[flag]);
      add(t.known, device ? inLaunch[flag] : none);
    }
    if (site.writes && !site.reads) {
      inBlock[flag].clear();
      inLaunch[flag].clear();
    }
    if (site.writes) {
      add(inBlock[flag], site.releases ? t.known : t.fencedBlock);
      add(inLaunch[flag], !device ? none : site.releases ? t.known : t.fencedDevice);
    }
  }
  void fence(unsigned thread, Scope scope, bool acquires, bool releases) {
    Thread &t = of[thread];
    bool device = scope == Scope::Device;
    if (acquires) {
      add(t.known, t.seenBlock);
      add(t.known, device ? t.seenDevice : Set());
    }
    if (releases) {
      t.fencedBlock = t.known;
      t.fencedDevice = device ? t.known : t.fencedDevice;
    }
  }
  void join(const std::vector<unsigned> &members) {
    Set sum;
    for (unsigned member : members) {
      add(sum, of[member].known);
    }
    for (unsigned member : members) {
      of[member].known = sum;
    }
  }
};

struct Answers {
  unsigned conflicts = 0; ///< accesses that conflict with an earlier one
  unsigned ordered = 0;   ///< that do not, where another block's would
};

Answers runRandomSchedule(unsigned seed) {
  std::mt19937 random(seed);
  auto draw = [&](unsigned below) { return static_cast<unsigned>(random() % below); };
  Clocks clocks;
  emulator::Order order(clocks);
  Histories histories(clocks);
  Blocks past(order);
  OrderModel model;
  uint32_t before[cells] = {};
  Answers answers;
  order.startLaunch();
  past.startLaunch();
  for (unsigned block = 1; block <= blocks; ++block) {
    clocks.reset(threads);
    order.startBlock();
    histories.reset();
    past.startBlock();
    model.startBlock();
    uint32_t now[cells] = {};
    for (unsigned step = 0; step < 40; ++step) {
      unsigned thread = draw(threads), choice = draw(16);
      if (choice < 5) {
        unsigned cell = draw(cells);
        bool writes = draw(2), atomic = draw(2), strong = atomic && draw(2);
        Access access = makeAccess(writes, atomic, strong);
        AccessEvent event(thread, clocks.now(thread), step, access);
        auto here = histories.add(now[cell], event, thread);
        auto there = past.add(before[cell], thread, access, atomic);
        now[cell] = here.next;
        before[cell] = there.next;
        bool expected = model.access(thread, {block, cell, writes, atomic, strong});
        EXPECT_EQ(bool(here.conflict) || there.conflict, expected)
            << "seed " << seed << ", block " << block << ", step " << step;
        answers.conflicts += expected;
        answers.ordered += !expected && model.clashesElsewhere;
      } else if (choice < 11) {
        unsigned flag = draw(flags);
        Site site;
        site.atomic = true;
        site.reads = draw(4) > 0;
        site.writes = !site.reads || draw(4) > 0;
        site.acquires = site.reads && draw(2);
        site.releases = site.writes && draw(2);
        site.scope = draw(4) ? Scope::Device : Scope::Block;
        order.atomic(thread, 64 + flag, site, true);
        model.atomic(thread, flag, site);
      } else if (choice < 14) {
        Scope scope = draw(4) ? Scope::Device : Scope::Block;
        bool acquires = draw(3), releases = draw(3);
        order.fence(thread, scope, acquires, releases);
        model.fence(thread, scope, acquires, releases);
      } else {
        std::vector<unsigned> members{thread, (thread + 1) % threads};
        clocks.join(members, members);
        model.join(members);
      }
    }
    for (unsigned cell = 0; cell < cells; ++cell) {
      if (!histories.isEmpty(now[cell])) {
        before[cell] = past.fold(before[cell], now[cell], histories.getEvents(now[cell]), block);
      }
    }
  }
  return answers;
}

TEST(Order, RandomOrdersMatchCompleteHistories) {
  Answers sum;
  for (unsigned seed = 0; seed < 1000; ++seed) {
    Answers answers = runRandomSchedule(seed);
    sum.conflicts += answers.conflicts;
    sum.ordered += answers.ordered;
  }
  // Both must occur often.
  EXPECT_GT(sum.conflicts, 5000u);
  EXPECT_GT(sum.ordered, 2000u);
}

} // namespace
