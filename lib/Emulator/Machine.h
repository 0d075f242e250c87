// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One launch: memory, clocks, threads, and the objects that they synchronize with.
#pragma once

#include "Clocks.h"
#include "CopyQueues.h"
#include "Deadlock.h"
#include "Mbarriers.h"
#include "Meetings.h"
#include "Memory.h"
#include "Order.h"
#include "ProductQueues.h"
#include "SharedArena.h"
#include "Threads.h"
#include "Traffic.h"

#include <map>

namespace sluice::emulator {

class Machine {
public:
  static constexpr unsigned lanes = Threads::lanes;

  Machine(const Program &program, const SharedArena &arena, const EmulatedLaunch &launch,
          const Options &options, void (*entry)(const uint64_t *));
  /// Runs the launch. `counts` has an element for each basic block of the program.
  Report run(llvm::ArrayRef<Buffer> tables, llvm::MutableArrayRef<uint64_t> counts);

  /// Returns the machine whose threads run on this thread.
  static Machine &current();

  // Returns the running thread.
  unsigned thread() const { return threads.running(); }
  unsigned lane() const { return thread() % lanes; }
  Dim3 threadIndex(unsigned thread) const;
  Dim3 blockIndex() const { return block; }
  uint64_t sharedBegin() const { return arena.begin(); }
  bool isShared(uint64_t address) const { return arena.contains(address); }
  bool isGlobal(uint64_t address) { return !isShared(address) && memory.find(address, 1); }

  // Accesses: checks by Memory and counters, for the running thread unless a thread is given.
  void access(uint64_t address, uint64_t bytes, uint32_t site);
  void fence(uint32_t site);
  void touch(unsigned thread, const Touch &touch);
  /// Checks an access to `bytes` of shared memory, aligned to their number.
  void touchShared(unsigned thread, uint64_t address, uint64_t bytes, bool writes, uint32_t site);

  void complain(ViolationKind kind, uint32_t site, const std::string &message,
                uint64_t address = 0);
  [[noreturn]] void fail(ViolationKind kind, uint32_t site, const std::string &message,
                         uint64_t address = 0);
  /// Suspends the running thread until another thread wakes it.
  void pause(Wait wait);

  const Program &program;
  const EmulatedLaunch &launch;
  const Options &options;
  Clocks clocks;
  Order order{clocks};
  Threads threads;
  Memory memory;
  Report report;
  Traffic traffic;
  Meetings meetings{*this};
  Mbarriers mbarriers{*this};
  CopyQueues copies{*this};
  ProductQueues products{*this};

private:
  void runBlock(uint32_t number);
  void endThread();
  void reportDeadlock();

  const SharedArena &arena;
  void (*entry)(const uint64_t *);
  std::map<std::pair<int, uint32_t>, unsigned> reported; ///< by kind and site
  Dim3 block;
  bool failed = false;
  std::vector<Wait> waits; ///< by thread
};

} // namespace sluice::emulator
