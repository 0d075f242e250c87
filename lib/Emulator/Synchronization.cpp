// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Meetings.h"

#include "Machine.h"

#include "llvm/ADT/STLExtras.h"

using namespace sluice;
using namespace sluice::emulator;

/// Performs the operation if all of its lanes have arrived or ended.
bool Meetings::complete(Warp &warp, size_t index) {
  Meeting meeting = warp.meetings[index];
  if (meeting.arrived != (meeting.mask & ~warp.ended)) {
    return false;
  }
  auto number = static_cast<unsigned>(&warp - warps.data());
  if (meeting.aligned && meeting.arrived != meeting.mask) {
    machine.fail(ViolationKind::AbsentLane, meeting.site,
                 "expected every lane of the warp at this instruction; some have ended");
  }
  warp.meetings.erase(warp.meetings.begin() + static_cast<ptrdiff_t>(index));
  meeting.perform(machine, meeting.brought, meeting.arrived);
  for (unsigned i = 0; i < lanes; ++i) {
    unsigned other = number * lanes + i;
    if ((meeting.arrived >> i & 1) && other != machine.thread()) {
      machine.threads.wake(other);
    }
  }
  machine.traffic.flush(number);
  return true;
}

void Meetings::startBlock(unsigned threads) {
  warps.assign((threads + lanes - 1) / lanes, {});
  if (threads % lanes) {
    warps.back().ended = ~0u << threads % lanes;
  }
  std::fill(std::begin(named), std::end(named), NamedBarrier());
}

void Meetings::meet(uint32_t site, const char *operation, uint32_t mask, bool aligned, void *mine,
                    Perform perform) {
  uint32_t bit = 1u << machine.lane();
  if (!(mask & bit)) {
    machine.fail(ViolationKind::AbsentLane, site,
                 "expected a mask that names the lane which executes it");
  }
  Warp &warp = warps[machine.thread() / lanes];
  size_t i = 0;
  for (; i < warp.meetings.size(); ++i) {
    const Meeting &meeting = warp.meetings[i];
    if (meeting.operation == operation && meeting.mask == mask && !(meeting.arrived & bit) &&
        (!aligned || meeting.site == site)) {
      break;
    }
  }
  if (i == warp.meetings.size()) {
    warp.meetings.push_back({operation, site, mask, 0, aligned, perform, {}});
  }
  warp.meetings[i].arrived |= bit;
  warp.meetings[i].brought[machine.lane()] = mine;
  if (!complete(warp, i)) {
    machine.pause({Wait::For::Lanes, site, mask});
  }
}

void Meetings::joinWarp(uint32_t mask) {
  llvm::SmallVector<unsigned, lanes> members;
  for (unsigned i = 0; i < lanes; ++i) {
    if (mask >> i & 1) {
      members.push_back(machine.thread() / lanes * lanes + i);
    }
  }
  machine.clocks.join(members, members);
  ++machine.report.counters.warpBarriers;
}

/// Checks that all lanes of each warp reached an aligned barrier at one instruction.
void Meetings::checkConvergence(const NamedBarrier &barrier) {
  std::vector<uint32_t> sites(machine.threads.count());
  for (auto [member, site] : barrier.members) {
    sites[member] = site;
  }
  for (auto [member, site] : barrier.members) {
    unsigned first = member / lanes * lanes, end = std::min(first + lanes, machine.threads.count());
    for (unsigned other = first; other < end; ++other) {
      if (sites[other] != site) {
        machine.complain(ViolationKind::BarrierDivergence, site,
                         "expected the warp of thread " + std::to_string(member) +
                             " to come whole, at one instruction; thread " + std::to_string(other) +
                             (sites[other]
                                  ? " came at '" + machine.program.sites[sites[other]].text + "'"
                                  : std::string(" did not come")));
        return;
      }
    }
  }
}

void Meetings::barrier(uint32_t site, uint32_t id, uint32_t count, bool waits, bool aligned) {
  if (id >= namedBarriers) {
    machine.fail(ViolationKind::Limit, site,
                 "expected a barrier of 0 to 15, found " + std::to_string(id));
  }
  if (count % lanes) {
    machine.fail(ViolationKind::BarrierDivergence, site,
                 "expected a barrier for a multiple of 32 threads, found " + std::to_string(count));
  }
  NamedBarrier &barrier = named[id];
  uint32_t expected = count ? count : machine.threads.count();
  if (!barrier.members.empty() && barrier.expected != expected) {
    machine.fail(ViolationKind::BarrierDivergence, site,
                 "expected all to count the threads of barrier " + std::to_string(id) +
                     " alike; found " + std::to_string(expected) + " after " +
                     std::to_string(barrier.expected));
  }
  barrier.expected = expected;
  barrier.aligned |= aligned;
  barrier.members.push_back({machine.thread(), site});
  if (waits) {
    barrier.waiting.push_back(machine.thread());
  } else {
    machine.clocks.release(machine.thread(), barrier.arrivals);
  }
  if (barrier.members.size() < expected) {
    if (waits) {
      machine.pause({Wait::For::Barrier, site, id});
    }
    return;
  }
  if (barrier.aligned) {
    checkConvergence(barrier);
  }
  machine.clocks.join(barrier.waiting, barrier.waiting);
  for (unsigned waiting : barrier.waiting) {
    machine.clocks.acquire(waiting, barrier.arrivals);
    if (waiting != machine.thread()) {
      machine.threads.wake(waiting);
    }
  }
  for (auto [member, at] : barrier.members) {
    if (member % lanes == 0) {
      machine.traffic.flush(member / lanes);
    }
  }
  barrier = NamedBarrier();
  ++machine.report.counters.barriers;
}

void Meetings::endLane() {
  Warp &warp = warps[machine.thread() / lanes];
  warp.ended |= 1u << machine.lane();
  for (size_t i = 0; i < warp.meetings.size();) {
    i += !complete(warp, i);
  }
}
