// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// cp.async. A copy is an access of an agent of its own, at the time of its group: who reads its
// bytes must know of that time, which the copying thread learns by waiting and others by a barrier
// after that.
#include "Builtins.h"
#include "Machine.h"

#include <cstring>

using namespace sluice;
using namespace sluice::emulator;

void Machine::land(Copy &copy) {
  if (!copy.landed) {
    auto *to = reinterpret_cast<char *>(copy.to);
    std::memcpy(to, reinterpret_cast<const char *>(copy.from), copy.fromBytes);
    std::memset(to + copy.fromBytes, 0, copy.bytes - copy.fromBytes);
    copy.landed = true;
  }
}

void Machine::copyAsync(uint32_t site, uint64_t to, uint64_t from, uint32_t bytes,
                        uint32_t fromBytes) {
  if (!isShared(to)) {
    fail(Kind::OutOfBounds, site, "expected a copy into shared memory", to);
  }
  if (fromBytes > bytes) {
    fail(Kind::OutOfBounds, site,
         "expected a copy of at most " + std::to_string(bytes) + " bytes, found " +
             std::to_string(fromBytes),
         from);
  }
  Queue &queue = queues[thread()];
  Touch touch{from, fromBytes, bytes};
  touch.copy = true;
  touch.copyTime = queue.first + static_cast<Time>(queue.groups.size());
  touch.site = site;
  if (fromBytes) {
    touch.reads = true;
    this->touch(thread(), touch);
  }
  touch.address = to;
  touch.bytes = bytes;
  touch.reads = false;
  touch.writes = true;
  this->touch(thread(), touch);
  queue.open.push_back(
      {to, from, site, static_cast<uint8_t>(bytes), static_cast<uint8_t>(fromBytes), false});
  bool now = options.copies == Copies::Early ||
             (options.copies == Copies::Random && threads.random()() % 2 == 0);
  if (now) {
    land(queue.open.back());
  }
}

void Machine::commitCopies() {
  Queue &queue = queues[thread()];
  queue.groups.push_back(std::move(queue.open));
  queue.open.clear();
}

void Machine::waitCopies(uint32_t mostPending) {
  Queue &queue = queues[thread()];
  size_t finished = queue.groups.size() - std::min<size_t>(queue.groups.size(), mostPending);
  for (size_t i = 0; i < finished; ++i) {
    for (Copy &copy : queue.groups[i]) {
      land(copy);
    }
  }
  queue.groups.erase(queue.groups.begin(), queue.groups.begin() + ptrdiff_t(finished));
  queue.first += static_cast<Time>(finished);
  clocks.learnCopies(thread(), queue.first - 1);
}

/// Now is one of the times at which they may all be done.
void Machine::arriveAfterCopies(uint32_t site, uint64_t address, bool counted) {
  Mbarrier &barrier = findBarrier(site, address);
  Queue &queue = queues[thread()];
  for (auto &group : queue.groups) {
    for (Copy &copy : group) {
      land(copy);
    }
  }
  for (Copy &copy : queue.open) {
    land(copy);
  }
  barrier.pending += counted;
  clocks.releaseCopies(thread(), queue.first + static_cast<Time>(queue.groups.size()),
                       barrier.next);
  arrive(site, address, 1, 0, true);
}

template <uint32_t Bytes> static void copy(uint32_t site, uint64_t to, uint64_t from) {
  Machine::current().copyAsync(site, to, from, Bytes, Bytes);
}
template <uint32_t Bytes>
static void copyPart(uint32_t site, uint64_t to, uint64_t from, uint32_t fromBytes) {
  Machine::current().copyAsync(site, to, from, Bytes, fromBytes);
}
static void commit(uint32_t) { Machine::current().commitCopies(); }
static void waitGroup(uint32_t, uint32_t mostPending) {
  Machine::current().waitCopies(mostPending);
}
static void waitAll(uint32_t) {
  Machine::current().commitCopies();
  Machine::current().waitCopies(0);
}
template <bool Counted> static void arriveLater(uint32_t site, uint64_t address) {
  Machine::current().arriveAfterCopies(site, address, Counted);
}

llvm::ArrayRef<Builtin> sluice::emulator::copyBuiltins() {
  static const Builtin table[] = {
      makeBuiltin("cp.async.ca.shared.global.4", copy<4>),
      makeBuiltin("cp.async.ca.shared.global.8", copy<8>),
      makeBuiltin("cp.async.ca.shared.global.16", copy<16>),
      makeBuiltin("cp.async.cg.shared.global.16", copy<16>),
      makeBuiltin("cp.async.ca.shared.global.4.s", copyPart<4>),
      makeBuiltin("cp.async.ca.shared.global.8.s", copyPart<8>),
      makeBuiltin("cp.async.ca.shared.global.16.s", copyPart<16>),
      makeBuiltin("cp.async.cg.shared.global.16.s", copyPart<16>),
      makeBuiltin("cp.async.commit.group", commit),
      makeBuiltin("cp.async.wait.group", waitGroup),
      makeBuiltin("cp.async.wait.all", waitAll),
      makeBuiltin("cp.async.mbarrier.arrive", arriveLater<true>),
      makeBuiltin("cp.async.mbarrier.arrive.shared", arriveLater<true>),
      makeBuiltin("cp.async.mbarrier.arrive.noinc", arriveLater<false>),
      makeBuiltin("cp.async.mbarrier.arrive.noinc.shared", arriveLater<false>),
  };
  return table;
}
