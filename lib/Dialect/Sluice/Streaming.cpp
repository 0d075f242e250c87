// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// What an incremental step keeps for each op, and how often the op runs.
#include "sluice/Dialect/Sluice/MaskBounds.h"
#include "sluice/Dialect/Sluice/Sluice.h"

using namespace mlir;
using namespace sluice;

#define NEEDS_ITS_POSITION_ALONE(OP)                                                               \
  StreamingState OP::getStreamingState() { return {}; }

NEEDS_ITS_POSITION_ALONE(EmbedOp)
NEEDS_ITS_POSITION_ALONE(PositionOp)
NEEDS_ITS_POSITION_ALONE(MapOp)
NEEDS_ITS_POSITION_ALONE(NormOp)
NEEDS_ITS_POSITION_ALONE(LinearOp)
NEEDS_ITS_POSITION_ALONE(CrossEntropyOp)
NEEDS_ITS_POSITION_ALONE(LastOp)

/// The `by` rows before the newest. A shift that looks ahead keeps nothing: it is refused before a
/// step is derived.
StreamingState ShiftOp::getStreamingState() { return {.rows = std::max<int64_t>(0, getBy())}; }

/// As a shortening's group (Shorten.cpp).
StreamingState FoldOp::getStreamingState() {
  auto k = static_cast<int64_t>(getFactor());
  return {.rows = k - 1, .period = k};
}

/// The newest coarse row serves the k positions of its group.
StreamingState UpsampleOp::getStreamingState() { return {.rows = 1}; }
StreamingState UnfoldOp::getStreamingState() { return {.rows = 1}; }

/// Keys and values as far back as the mask reaches: a bound p - w <= q keeps w rows, no such bound
/// keeps all.
StreamingState AttentionOp::getStreamingState() {
  AffineExpr p = getAffineDimExpr(0, getContext());
  int64_t rows = -1;
  for (AffineExpr bound : solveMask(getMask()).lower) {
    AffineExpr reach = simplifyAffineExpr(p - bound, 1, 1);
    if (auto constant = dyn_cast<AffineConstantExpr>(reach)) {
      int64_t kept = std::max<int64_t>(0, constant.getValue());
      rows = rows < 0 ? kept : std::min(rows, kept);
    }
  }
  return {.rows = rows};
}
