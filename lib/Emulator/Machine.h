// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One launch: memory, clocks, threads, and the events that they wait for.
#pragma once

#include "Clocks.h"
#include "Memory.h"
#include "Order.h"
#include "Threads.h"
#include "Traffic.h"

#include <map>

namespace sluice::emulator {

/// A copy under way, of at most 16 bytes.
struct Copy {
  uint64_t to, from;
  uint32_t site;
  uint8_t bytes, fromBytes; ///< the rest is zeros
  bool landed;
};

class Machine {
public:
  static constexpr unsigned lanes = Threads::lanes, namedBarriers = 16;

  Machine(const Program &program, const SharedArena &arena, const Launch &launch,
          const Options &options, void (*entry)(const uint64_t *));
  /// `counts` are of the program's basic blocks.
  Report run(llvm::ArrayRef<Buffer> tables, llvm::MutableArrayRef<uint64_t> counts);

  /// The machine whose threads run on this thread.
  static Machine &current();

  // Where the running thread is.
  unsigned thread() const { return threads.running(); }
  unsigned lane() const { return thread() % lanes; }
  Dim3 threadIndex(unsigned thread) const;
  Dim3 blockIndex() const { return block; }
  const Launch &setup() const { return launch; }
  Counters &counters() { return report.counters; }
  bool isShared(uint64_t address) const { return arena.contains(address); }
  bool isGlobal(uint64_t address) { return !isShared(address) && memory.find(address, 1); }

  // Memory.cpp's checks, of the running thread unless said.
  void access(uint64_t address, uint64_t bytes, uint32_t site);
  void accessSite(uint64_t address, uint32_t site) {
    access(address, program.sites[site].bytes, site);
  }
  void fence(uint32_t site);
  void touch(unsigned thread, const Touch &touch);
  /// The site's instruction wants `bytes` of shared memory, as much aligned.
  void touchShared(unsigned thread, uint64_t address, uint64_t bytes, bool writes, uint32_t site);

  void complain(Kind kind, uint32_t site, const std::string &message, uint64_t address = 0);
  [[noreturn]] void fail(Kind kind, uint32_t site, const std::string &message,
                         uint64_t address = 0);

  // Meetings.cpp
  /// Values of each lane of the mask; null of those that have ended.
  using Perform = void (*)(Machine &, void *const *lanes, uint32_t mask);
  /// Returns once all lanes of `mask` have come here with the same operation and `perform` has run.
  /// Aligned operations want them at the same instruction.
  void meet(uint32_t site, const char *operation, uint32_t mask, bool aligned, void *mine,
            Perform perform);

  /// bar and barrier: `count` threads, or all of the block where it is 0.
  void barrier(uint32_t site, uint32_t id, uint32_t count, bool waits, bool aligned);
  void joinWarp(uint32_t mask);

  // Mbarriers.cpp
  struct Mbarrier {
    uint32_t expected = 0, pending = 0;
    int64_t transactions = 0;
    uint64_t phase = 0;
    Knowledge next, known; ///< of the phase under way, of the last complete one
    std::vector<unsigned> waiting;
    std::map<unsigned, int64_t> seen; ///< the phase that a thread waited for last
  };
  void initBarrier(uint32_t site, uint64_t address, uint32_t count);
  void dropBarrier(uint32_t site, uint64_t address);
  Mbarrier &findBarrier(uint32_t site, uint64_t address);
  /// Gives the phase that the arrival counts for.
  uint64_t arrive(uint32_t site, uint64_t address, uint32_t count, int64_t transactions,
                  bool arrives);
  bool waitBarrier(uint32_t site, uint64_t address, uint64_t phase, bool isParity, bool blocks);

  // Copies.cpp
  void copyAsync(uint32_t site, uint64_t to, uint64_t from, uint32_t bytes, uint32_t fromBytes);
  void commitCopies();
  void waitCopies(uint32_t mostPending);
  /// The barrier gets an arrival once the thread's copies are done, which is now.
  void arriveAfterCopies(uint32_t site, uint64_t address, bool counted);

  Clocks clocks;
  Order order{clocks};
  Threads threads;

private:
  /// The event that a thread waits for.
  struct Wait {
    enum class For { Nothing, Lanes, Barrier, Mbarrier } what = For::Nothing;
    uint32_t site = 0;
    uint64_t which = 0; ///< mask of lanes, number or address of the barrier
  };
  struct Meeting {
    const char *operation;
    uint32_t site, mask, arrived;
    bool aligned;
    Perform perform;
    void *brought[lanes];
  };
  struct Warp {
    std::vector<Meeting> meetings;
    uint32_t ended = 0;
  };
  struct NamedBarrier {
    uint32_t expected = 0;
    bool aligned = false;
    std::vector<unsigned> waiting;
    std::vector<std::pair<unsigned, uint32_t>> members; ///< thread and site
    Knowledge arrivals;                                 ///< of those that do not wait
  };
  struct Queue {
    std::vector<std::vector<Copy>> groups; ///< committed, not waited for
    std::vector<Copy> open;                ///< not committed
    Time first = 1;                        ///< the time of groups[0], or of `open`
  };

  void expect(bool holds, Kind kind, const std::string &message);
  void checkLimits();
  void checkArguments();
  void runBlock(uint32_t number);
  void endThread();
  void explainDeadlock();
  std::string whereabouts(unsigned thread) const;
  bool complete(Warp &warp, size_t index);
  void checkConvergence(const NamedBarrier &barrier);
  void finishPhase(Mbarrier &barrier);
  void pause(Wait wait);
  void land(Copy &copy);
  Dim3 unflatten(uint64_t number, const Dim3 &extent) const;
  void summarize(llvm::ArrayRef<uint64_t> counts);

  const Program &program;
  const SharedArena &arena;
  const Launch &launch;
  const Options &options;
  void (*entry)(const uint64_t *);
  Memory memory;
  Traffic traffic;
  Report report;
  std::map<std::pair<int, uint32_t>, unsigned> told;
  Dim3 block;
  bool failed = false;
  std::vector<Warp> warps;
  std::vector<Wait> waits;
  NamedBarrier named[namedBarriers];
  std::map<uint64_t, Mbarrier> mbarriers;
  std::vector<Queue> queues;
};

} // namespace sluice::emulator
