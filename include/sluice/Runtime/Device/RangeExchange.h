// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Exchanges ranges of the arena between the devices of several processes.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace sluice::runtime {

/// The processes that exchange ranges, one device each.
struct ExchangeGroup {
  int64_t rank = 0, size = 1;
  std::chrono::seconds limit{600}; ///< for each wait for other processes
  /// Sends a text of at most 1000 bytes to all processes and returns the texts of all, by rank.
  /// Throws if a process failed.
  std::function<std::vector<std::string>(const std::string &)> share;
  /// Called during each wait for other processes: throws if a process failed. May be empty.
  std::function<void()> watch = {};
};

/// The memory of a range.
enum class RangeStore {
  Arena,
  Staging ///< a buffer of `RangeExchange::reserve`
};

struct StoredRange {
  RangeStore memory = RangeStore::Arena;
  int64_t offset = 0, bytes = 0;
};

/// A range that is sent to a peer, or received from one.
struct RangeTransfer {
  int64_t peer;
  StoredRange range;
};

/// Transfers ranges between the arenas and staging buffers of the processes of a group. Except for
/// `begin` and `beginBucket`, functions take effect after earlier launches and before later ones.
/// Not thread-safe.
class RangeExchange {
public:
  virtual ~RangeExchange() = default;

  /// Allocates the staging buffer, once, before other calls.
  virtual void reserve(int64_t bytes) = 0;
  /// Begins to send and receive, after earlier launches. Later launches may run before `complete`
  /// if they neither write the ranges nor read the received ones. Transfers between two processes
  /// match in order and size.
  virtual void begin(std::span<const RangeTransfer> sent,
                     std::span<const RangeTransfer> received) = 0;
  /// As `begin`, but only after the launches that precede the collective of `bucket` in the last
  /// entry with collectives, in which the ranges are complete there.
  virtual void beginBucket(int64_t bucket, std::span<const RangeTransfer> sent,
                           std::span<const RangeTransfer> received) = 0;
  /// Continues transfers, without waiting.
  virtual void progress() {}
  /// Ends the transfers: later launches run after them. The host may return before, and calls
  /// `confirm` before it launches what must not run after a failed transfer. Throws LostPeerError.
  virtual void complete() = 0;
  /// Waits on the host until all completed transfers are done. Throws LostPeerError if a process is
  /// silent.
  virtual void confirm() {}
  /// Sends and receives until all is done.
  void exchange(std::span<const RangeTransfer> sent, std::span<const RangeTransfer> received) {
    begin(sent, received);
    complete();
    confirm();
  }
  /// Copies a range to another one of the same size.
  virtual void copy(const StoredRange &from, const StoredRange &to) = 0;

  /// Starts a clock after earlier launches.
  virtual void startClock() { start = std::chrono::steady_clock::now(); }
  /// Returns the seconds from `startClock` to the end of the transfers that were confirmed last.
  virtual double readClock() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

private:
  std::chrono::steady_clock::time_point start;
};

} // namespace sluice::runtime
