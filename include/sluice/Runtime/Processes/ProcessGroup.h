// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The processes of one job, which agree on their next action before they exchange data.
#pragma once

#include "sluice/Support/Error.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace sluice::runtime {

/// Point-to-point messages between the processes of a job. Messages of a channel between two
/// processes arrive in order.
class Messenger {
public:
  enum class Channel : int64_t { Agreement = 1, Data = 2 };

  virtual ~Messenger() = default;

  virtual int64_t rank() const = 0;
  virtual int64_t size() const = 0;
  /// Begin a transfer; the memory must stay valid until `test` returns true for the result.
  virtual void *send(std::span<const uint8_t> bytes, int64_t to, Channel channel) = 0;
  virtual void *receive(std::span<uint8_t> bytes, int64_t from, Channel channel) = 0;
  /// Returns whether a transfer is complete; the request is then released.
  virtual bool test(void *request) = 0;
  /// Ends the communication of all processes, which all call it.
  virtual void finish() = 0;
};

/// Thrown on all processes of a job after one of them failed. The message names its rank.
class PeerError : public JobError {
public:
  using JobError::JobError;
};

/// Processes did not answer within the time limit. The message names the ranks of all of these:
/// some may wait for the others.
class LostPeerError : public PeerError {
public:
  using PeerError::PeerError;
};

/// Thrown on all processes if a signal ends an update before the weights change.
struct UpdateBroken {};

/// The next action of a process, in ascending priority.
enum class Intent : int64_t {
  Continue,  ///< the next step, or the next exchange of a step
  Check,     ///< compare the weights
  Break,     ///< end this step without an update
  Finish,    ///< end the job
  Interrupt, ///< end the job after a signal
  Fail       ///< end the job after an error
};

/// A group of processes with the ranks 0 to size - 1. All of them call `agree` in the same order,
/// and begin the same exchanges between two agreements. A process that fails before an exchange
/// that others begin without an agreement ends their wait with its message, and leaves the exchange
/// incomplete. One thread uses a group, in addition to the thread of a
/// `Presence`; any thread may call the functions that are const.
class ProcessGroup {
public:
  /// Each wait for other processes ends if none of them shows itself for `limit`.
  ProcessGroup(std::unique_ptr<Messenger> messenger, std::chrono::seconds limit);
  ~ProcessGroup();
  ProcessGroup(const ProcessGroup &) = delete;
  ProcessGroup &operator=(const ProcessGroup &) = delete;

  int64_t rank() const { return ownRank; }
  int64_t size() const { return count; }
  bool isFirst() const { return rank() == 0; }
  std::chrono::seconds waitLimit() const { return limit; }

  /// Set by the job: returns whether this process received a signal.
  std::function<bool()> isInterrupted;

  struct Agreement {
    Intent intent;                  ///< of the highest priority
    std::vector<std::string> texts; ///< by rank, each at most `mostText` bytes
  };
  static constexpr size_t mostText = 1000;

  /// Exchanges intents and texts. Throws PeerError if a process failed, and LostPeerError.
  Agreement agree(Intent intent = Intent::Continue, const std::string &text = "");
  /// Reports this process's failure to the others, at the place of their next `agree`. Does nothing
  /// if the group is over.
  void fail(const std::string &message) noexcept;
  /// Ends the group after a wait for other data, such as of their GPUs, found a process lost.
  void lose();
  /// Ends the group after all processes agreed to end the job.
  void end();
  /// Returns true after `end`, after a failure, and after a process was lost.
  bool isOver() const { return over; }
  /// Returns true after a process did not answer, also in `fail`: no other process may have the
  /// message.
  bool isLost() const { return lost; }
  /// Returns true after a failure that ended the wait of a process for data: processes cannot end
  /// their communication together, so the first of them that ends ends all.
  bool isIncomplete() const { return incomplete; }

  struct Outgoing {
    int64_t to;
    std::span<const uint8_t> bytes;
  };
  struct Incoming {
    int64_t from;
    std::span<uint8_t> bytes;
  };
  /// Begins to send and receive. The memory must stay valid, and must not be written, until
  /// `complete`.
  void begin(std::span<const Outgoing> sent, std::span<const Incoming> received);
  /// Continues transfers, without waiting: MPI moves data in calls of its functions alone.
  void progress();
  /// Waits until all transfers are complete. Throws PeerError if a process failed meanwhile, and
  /// LostPeerError.
  void complete();
  /// For waits for other data of other processes, such as of their GPUs: throws PeerError if a
  /// process has failed.
  void watch();
  /// Sends and receives until all is complete. Throws as `complete`.
  void exchange(std::span<const Outgoing> sent, std::span<const Incoming> received) {
    begin(sent, received);
    complete();
  }

  /// Shows the other processes that this one works while they wait in `agree`, such as for a save:
  /// a thread sends them a message four times in each time limit. While the object exists, this
  /// process may call the group's functions. A process that hangs without being stopped, as on a
  /// lost file server, shows itself too.
  class Presence {
  public:
    /// Does nothing if `group` is null.
    explicit Presence(ProcessGroup *group);
    ~Presence();
    Presence(const Presence &) = delete;
    Presence &operator=(const Presence &) = delete;

  private:
    std::jthread thread;
  };

private:
  struct Transfer {
    void *request;
    int64_t peer;
    std::span<uint8_t> message; ///< of `agree`, if this is one that is received
  };
  /// Sends a message of presence to all others.
  void show();
  /// Waits for transfers, and with `watches` for the failure of a process too.
  void wait(std::vector<Transfer> transfers, bool watches = false);
  /// Takes messages of the next agreement that have arrived. Answers a failure and throws it.
  void findFailure();
  /// `intent` is an Intent, or one of the numbers of messages alone.
  Agreement exchangeIntents(int64_t intent, const std::string &text);

  std::unique_ptr<Messenger> messenger;
  const int64_t ownRank, count; ///< of the messenger, which one thread may use at a time
  std::chrono::seconds limit;
  std::atomic<bool> over = false, lost = false, incomplete = false;
  std::mutex mutex;            ///< held by the thread of this process that uses `messenger`
  std::vector<Transfer> begun; ///< by `begin`
  struct Shown;
  std::list<Shown> shown; ///< messages of presence that are not complete yet
  struct Intents;
  /// Messages of `agree`. After a lost process, the messenger may still write to them.
  std::list<Intents> intents;
  bool isAwaiting = false; ///< the last of `intents` is of the next agreement
};

} // namespace sluice::runtime
