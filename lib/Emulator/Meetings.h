// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Synchronizes threads: operations of a warp, barriers of a block.
#pragma once

#include "Clocks.h"
#include "Threads.h"

namespace sluice::emulator {

class Machine;

class Meetings {
public:
  static constexpr unsigned lanes = Threads::lanes, namedBarriers = 16;
  /// Computes the operation from one operand for each lane of `mask`; null for lanes that ended.
  using Perform = void (*)(Machine &, void *const *lanes, uint32_t mask);

  explicit Meetings(Machine &machine) : machine(machine) {}

  /// Forgets the previous block. The next block has `threads` threads.
  void startBlock(unsigned threads);

  /// Returns once all lanes of `mask` have reached the same operation and `perform` has run.
  /// Aligned operations require the same instruction.
  void meet(uint32_t site, const char *operation, uint32_t mask, bool aligned, void *mine,
            Perform perform);
  /// Implements bar and barrier for `count` threads, or all threads of the block if it is 0.
  void barrier(uint32_t site, uint32_t id, uint32_t count, bool waits, bool aligned);
  /// Orders the lanes of `mask` in the running thread's warp.
  void joinWarp(uint32_t mask);
  /// Marks the running thread as ended, and performs the operations that waited for it only.
  void endLane();

private:
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
    Knowledge arrivals;                                 ///< from threads that do not wait
  };

  bool complete(Warp &warp, size_t index);
  void checkConvergence(const NamedBarrier &barrier);

  Machine &machine;
  std::vector<Warp> warps;
  NamedBarrier named[namedBarriers];
};

} // namespace sluice::emulator
