// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds tokens before the target that rows can never see.
#pragma once

#include "sluice/Proof/Losses.h"

namespace sluice {

/// Returns the least common multiple of the factors of a function's scales: the distance in tokens
/// between two positions where groups of all scales begin. Returns 0 if it exceeds 2^30. Segments
/// are assumed to be regular.
int64_t computePeriod(mlir::func::FuncOp function);

/// Tokens before the target of row t of a loss on which the row cannot depend, as a periodic
/// pattern in t.
struct BlindPattern {
  CrossEntropyOp loss;
  int64_t period = 1; ///< rows t and t + period see the same tokens, translated by the period
  /// Length of the enumerated sequence; 0 if the enumeration would take too long.
  int64_t length = 0;
  int64_t firstRow = 0; ///< first row of the three periods that were compared
  bool repeats = false; ///< true if the periods agreed
  /// The segments that were assumed, "segments of 4 tokens"; empty without segments.
  std::string segments;
  struct BlindRow {
    /// Runs of tokens that are never seen, relative to the start of the row's period: first and
    /// last token.
    std::vector<std::pair<int64_t, int64_t>> holes;
    /// Maximum distance in tokens that the row sees back; -1 if it sees the first token.
    int64_t oldest = -1;
    /// Residues of tokens beyond all `holes` that are never seen, while other residues are.
    std::vector<int64_t> farHoles;
  };
  std::vector<BlindRow> rows; ///< pattern of each row modulo the period
  bool hasHoles() const;
  /// Describes the pattern: "rows 4m+2 to 4m+3 never see tokens 4m+1 to the one before their own".
  std::string describe() const;
};
BlindPattern findBlindSpots(CrossEntropyOp loss);

} // namespace sluice
