// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Order by atomics and fences: threads of a block through its clocks, blocks through releases that
// later blocks acquire. Blocks run one after the other, so a block's clocks need not outlive it:
// later, only the releases of its own block that cover an access matter.
#pragma once

#include "Clocks.h"
#include "Program.h"

#include <map>

namespace sluice::emulator {

/// Numbers of releases of a launch, ascending. A thread that acquires one release acquires all
/// releases that the releasing thread knew of, so sets are closed.
using Releases = std::vector<uint32_t>;

class Order {
public:
  explicit Order(Clocks &clocks) : clocks(clocks) {}
  void startLaunch();
  void startBlock(); ///< called after the clocks are reset

  /// Records an atomic that reads, writes or both. The contents after a store do not depend on the
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
    Knowledge clock; ///< null if nothing is released
    Releases others;
    uint32_t number = none; ///< number of the release, once an atomic of device scope performs it
  };
  struct Seen {
    Knowledge here;
    Releases others;
  };
  struct Fenced {
    Snapshot block, device; ///< snapshots by the last fence of at least that scope
  };
  /// Thread `thread` acquired `releases` at `time`: every thread whose knowledge includes that time
  /// knows the releases.
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
  /// Releases that a read of an address of global memory acquires.
  std::map<uint64_t, Releases> launch;
  /// Knowledge that a read acquires from releases of this block.
  std::map<uint64_t, Knowledge> block;
  std::vector<Acquired> acquired;  ///< acquisitions in this block
  std::vector<Knowledge> released; ///< releases in this block, with numbers from `first` on
  uint32_t first = 0;
  std::vector<Fenced> fenced; ///< by thread
  std::vector<Seen> seen;     ///< by thread: knowledge that a later fence acquires
};

} // namespace sluice::emulator
