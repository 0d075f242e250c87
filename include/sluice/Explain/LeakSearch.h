// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Searches for a length, a row and a later token that the row reads.
#pragma once

#include "sluice/Explain/ReadWalk.h"
#include "sluice/Explain/Verdict.h"

namespace sluice {

struct FoundLeak {
  CrossEntropyOp loss;
  CausalWitness witness;
  std::vector<std::pair<mlir::Value, int64_t>> path; ///< from the row back to the token
};
/// Finds the first leak at one length: a scored row, from `firstRow` on, that reads its target or a
/// later token of the sequence or, with `missing`, a position that does not exist yet.
std::optional<FoundLeak> findLeakAt(mlir::func::FuncOp function, int64_t length, bool missing,
                                    int64_t firstRow = 0, int64_t *budget = nullptr);
std::optional<FoundLeak> findLeakAt(const ReadPlan &plan, int64_t length, bool missing,
                                    int64_t firstRow = 0, int64_t *budget = nullptr);

/// Positions of the set boundary bits of every segmentation of a function, in order.
using Boundaries = std::vector<std::vector<int64_t>>;
/// Lengths that a search for a leak covered.
struct LeakSearch {
  int64_t every = 0;   ///< every read of every row was followed at lengths up to this
  int64_t growing = 0; ///< the same, including positions that only later tokens create
  int64_t latest = 0;  ///< the latest reads of some rows were followed at some lengths up to this
  /// Describes the lengths: "of sequences up to 57 tokens every read was followed; of ones up to
  /// ..."
  std::string describe() const;
};
/// Finds a leak at the smallest length up to `longest`, preferably within the sequence. Searches
/// `row` first. Returns nothing if the search would take more than a few seconds.
std::optional<FoundLeak> findLeak(const ReadPlan &plan, int64_t longest, int64_t row,
                                  LeakSearch &search);

/// Moves the witness of a leak to the row's own target if the row reads it: the witness then names
/// that token, and the path ends there.
void preferTarget(const ReadPlan &plan, FoundLeak &leak);

} // namespace sluice
