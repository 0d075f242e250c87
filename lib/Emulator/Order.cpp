// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Releases and acquires, by atomics themselves and by adjacent fences.
#include "Order.h"

#include <algorithm>
#include <iterator>

using namespace sluice::emulator;

static void unite(Releases &into, const Releases &more) {
  Releases sum;
  std::set_union(into.begin(), into.end(), more.begin(), more.end(), std::back_inserter(sum));
  into = std::move(sum);
}

static void unite(Knowledge &into, const Knowledge &more) {
  if (!into || !more) {
    into = into ? into : more;
    return;
  }
  std::vector<Time> sum = *into;
  for (size_t i = 0; i < sum.size(); ++i) {
    sum[i] = std::max(sum[i], (*more)[i]);
  }
  into = std::make_shared<const std::vector<Time>>(std::move(sum));
}

void Order::startLaunch() {
  launch.clear();
  released.clear();
  first = 0;
}

void Order::startBlock() {
  block.clear();
  acquired.clear();
  first += static_cast<uint32_t>(released.size());
  released.clear();
  fenced.assign(clocks.threads(), {});
  seen.assign(clocks.threads(), {});
}

Releases Order::knownTo(unsigned thread) const {
  Releases sum;
  for (const Acquired &one : acquired) {
    if (clocks.knows(thread, one.thread, one.time)) {
      unite(sum, one.releases);
    }
  }
  return sum;
}

bool Order::knowsAny(unsigned thread, const Releases &releases) const {
  return std::any_of(acquired.begin(), acquired.end(), [&](const Acquired &one) {
    return clocks.knows(thread, one.thread, one.time) &&
           std::any_of(releases.begin(), releases.end(), [&](uint32_t number) {
             return std::binary_search(one.releases.begin(), one.releases.end(), number);
           });
  });
}

Releases Order::covering(Agent agent, Time time) const {
  Releases result;
  for (uint32_t i = 0; i < released.size(); ++i) {
    if ((*released[i])[agent] >= time) {
      result.push_back(first + i);
    }
  }
  return result;
}

/// Takes a snapshot of the thread's knowledge, and advances the thread's time, so that its later
/// accesses are not in the snapshot.
Order::Snapshot Order::take(unsigned thread) {
  Snapshot snapshot;
  snapshot.others = knownTo(thread);
  clocks.release(thread, snapshot.clock);
  return snapshot;
}

void Order::acquire(unsigned thread, const Releases &releases) {
  Releases known = knownTo(thread);
  if (!std::includes(known.begin(), known.end(), releases.begin(), releases.end())) {
    acquired.push_back({thread, clocks.now(thread), releases});
  }
}

void Order::leave(unsigned thread, uint64_t address, Snapshot &here, Snapshot *device) {
  if (here.clock) {
    unite(block[address], here.clock);
  }
  if (device && device->clock) {
    if (device->number == none) {
      device->number = first + static_cast<uint32_t>(released.size());
      released.push_back(device->clock);
      device->others.push_back(device->number); // the largest number
    }
    unite(launch[address], device->others);
  }
}

void Order::atomic(unsigned thread, uint64_t address, const Site &site, bool global) {
  bool device = global && site.scope == Scope::Device;
  if (site.reads) {
    Seen &mine = seen[thread];
    auto here = block.find(address);
    auto others = launch.find(address);
    unite(mine.here, here == block.end() ? nullptr : here->second);
    if (device && others != launch.end()) {
      unite(mine.others, others->second);
    }
  }
  if (site.acquires) {
    auto here = block.find(address);
    clocks.acquire(thread, here == block.end() ? nullptr : here->second);
    auto others = launch.find(address);
    if (device && others != launch.end()) {
      acquire(thread, others->second);
    }
  }
  if (!site.writes) {
    return;
  }
  if (!site.reads) {
    block.erase(address);
    if (global) {
      launch.erase(address);
    }
  }
  if (site.releases) {
    Snapshot now = take(thread);
    leave(thread, address, now, device ? &now : nullptr);
  } else {
    leave(thread, address, fenced[thread].block, device ? &fenced[thread].device : nullptr);
  }
}

void Order::fence(unsigned thread, Scope scope, bool acquires, bool releases) {
  if (scope == Scope::Thread) {
    return;
  }
  if (acquires) {
    clocks.acquire(thread, seen[thread].here);
    if (scope == Scope::Device) {
      acquire(thread, seen[thread].others);
    }
  }
  if (releases) {
    Snapshot now = take(thread);
    fenced[thread].block = now;
    if (scope == Scope::Device) {
      fenced[thread].device = std::move(now);
    }
  }
}
