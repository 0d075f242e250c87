// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Mbarriers.h"

#include "Machine.h"

using namespace sluice;
using namespace sluice::emulator;

static constexpr uint32_t mostArrivals = (1 << 20) - 1;

/// Returns an access to the object, which orders like an atomic: initialization must precede it.
static Touch makeTouch(uint64_t address, uint32_t site, bool atomic) {
  Touch touch{address, 8, 8};
  touch.reads = atomic;
  touch.writes = touch.barrier = true;
  touch.atomic = atomic;
  touch.site = site;
  return touch;
}

void Mbarriers::initialize(uint32_t site, uint64_t address, uint32_t count) {
  if (!machine.isShared(address)) {
    machine.fail(ViolationKind::Mbarrier, site, "expected an mbarrier object in shared memory",
                 address);
  }
  if (count == 0 || count > mostArrivals) {
    machine.fail(ViolationKind::Mbarrier, site,
                 "expected 1 to " + std::to_string(mostArrivals) + " arrivals, found " +
                     std::to_string(count),
                 address);
  }
  if (objects.count(address)) {
    machine.fail(ViolationKind::Mbarrier, site, "expected no initialized mbarrier object here",
                 address);
  }
  machine.touch(machine.thread(), makeTouch(address, site, false));
  machine.memory.markBarrier(address, true);
  Mbarrier &barrier = objects[address];
  barrier.expected = barrier.pending = count;
}

Mbarrier &Mbarriers::find(uint32_t site, uint64_t address) {
  auto found = objects.find(address);
  if (found == objects.end()) {
    machine.fail(ViolationKind::Mbarrier, site, "expected an initialized mbarrier object", address);
  }
  machine.touch(machine.thread(), makeTouch(address, site, true));
  return found->second;
}

void Mbarriers::invalidate(uint32_t site, uint64_t address) {
  Mbarrier &barrier = find(site, address);
  if (!barrier.waiting.empty()) {
    machine.fail(ViolationKind::Mbarrier, site,
                 "expected no thread to wait at an mbarrier object that is invalidated", address);
  }
  machine.touch(machine.thread(), makeTouch(address, site, false));
  machine.memory.markBarrier(address, false);
  objects.erase(address);
}

void Mbarriers::finishPhase(Mbarrier &barrier) {
  if (barrier.pending > 0 || barrier.transactions != 0) {
    return;
  }
  ++barrier.phase;
  barrier.pending = barrier.expected;
  // Later phases complete only after earlier ones, so knowledge grows.
  barrier.known = barrier.next;
  for (unsigned waiting : barrier.waiting) {
    machine.threads.wake(waiting);
  }
  barrier.waiting.clear();
}

uint64_t Mbarriers::arrive(uint32_t site, uint64_t address, uint32_t count, int64_t transactions,
                           bool arrives) {
  Mbarrier &barrier = find(site, address);
  uint64_t phase = barrier.phase;
  barrier.transactions += transactions;
  if (arrives) {
    if (count > barrier.pending) {
      machine.fail(ViolationKind::Mbarrier, site,
                   "expected at most " + std::to_string(barrier.pending) +
                       " more arrivals in this phase, found " + std::to_string(count),
                   address);
    }
    barrier.pending -= count;
    machine.clocks.release(machine.thread(), barrier.next);
  }
  finishPhase(barrier);
  return phase;
}

bool Mbarriers::wait(uint32_t site, uint64_t address, uint64_t phase, bool isParity, bool blocks) {
  Mbarrier *barrier = &find(site, address);
  auto wanted = static_cast<int64_t>(phase);
  if (isParity) {
    auto seen = barrier->seen.find(machine.thread());
    int64_t last = seen == barrier->seen.end() ? -2 : seen->second;
    bool next = uint64_t(last + 1) % 2 == phase % 2;
    wanted = last + next;
    if (last == -2) {
      wanted = phase % 2 ? -1 : 0; // phase -1, before the first phase, counts as complete
    }
  }
  auto complete = [&] { return int64_t(barrier->phase) > wanted; };
  if (int64_t(barrier->phase) > wanted + 1) {
    machine.fail(ViolationKind::Mbarrier, site,
                 "expected a wait for this phase or the one before; phase " +
                     std::to_string(wanted) + " is " +
                     std::to_string(int64_t(barrier->phase) - wanted) + " behind",
                 address);
  }
  if (blocks && !complete()) {
    barrier->waiting.push_back(machine.thread());
    machine.pause({Wait::For::Mbarrier, site, address});
    barrier = &find(site, address);
  }
  if (complete()) {
    barrier->seen[machine.thread()] = wanted;
    machine.clocks.acquire(machine.thread(), barrier->known);
    return true;
  }
  return false;
}
