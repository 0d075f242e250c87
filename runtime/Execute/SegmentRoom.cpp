// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "SegmentRoom.h"

#include "sluice/Support/Error.h"

#include <algorithm>

namespace sluice::runtime {

std::vector<SegmentTotals> readTotals(ArenaView &view, const SegmentFacts &segments, int64_t rows) {
  std::vector<SegmentTotals> totals(static_cast<size_t>(rows));
  std::vector<int32_t> numbers = view.scalarsI32(segments.counts, 2 * totals.size());
  for (size_t i = 0; i < totals.size(); ++i) {
    totals[i] = {numbers[2 * i], numbers[2 * i + 1]};
  }
  return totals;
}

void requireRoom(InputView &view, const std::string &entry) {
  for (const SegmentFacts &segments : view.plan().segments) {
    int64_t rows = entry == "step"      ? view.plan().generation->rows
                   : entry == "prefill" ? 1
                                        : view.shape().rows;
    std::vector<SegmentTotals> totals = readTotals(view, segments, rows);
    for (size_t row = 0; row < totals.size(); ++row) {
      if (totals[row].needed > totals[row].rows) {
        std::string step =
            entry == "gradient" ? "step " + std::to_string(view.scalarI64("step")) + ": " : "";
        auto number = static_cast<int64_t>(row);
        if (entry == "prefill") { // the row that reads the prompt
          number = std::ranges::max_element(view.take()) - view.take().begin();
        }
        throw RoomError(number, step + "row " + std::to_string(number) + " of the batch",
                        std::to_string(totals[row].needed) + " rows for the segments of \"" +
                            segments.axis + "\", expected at most " +
                            std::to_string(totals[row].rows) +
                            "; give them a greater capacity in the spec, and compile it again");
      }
    }
  }
}

} // namespace sluice::runtime
