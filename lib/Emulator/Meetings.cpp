// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where threads meet: operations of a warp, barriers of a block.
#include "Machine.h"

#include "llvm/ADT/STLExtras.h"

using namespace sluice;
using namespace sluice::emulator;

/// Performs the meeting if all of its lanes have come or ended.
bool Machine::complete(Warp &warp, size_t index) {
  Meeting meeting = warp.meetings[index];
  if (meeting.arrived != (meeting.mask & ~warp.ended)) {
    return false;
  }
  auto number = static_cast<unsigned>(&warp - warps.data());
  if (meeting.aligned && meeting.arrived != meeting.mask) {
    fail(Kind::AbsentLane, meeting.site,
         "expected every lane of the warp at this instruction; some have ended");
  }
  warp.meetings.erase(warp.meetings.begin() + static_cast<ptrdiff_t>(index));
  meeting.perform(*this, meeting.brought, meeting.arrived);
  for (unsigned i = 0; i < lanes; ++i) {
    unsigned other = number * lanes + i;
    if ((meeting.arrived >> i & 1) && other != thread()) {
      threads.wake(other);
    }
  }
  traffic.flush(number);
  return true;
}

void Machine::meet(uint32_t site, const char *operation, uint32_t mask, bool aligned, void *mine,
                   Perform perform) {
  uint32_t bit = 1u << lane();
  if (!(mask & bit)) {
    fail(Kind::AbsentLane, site, "expected a mask that names the lane which executes it");
  }
  Warp &warp = warps[thread() / lanes];
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
  warp.meetings[i].brought[lane()] = mine;
  if (!complete(warp, i)) {
    pause({Wait::For::Lanes, site, mask});
  }
}

void Machine::joinWarp(uint32_t mask) {
  llvm::SmallVector<unsigned, lanes> members;
  for (unsigned i = 0; i < lanes; ++i) {
    if (mask >> i & 1) {
      members.push_back(thread() / lanes * lanes + i);
    }
  }
  clocks.join(members, members);
  ++report.counters.warpBarriers;
}

/// A warp that comes to an aligned barrier must come whole, at one instruction.
void Machine::checkConvergence(const NamedBarrier &barrier) {
  std::vector<uint32_t> sites(threads.count());
  for (auto [member, site] : barrier.members) {
    sites[member] = site;
  }
  for (auto [member, site] : barrier.members) {
    unsigned first = member / lanes * lanes, end = std::min(first + lanes, threads.count());
    for (unsigned other = first; other < end; ++other) {
      if (sites[other] != site) {
        complain(Kind::BarrierDivergence, site,
                 "expected the warp of thread " + std::to_string(member) +
                     " to come whole, at one instruction; thread " + std::to_string(other) +
                     (sites[other] ? " came at '" + program.sites[sites[other]].text + "'"
                                   : std::string(" did not come")));
        return;
      }
    }
  }
}

void Machine::barrier(uint32_t site, uint32_t id, uint32_t count, bool waits, bool aligned) {
  if (id >= namedBarriers) {
    fail(Kind::Limit, site, "expected a barrier of 0 to 15, found " + std::to_string(id));
  }
  if (count % lanes) {
    fail(Kind::BarrierDivergence, site,
         "expected a barrier for a multiple of 32 threads, found " + std::to_string(count));
  }
  NamedBarrier &barrier = named[id];
  uint32_t expected = count ? count : threads.count();
  if (!barrier.members.empty() && barrier.expected != expected) {
    fail(Kind::BarrierDivergence, site,
         "expected all to count the threads of barrier " + std::to_string(id) + " alike; found " +
             std::to_string(expected) + " after " + std::to_string(barrier.expected));
  }
  barrier.expected = expected;
  barrier.aligned |= aligned;
  barrier.members.push_back({thread(), site});
  if (waits) {
    barrier.waiting.push_back(thread());
  } else {
    clocks.release(thread(), barrier.arrivals);
  }
  if (barrier.members.size() < expected) {
    if (waits) {
      pause({Wait::For::Barrier, site, id});
    }
    return;
  }
  if (barrier.aligned) {
    checkConvergence(barrier);
  }
  clocks.join(barrier.waiting, barrier.waiting);
  for (unsigned waiting : barrier.waiting) {
    clocks.acquire(waiting, barrier.arrivals);
    if (waiting != thread()) {
      threads.wake(waiting);
    }
  }
  for (auto [member, at] : barrier.members) {
    if (member % lanes == 0) {
      traffic.flush(member / lanes);
    }
  }
  barrier = NamedBarrier();
  ++report.counters.barriers;
}
