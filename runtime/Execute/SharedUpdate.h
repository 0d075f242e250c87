// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An update whose batches several processes compute.
#pragma once

#include "sluice/Runtime/Execute/InputView.h"
#include "sluice/Runtime/Processes/ProcessGroup.h"

#include <functional>
#include <set>
#include <span>
#include <vector>

namespace sluice::runtime {

/// Process r of P computes the batches r, r + P and on of an update. After each P batches every
/// process sums a range of the gradients of these batches, in their order, by the entry
/// `accumulate`, and so with the rounding of one process that computes all batches. The entry runs
/// over all gradients, so sums outside the range are meaningless until `gather`.
class SharedUpdate {
public:
  /// `arena` is the memory of `view`. Throws UserError if the plan does not fit the processes.
  SharedUpdate(ArenaView &view, std::span<uint8_t> arena, ProcessGroup &group);

  bool computes(int64_t batch) const { return batch % group.size() == group.rank(); }
  /// Checks for the last of P batches.
  bool endsRound(int64_t batch) const { return batch % group.size() == group.size() - 1; }

  /// Exchanges the gradients and losses of P batches up to `last`, one from each process.
  /// Calls `accumulate` for each batch, with its gradients and losses in the arena. Throws
  /// UpdateBroken if a process received a signal.
  void sum(int64_t last, const std::function<void(int64_t batch)> &accumulate);
  /// Returns the ranks of which a batch of the last update had a loss that is not finite, in
  /// ascending order.
  const std::set<int64_t> &ranksNotFinite() const { return notFinite; }
  /// Collects the sums of all ranges.
  void gather();

private:
  /// Returns the part of a buffer of gradients that the process `rank` sums.
  std::span<uint8_t> getRange(int64_t offset, int64_t rank) const;

  const Plan &plan;
  std::span<uint8_t> arena;
  ProcessGroup &group;
  std::vector<int64_t> losses;              ///< offsets of the losses of a batch, f32
  std::vector<std::vector<uint8_t>> pieces; ///< of each process: gradients of the own range
  std::vector<std::vector<float>> lossesOf; ///< of each process
  std::set<int64_t> notFinite;              ///< ranks
};

} // namespace sluice::runtime
