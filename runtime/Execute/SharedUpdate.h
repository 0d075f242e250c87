// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An update whose batches several processes compute.
#pragma once

#include "GradientParts.h"
#include "UpdateDivision.h"
#include "sluice/Runtime/Device/Device.h"
#include "sluice/Runtime/Execute/InputView.h"
#include "sluice/Runtime/Processes/ProcessGroup.h"

#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace sluice::runtime {

/// Process r of P computes the batches r, r + P and on of an update. P batches are a round. Each
/// process owns a part of each bucket of the gradients. In a round it sums its parts of the
/// gradients of these batches, in their order, by the entry `accumulate`, and so with the rounding
/// of one process that computes all batches. Sums of other parts are meaningless until `gather`.
/// With a division of the entry `update`, each process also stores the optimizer's state of its
/// parts alone, and updates its weights, which are gathered in place of the sums.
///
/// All processes exchange the buckets of each round in the same order, without an agreement before
/// it. A process that fails calls `abandon`, so that the others reach their next agreement.
class SharedUpdate {
public:
  /// Joins the devices of the group's processes; `device` is the one of `view`, and has host memory
  /// if there is a division. Throws UserError if the plan does not fit the processes.
  SharedUpdate(const ArenaView &view, Device &device, ProcessGroup &group,
               std::optional<UpdateDivision> division);

  bool isDivided() const { return division.has_value(); }

  bool computes(int64_t batch) const { return batch % group.size() == group.rank(); }
  /// Checks for the last of P batches.
  bool endsRound(int64_t batch) const { return batch % group.size() == group.size() - 1; }

  /// Begins an update: none of its rounds is exchanged yet.
  void beginUpdate() { rounds = plan.accumulate / group.size(); }
  /// Begins to compute the own batch of a round: `run` exchanges its gradients.
  void beginRound() { isInRound = true; }
  /// Checks for a launch between `beginRound` and `sum`, which begins or completes its exchange.
  bool exchanges() const { return isInRound; }
  /// Runs the launches [first, last) of an entry `gradient`. In host memory the exchange of each
  /// bucket begins at its collective, and continues between launches. Devices that launch without
  /// waiting agree first: `sum` begins the exchanges, each after the launches before its
  /// collective.
  void run(const std::string &entry, const std::vector<Launch> &launches, size_t first,
           size_t last);

  /// Completes the exchange of the gradients and losses of P batches up to `last`, one from each
  /// process. Calls `accumulate` for each batch, with its gradients and losses in the arena. Throws
  /// UpdateBroken if a process received a signal.
  void sum(int64_t last, const std::function<void(int64_t batch)> &accumulate);
  /// Completes the exchange of the next round after a failure here, with meaningless numbers, so
  /// that the others reach the agreement after it; on GPUs only an exchange that has begun. Does
  /// nothing after the last round, after UpdateBroken, and if the group is over.
  void abandon() noexcept;
  /// Collects the sums of all parts. Not with a division.
  void gather();
  /// Runs the entry `update` by its division: launches of rows for the rows of this process.
  /// Collects the weights of all parts, and runs the entry `prepare` if they have compute copies.
  void update(const std::pair<const std::string, std::vector<Launch>> &entry);

  /// With a division: collects the optimizer's state on rank 0; all processes call it.
  void gatherState();
  /// With a division: returns the memory of the optimizer's state of other processes' parts, whose
  /// contents are then undefined, to the system.
  void releaseState();

  /// Returns the parts of the sums of gradients that this process computes.
  const ResultParts &getOwnSums() const { return parts->getOwnSums(); }
  /// Returns the seconds from the end of the last backward pass to the end of the exchanges,
  /// without launches of the entry `update`: the maximum over the processes, of the update before
  /// the current one; none before the second update.
  std::optional<double> getExchangeSeconds() const { return maximumSeconds; }

private:
  /// Begins to exchange the next bucket of a round.
  void beginBucket();
  /// Exchanges the rest of a round.
  void finishRound();
  /// Collects the parts of a buffer on all processes.
  void gather(const MemoryRange &buffer);

  const Plan &plan;
  Device &device;
  std::unique_ptr<RangeExchange> ranges;
  ProcessGroup &group;
  std::optional<UpdateDivision> division;
  std::optional<GradientParts> parts;
  std::vector<int64_t> losses; ///< offsets of the losses of a batch, f32
  int64_t rounds = 0;          ///< of the update, that are not exchanged yet
  bool isInRound = false;
  int64_t nextBucket = 0; ///< of the round; buckets are exchanged from the last
  std::optional<double> ownSeconds, maximumSeconds;
};

} // namespace sluice::runtime
