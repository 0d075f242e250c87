// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "CopyQueues.h"

#include "Machine.h"

#include <cstring>

using namespace sluice;
using namespace sluice::emulator;

CopyQueues::Queue &CopyQueues::getQueue() { return queues[machine.thread()]; }

static void land(Copy &copy) {
  if (!copy.landed) {
    auto *to = reinterpret_cast<char *>(copy.to);
    std::memcpy(to, reinterpret_cast<const char *>(copy.from), copy.fromBytes);
    std::memset(to + copy.fromBytes, 0, copy.bytes - copy.fromBytes);
    copy.landed = true;
  }
}

void CopyQueues::copy(uint32_t site, uint64_t to, uint64_t from, uint32_t bytes,
                      uint32_t fromBytes) {
  if (!machine.isShared(to)) {
    machine.fail(ViolationKind::OutOfBounds, site, "expected a copy into shared memory", to);
  }
  if (fromBytes > bytes) {
    machine.fail(ViolationKind::OutOfBounds, site,
                 "expected a copy of at most " + std::to_string(bytes) + " bytes, found " +
                     std::to_string(fromBytes),
                 from);
  }
  Queue &queue = getQueue();
  Touch touch{from, fromBytes, bytes};
  touch.copy = true;
  touch.agentTime = queue.first + static_cast<Time>(queue.groups.size());
  touch.site = site;
  if (fromBytes) {
    touch.reads = true;
    machine.touch(machine.thread(), touch);
  }
  touch.address = to;
  touch.bytes = bytes;
  touch.reads = false;
  touch.writes = true;
  machine.touch(machine.thread(), touch);
  queue.open.push_back(
      {to, from, site, static_cast<uint8_t>(bytes), static_cast<uint8_t>(fromBytes), false});
  bool now = machine.options.copies == Copies::Early ||
             (machine.options.copies == Copies::Random && machine.threads.random()() % 2 == 0);
  if (now) {
    land(queue.open.back());
  }
}

void CopyQueues::commit() {
  Queue &queue = getQueue();
  queue.groups.push_back(std::move(queue.open));
  queue.open.clear();
}

void CopyQueues::wait(uint32_t mostPending) {
  Queue &queue = getQueue();
  size_t finished = queue.groups.size() - std::min<size_t>(queue.groups.size(), mostPending);
  for (size_t i = 0; i < finished; ++i) {
    for (Copy &copy : queue.groups[i]) {
      land(copy);
    }
  }
  queue.groups.erase(queue.groups.begin(), queue.groups.begin() + ptrdiff_t(finished));
  queue.first += static_cast<Time>(finished);
  machine.clocks.learnCopies(machine.thread(), queue.first - 1);
}

void CopyQueues::arriveAfter(uint32_t site, uint64_t address, bool counted) {
  Mbarrier &barrier = machine.mbarriers.find(site, address);
  Queue &queue = getQueue();
  for (auto &group : queue.groups) {
    for (Copy &copy : group) {
      land(copy);
    }
  }
  for (Copy &copy : queue.open) {
    land(copy);
  }
  barrier.pending += counted;
  machine.clocks.releaseCopies(machine.thread(),
                               queue.first + static_cast<Time>(queue.groups.size()), barrier.next);
  machine.mbarriers.arrive(site, address, 1, 0, true);
}

void CopyQueues::endThread() {
  commit();
  for (const std::vector<Copy> &group : getQueue().groups) {
    if (!group.empty()) {
      machine.complain(ViolationKind::PendingCopy, group.front().site,
                       "expected the thread to wait for its asynchronous copies before it ends",
                       group.front().to);
      break;
    }
  }
  wait(0);
}
