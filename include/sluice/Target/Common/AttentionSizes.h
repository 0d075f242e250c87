// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Requirements on attention ops that all targets share.
#pragma once

#include "sluice/Dialect/Dispatch/Dispatch.h"

namespace sluice::target {

/// Sizes of an attention op, forward or backward.
struct AttentionSizes {
  int64_t batch, queries, keys; ///< positions of queries and of keys per row of the batch
  int64_t heads, kvHeads, head;
  int64_t group; ///< query heads per key/value head
  int64_t queryColumn, keyColumn, valueColumn;
  float dropout;
  int64_t randomId;
  int64_t drawnQueries, drawnKeys; ///< positions that number random draws
};
template <typename Op> AttentionSizes attentionSizes(Op op);

/// Fails with a diagnostic on the op if query heads do not divide among key/value heads, dropout is
/// not a probability below 1, or no code can be generated for the mask.
template <typename Op> mlir::LogicalResult checkAttention(Op op);

} // namespace sluice::target
