// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Order by atomics and fences: threads of a block through its clocks, blocks through releases that
// later blocks acquire. Blocks run one after the other, so a block's clocks need not outlive it:
// later, only the releases of its own block that cover an access matter.
#pragma once

#include "Clocks.h"
#include "Program.h"

#include <map>

namespace sluice::emulator {

/// Numbers of releases of a launch, ascending. A thread that acquires one acquires all releases
/// that the releasing thread knew of, so sets are closed.
using Releases = std::vector<uint32_t>;

class Order {
public:
  explicit Order(Clocks &clocks) : clocks(clocks) {}
  void startLaunch();
  void startBlock(); ///< after its clocks were reset

  /// Records an atomic that read, wrote or both. The contents after a store do not depend on the
  /// overwritten bytes.
  void atomic(unsigned thread, uint64_t address, const Site &site, bool global);
  /// Records a fence. After a releasing fence, the thread's later atomics release all accesses
  /// before it; an acquiring fence acquires from all values that earlier atomics have read.
  void fence(unsigned thread, Scope scope, bool acquires, bool releases);

  /// Returns true if the thread has acquired one of the releases, directly or through other threads
  /// of its block.
  bool knowsAny(unsigned thread, const Releases &releases) const;
  /// Returns the releases of this block that follow the access of `agent` at `time`.
  Releases covering(Agent agent, Time time) const;

private:
  /// Knowledge of a thread at some time, to be released.
  struct Snapshot {
    Knowledge clock; ///< null: nothing
    Releases others;
    uint32_t number = none; ///< of the release, once an atomic of device scope has made it one
  };
  struct Seen {
    Knowledge here;
    Releases others;
  };
  struct Fenced {
    Snapshot block, device; ///< by the last fence of at least that scope
  };
  /// Thread `thread` acquired `releases` at `time`: whoever knows of that time knows of them.
  struct Acquired {
    unsigned thread;
    Time time;
    Releases releases;
  };
  static constexpr uint32_t none = ~0u;

  Snapshot take(unsigned thread);
  Releases knownTo(unsigned thread) const;
  void acquire(unsigned thread, const Releases &releases);
  void leave(unsigned thread, uint64_t address, Snapshot &block, Snapshot *device);

  Clocks &clocks;
  std::map<uint64_t, Releases> launch; ///< what reading an address of global memory gives
  std::map<uint64_t, Knowledge> block; ///< likewise, of this block's own releases
  std::vector<Acquired> acquired;      ///< in this block
  std::vector<Knowledge> released;     ///< in this block: numbers `first` and up
  uint32_t first = 0;
  std::vector<Fenced> fenced; ///< by thread
  std::vector<Seen> seen;     ///< by thread: knowledge that a fence will acquire
};

} // namespace sluice::emulator
