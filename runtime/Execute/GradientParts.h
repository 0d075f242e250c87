// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The division of the gradients among processes.
#pragma once

#include "sluice/Runtime/Device/Device.h"

#include <optional>
#include <vector>

namespace sluice::runtime {

/// Each of several processes owns a part of each bucket of the gradients. In an exchange it
/// receives the gradients of its parts, and the losses, of all processes in staging memory.
class GradientParts {
public:
  /// Divides rows of the gradients, or cache lines if `rows` is absent. The plan has sums of
  /// gradients, and must outlive the result. A batch has `losses` of f32.
  GradientParts(const Plan &plan, int64_t rank, int64_t size, std::optional<int64_t> rows,
                size_t losses);

  int64_t countBuckets() const { return std::ssize(plan.buckets); }
  MemoryRange getGradients() const { return {plan.gradientsOffset, plan.gradientsBytes}; }
  MemoryRange getSums() const { return {*plan.gradientSumsOffset, plan.gradientsBytes}; }
  /// Returns the part of a bucket that belongs to the process `rank`, in a buffer with the rows of
  /// the gradients.
  StoredRange getPart(const MemoryRange &buffer, int64_t bucket, int64_t rank) const;
  /// Returns the parts of the sums that belong to this process, by bucket.
  const ResultParts &getOwnSums() const { return ownSums; }

  /// Return ranges of the staging memory for the process `rank`: its gradients of this process's
  /// part of a bucket, and its losses, all of them or the one with this index.
  StoredRange getStagedGradients(int64_t rank, int64_t bucket) const;
  StoredRange getStagedLosses(int64_t rank) const;
  StoredRange getStagedLoss(int64_t rank, size_t index) const;
  /// Returns the bytes of the staging memory for all processes.
  int64_t getStagedBytes() const { return size * stagedBytes; }

private:
  const Plan &plan;
  int64_t size;
  std::optional<int64_t> divided; ///< rows, if complete rows are divided
  int64_t rows = 0;               ///< or lines
  ResultParts ownSums;
  int64_t lossBytes = 0;            ///< of all losses of a batch
  std::vector<int64_t> stagedParts; ///< offsets of the buckets in the staging memory of a process
  int64_t stagedBytes = 0;          ///< of a process
};

} // namespace sluice::runtime
