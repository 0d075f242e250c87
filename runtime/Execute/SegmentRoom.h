// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Rows of segments with data-dependent boundaries, which a batch determines and memory bounds.
#pragma once

#include "sluice/Runtime/Execute/InputView.h"

namespace sluice::runtime {

/// Rows that the segments of a batch row need, and the rows that are available.
struct SegmentTotals {
  int32_t needed, rows;
};

/// Returns the totals of the first `rows` rows of the batch.
std::vector<SegmentTotals> readTotals(ArenaView &view, const SegmentFacts &segments, int64_t rows);

/// Throws RoomError if a text has more segments than its axis has rows: boundaries are never
/// dropped.
void requireRoom(InputView &view, const std::string &entry);

} // namespace sluice::runtime
