// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Implements mbarrier objects: arrivals, transactions, phases.
#pragma once

#include "Clocks.h"

#include <map>

namespace sluice::emulator {

class Machine;

/// One mbarrier object in shared memory.
struct Mbarrier {
  uint32_t expected = 0, pending = 0;
  int64_t transactions = 0;
  uint64_t phase = 0;
  /// Knowledge released in the current phase, and in the last complete phase.
  Knowledge next, known;
  std::vector<unsigned> waiting;
  std::map<unsigned, int64_t> seen; ///< the last phase that each thread waited for
};

/// The mbarrier objects of a block. Operations apply to the running thread.
class Mbarriers {
public:
  explicit Mbarriers(Machine &machine) : machine(machine) {}

  void startBlock() { objects.clear(); }
  void initialize(uint32_t site, uint64_t address, uint32_t count);
  void invalidate(uint32_t site, uint64_t address);
  /// Returns the initialized object at `address`. The access counts as an atomic.
  Mbarrier &find(uint32_t site, uint64_t address);
  /// Returns the phase that the arrival counts for.
  uint64_t arrive(uint32_t site, uint64_t address, uint32_t count, int64_t transactions,
                  bool arrives);
  /// Waits for a phase: a number that an arrival returned, or a parity. With parities, a thread
  /// waits for consecutive phases.
  bool wait(uint32_t site, uint64_t address, uint64_t phase, bool isParity, bool blocks);

private:
  void finishPhase(Mbarrier &barrier);

  Machine &machine;
  std::map<uint64_t, Mbarrier> objects; ///< by address
};

} // namespace sluice::emulator
