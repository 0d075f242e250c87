// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Vector clocks of the threads of a block and of their asynchronous copies and products, and for
// every byte the accesses that a later one could conflict with.
#pragma once

#include "llvm/ADT/ArrayRef.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace sluice::emulator {

/// Thread t, or t + (threads of the block) for the copies that t issued, or 2 * (threads) + w for
/// the products of warp w.
using Agent = uint32_t;
using Time = uint32_t;

/// The components of a vector clock, shared among the threads that a barrier made equal: joining
/// 1024 threads costs 1024 steps, not a million. A component for each agent, then for each agent
/// the time up to which a fence made its accesses visible to products (the asynchronous proxy).
using Knowledge = std::shared_ptr<const std::vector<Time>>;

/// Clocks of the threads. A thread's clock is `base` except for its own components. Every change of
/// a clock advances its own time, so that thread and time determine its knowledge.
class Clocks {
public:
  void reset(unsigned threads);

  unsigned threads() const { return static_cast<unsigned>(owners.size()); }
  Time now(unsigned thread) const { return owners[thread].now; }
  Agent getProducts(unsigned thread) const { return 2 * threads() + thread / warpSize; }
  bool knows(unsigned thread, Agent agent, Time time) const {
    const Owner &owner = owners[thread];
    if (agent == thread) {
      return true;
    }
    if (agent == getProducts(thread) && time <= owner.products) {
      return true;
    }
    return time <= (agent == thread + threads() ? owner.copies : (*owner.base)[agent]);
  }
  /// Returns true if products that the thread starts see the access.
  bool knowsFenced(unsigned thread, Agent agent, Time time) const {
    return time <= (*owners[thread].base)[agents() + agent];
  }

  /// Extends the knowledge of `thread` to its copies up to `time`.
  void learnCopies(unsigned thread, Time time);
  /// Extends it to the products of its warp up to `time`.
  void learnProducts(unsigned thread, Time time);
  /// Makes all accesses that `thread` knows visible to products: its own, and accesses of threads
  /// that it synchronizes with.
  void fenceProducts(unsigned thread);

  /// Extends the knowledge of all threads in `into`, a subset of `from`, to the knowledge of all
  /// threads in `from`.
  void join(llvm::ArrayRef<unsigned> from, llvm::ArrayRef<unsigned> into);
  void release(unsigned thread, Knowledge &into);
  /// Releases only effects of the thread's copies up to `time`.
  void releaseCopies(unsigned thread, Time time, Knowledge &into) const;
  void acquire(unsigned thread, const Knowledge &from);

private:
  struct Owner {
    Knowledge base;
    Time now = 1, copies = 0, products = 0;
  };
  static constexpr unsigned warpSize = 32;
  size_t agents() const { return countAgents(threads()); }
  static size_t countAgents(size_t threads) {
    return 2 * threads + (threads + warpSize - 1) / warpSize;
  }
  void addTo(std::vector<Time> &sum, unsigned thread) const;
  std::vector<Owner> owners;
};

/// Kind of an access, as bits: it writes, it is atomic, it is atomic for other blocks.
enum class Access : uint8_t { Read = 0, Write = 1, Atomic = 7 };
inline Access makeAccess(bool writes, bool atomic, bool strong) {
  return static_cast<Access>(int(writes) | int(atomic) << 1 | int(strong) << 2);
}
inline bool writes(Access access) { return uint8_t(access) & 1; }
inline bool isAtomic(Access access) { return uint8_t(access) & 2; }
inline bool isStrong(Access access) { return uint8_t(access) & 4; }
/// Returns true if every access that conflicts with `earlier` conflicts with `later` too. An atomic
/// does not cover a read: another atomic conflicts with the read alone.
inline bool covers(Access later, Access earlier) {
  return writes(later) >= writes(earlier) && isAtomic(later) <= isAtomic(earlier) &&
         isStrong(later) <= isStrong(earlier);
}

/// One access, in 64 bits; 0 is none. A thread or block would take hours for 2^26 synchronizations.
class AccessEvent {
public:
  AccessEvent() = default;
  AccessEvent(Agent agent, Time time, uint32_t site, Access access)
      : bits(uint64_t(agent) << 52 | uint64_t(access) << 49 | uint64_t(time) << 23 | site) {}
  static constexpr Time lastTime = (1u << 26) - 1;
  static constexpr uint32_t lastSite = (1u << 23) - 1;

  explicit operator bool() const { return bits != 0; }
  bool operator==(const AccessEvent &) const = default;
  Agent agent() const { return static_cast<Agent>(bits >> 52); }
  Access access() const { return static_cast<Access>(bits >> 49 & 7); }
  Time time() const { return static_cast<Time>(bits >> 23 & lastTime); }
  uint32_t site() const { return static_cast<uint32_t>(bits & lastSite); }
  uint64_t raw() const { return bits; }

private:
  uint64_t bits = 0;
};

/// Histories: sets of accesses none of which makes another redundant. A byte holds a number; bytes
/// that see the same accesses mostly share one, so that one look-up serves all bytes of an access.
class Histories {
public:
  explicit Histories(const Clocks &clocks);
  ~Histories();
  Histories(const Histories &) = delete;
  Histories &operator=(const Histories &) = delete;

  /// Resets all histories: earlier numbers denote the empty history from now on.
  void reset();

  /// Returns true if no access of the current block is in the history.
  bool isEmpty(uint32_t history) const { return history < first; }
  llvm::ArrayRef<AccessEvent> getEvents(uint32_t history) const {
    size_t begin = starts[history - first], end = starts[history - first + 1];
    return llvm::ArrayRef<AccessEvent>(events).slice(begin, end - begin);
  }

  struct Step {
    uint32_t next = 0;
    AccessEvent conflict; ///< an access that `event` is not ordered after
  };
  /// Adds an event. `thread` is the thread whose knowledge counts: the event's own thread, or the
  /// thread that issued a copy or product.
  const Step &add(uint32_t history, AccessEvent event, unsigned thread) {
    history = history < first ? 0 : history;
    uint64_t key = uint64_t(history) << 32 | clocks.now(thread);
    uint64_t hash = key * 0x9e3779b97f4a7c15u ^ event.raw() * 0xff51afd7ed558ccdu;
    Recent &known = recent[hash >> (64 - recentBits)];
    if (known.key != key || known.event != event.raw()) {
      known = {key, event.raw(), compute(history, event, thread)};
    }
    return known.step;
  }

private:
  Step compute(uint32_t history, AccessEvent event, unsigned thread);

  const Clocks &clocks;
  uint32_t first = 1, count = 0; ///< numbers of this block: `first` to `first + count - 1`
  // Threads that read the same bytes make many megabytes of histories, so launches reuse memory:
  // the system would otherwise zero new pages for half of the time of a launch.
  std::vector<AccessEvent> events; ///< events of all histories, contiguous
  std::vector<size_t> starts; ///< start of each history in `events`, then the end of the last one

  /// Recent results; losing an entry costs a second number for the same set.
  struct Recent {
    uint64_t key = 0, event = 0;
    Step step;
  };
  static constexpr unsigned recentBits = 12;
  std::vector<Recent> recent = std::vector<Recent>(1 << recentBits);
};

} // namespace sluice::emulator
