// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What every target's attention kernels ask of an op first.
#pragma once

#include "sluice/Dialect/Dispatch/Dispatch.h"

namespace sluice::target {

/// Sizes of an attention, forward or backward, as the op says them.
struct AttentionSizes {
  int64_t batch, queries, keys; ///< positions of queries and of keys, a row of the batch
  int64_t heads, kvHeads, head;
  int64_t group; ///< query heads a key/value head
  int64_t queryColumn, keyColumn, valueColumn;
  float dropout;
  int64_t randomId;
};
template <typename Op> AttentionSizes attentionSizes(Op op);

/// Fails with a diagnostic on the op where heads have no key/value head, dropout is no probability
/// below 1, or the mask is no code.
template <typename Op> mlir::LogicalResult checkAttention(Op op);

} // namespace sluice::target
