// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Implements cp.async. A copy is an access of a separate agent, at the time of its group. A thread
// may read the copied bytes only if it knows of that time: the copying thread by a wait, other
// threads by a barrier after the wait.
#pragma once

#include "Clocks.h"

namespace sluice::emulator {

class Machine;

/// A copy in flight, of at most 16 bytes.
struct Copy {
  uint64_t to, from;
  uint32_t site;
  uint8_t bytes, fromBytes; ///< total size; bytes after the first `fromBytes` become zeros
  bool landed;
};

/// The copies of each thread of a block. Operations apply to the running thread.
class CopyQueues {
public:
  explicit CopyQueues(Machine &machine) : machine(machine) {}

  void startBlock(unsigned threads) { queues.assign(threads, {}); }
  void copy(uint32_t site, uint64_t to, uint64_t from, uint32_t bytes, uint32_t fromBytes);
  void commit();
  void wait(uint32_t mostPending);
  /// Arrives at the mbarrier object once the thread's copies complete. They complete at once, which
  /// is one of the possible times.
  void arriveAfter(uint32_t site, uint64_t address, bool counted);
  /// Completes the copies of a thread that ends. Reports copies that it did not wait for.
  void endThread();

private:
  struct Queue {
    std::vector<std::vector<Copy>> groups; ///< committed groups that are not yet waited for
    std::vector<Copy> open;                ///< copies that are not yet committed
    Time first = 1;                        ///< time of groups[0], or of `open`
  };
  Queue &getQueue();

  Machine &machine;
  std::vector<Queue> queues; ///< by thread
};

} // namespace sluice::emulator
