// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// mbarrier objects: arrivals, transactions, phases.
#include "Builtins.h"
#include "Machine.h"

using namespace sluice;
using namespace sluice::emulator;

static constexpr uint32_t mostArrivals = (1 << 20) - 1;

/// An access of the object, which orders like an atomic: initialization must be before it.
static Touch touchOf(uint64_t address, uint32_t site, bool atomic) {
  Touch touch{address, 8, 8};
  touch.reads = atomic;
  touch.writes = touch.barrier = true;
  touch.atomic = atomic;
  touch.site = site;
  return touch;
}

void Machine::initBarrier(uint32_t site, uint64_t address, uint32_t count) {
  if (!isShared(address)) {
    fail(Kind::Mbarrier, site, "expected an mbarrier object in shared memory", address);
  }
  if (count == 0 || count > mostArrivals) {
    fail(Kind::Mbarrier, site,
         "expected 1 to " + std::to_string(mostArrivals) + " arrivals, found " +
             std::to_string(count),
         address);
  }
  if (mbarriers.count(address)) {
    fail(Kind::Mbarrier, site, "expected no initialized mbarrier object here", address);
  }
  touch(thread(), touchOf(address, site, false));
  memory.markBarrier(address, true);
  Mbarrier &barrier = mbarriers[address];
  barrier.expected = barrier.pending = count;
}

Machine::Mbarrier &Machine::findBarrier(uint32_t site, uint64_t address) {
  auto found = mbarriers.find(address);
  if (found == mbarriers.end()) {
    fail(Kind::Mbarrier, site, "expected an initialized mbarrier object", address);
  }
  touch(thread(), touchOf(address, site, true));
  return found->second;
}

void Machine::dropBarrier(uint32_t site, uint64_t address) {
  Mbarrier &barrier = findBarrier(site, address);
  if (!barrier.waiting.empty()) {
    fail(Kind::Mbarrier, site, "expected nobody to wait at an mbarrier object that is invalidated",
         address);
  }
  touch(thread(), touchOf(address, site, false));
  memory.markBarrier(address, false);
  mbarriers.erase(address);
}

void Machine::finishPhase(Mbarrier &barrier) {
  if (barrier.pending > 0 || barrier.transactions != 0) {
    return;
  }
  ++barrier.phase;
  barrier.pending = barrier.expected;
  // Later phases are complete only after earlier ones: knowledge grows.
  barrier.known = barrier.next;
  for (unsigned waiting : barrier.waiting) {
    threads.wake(waiting);
  }
  barrier.waiting.clear();
}

uint64_t Machine::arrive(uint32_t site, uint64_t address, uint32_t count, int64_t transactions,
                         bool arrives) {
  Mbarrier &barrier = findBarrier(site, address);
  uint64_t phase = barrier.phase;
  barrier.transactions += transactions;
  if (arrives) {
    if (count > barrier.pending) {
      fail(Kind::Mbarrier, site,
           "expected at most " + std::to_string(barrier.pending) +
               " more arrivals in this phase, found " + std::to_string(count),
           address);
    }
    barrier.pending -= count;
    clocks.release(thread(), barrier.next);
  }
  finishPhase(barrier);
  return phase;
}

/// `phase` is a number that an arrival gave, or a parity: then the thread's waits are taken to go
/// from phase to phase.
bool Machine::waitBarrier(uint32_t site, uint64_t address, uint64_t phase, bool isParity,
                          bool blocks) {
  Mbarrier *barrier = &findBarrier(site, address);
  auto wanted = static_cast<int64_t>(phase);
  if (isParity) {
    auto seen = barrier->seen.find(thread());
    int64_t last = seen == barrier->seen.end() ? -2 : seen->second;
    bool next = uint64_t(last + 1) % 2 == phase % 2;
    wanted = last + next;
    if (last == -2) {
      wanted = phase % 2 ? -1 : 0; // "the phase before the first" is complete
    }
  }
  auto complete = [&] { return int64_t(barrier->phase) > wanted; };
  if (int64_t(barrier->phase) > wanted + 1) {
    fail(Kind::Mbarrier, site,
         "expected a wait for this phase or the one before; phase " + std::to_string(wanted) +
             " is " + std::to_string(int64_t(barrier->phase) - wanted) + " behind",
         address);
  }
  if (blocks && !complete()) {
    barrier->waiting.push_back(thread());
    pause({Wait::For::Mbarrier, site, address});
    barrier = &findBarrier(site, address);
  }
  if (complete()) {
    barrier->seen[thread()] = wanted;
    clocks.acquire(thread(), barrier->known);
    return true;
  }
  return false;
}

static void initialize(uint32_t site, uint64_t address, uint32_t count) {
  Machine::current().initBarrier(site, address, count);
}
static void invalidate(uint32_t site, uint64_t address) {
  Machine::current().dropBarrier(site, address);
}
static uint64_t arriveOne(uint32_t site, uint64_t address) {
  return Machine::current().arrive(site, address, 1, 0, true);
}
static uint64_t arriveMany(uint32_t site, uint64_t address, uint32_t count) {
  return Machine::current().arrive(site, address, count, 0, true);
}
static uint64_t arriveExpecting(uint32_t site, uint64_t address, uint32_t bytes) {
  return Machine::current().arrive(site, address, 1, bytes, true);
}
static void expectBytes(uint32_t site, uint64_t address, uint32_t bytes) {
  Machine::current().arrive(site, address, 0, bytes, false);
}
static void completeBytes(uint32_t site, uint64_t address, uint32_t bytes) {
  Machine::current().arrive(site, address, 0, -int64_t(bytes), false);
}
/// As slow as a wait may be: it always succeeds, when it can. A thread that polls and does other
/// work meanwhile would see failures on a GPU that it does not see here.
template <bool Parity> static uint32_t waitFor(uint32_t site, uint64_t address, uint64_t phase) {
  return Machine::current().waitBarrier(site, address, phase, Parity, true);
}
static uint32_t waitForParity(uint32_t site, uint64_t address, uint32_t parity) {
  return Machine::current().waitBarrier(site, address, parity, true, true);
}
static uint32_t waitForParityHinted(uint32_t site, uint64_t address, uint32_t parity, uint32_t) {
  return waitForParity(site, address, parity);
}
static void waitLoop(uint32_t site, uint64_t address, uint32_t parity, uint32_t) {
  waitForParity(site, address, parity);
}

#define CTA ".scope.cta.space.cta"

llvm::ArrayRef<Builtin> sluice::emulator::mbarrierBuiltins() {
  static const Builtin table[] = {
      makeBuiltin("mbarrier.init", initialize),
      makeBuiltin("mbarrier.init.shared", initialize),
      makeBuiltin("mbarrier.inval", invalidate),
      makeBuiltin("mbarrier.inval.shared", invalidate),
      makeBuiltin("mbarrier.arrive", arriveOne),
      makeBuiltin("mbarrier.arrive.shared", arriveOne),
      makeBuiltin("mbarrier.arrive" CTA, arriveMany),
      makeBuiltin("mbarrier.arrive.expect.tx" CTA, arriveExpecting),
      makeBuiltin("mbarrier.expect.tx" CTA, expectBytes),
      makeBuiltin("mbarrier.complete.tx" CTA, completeBytes),
      makeBuiltin("mbarrier.test.wait", waitFor<false>),
      makeBuiltin("mbarrier.test.wait.shared", waitFor<false>),
      makeBuiltin("mbarrier.test.wait" CTA, waitFor<false>),
      makeBuiltin("mbarrier.try.wait" CTA, waitFor<false>),
      makeBuiltin("mbarrier.test.wait.parity" CTA, waitForParity),
      makeBuiltin("mbarrier.try.wait.parity" CTA, waitForParity),
      makeBuiltin("mbarrier.try.wait.parity.tl" CTA, waitForParityHinted),
      makeBuiltin("asm.mbarrier.wait.parity", waitLoop),
  };
  return table;
}
