// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds tokens before the target that rows can never see.
#pragma once

#include "sluice/Proof/Losses.h"

namespace sluice {

/// Returns the least common multiple of the factors of a function's scales, after which their
/// groups begin together again; 0 if it exceeds 2^30. Segments are assumed to be regular.
int64_t computePeriod(mlir::func::FuncOp function);

/// Tokens before the target of row t of a loss on which the row cannot depend, as a periodic
/// pattern in t.
struct BlindPattern {
  CrossEntropyOp loss;
  int64_t period = 1;   ///< rows t and t + period see the same, moved by period
  int64_t length = 0;   ///< at which it was enumerated; 0: it would have taken too long
  int64_t firstRow = 0; ///< three periods from here on were compared
  bool repeats = false; ///< they agreed
  std::string segments; ///< "segments of 4 tokens", which were taken; empty where there are none
  struct BlindRow {
    /// Runs of tokens that are never seen, relative to the start of the row's period: first and
    /// last token.
    std::vector<std::pair<int64_t, int64_t>> holes;
    int64_t oldest = -1; ///< how many tokens back the row sees at most; -1: to the first one
    /// Residues of tokens, further back than all `holes`, that are never seen though others are.
    std::vector<int64_t> farHoles;
  };
  std::vector<BlindRow> rows; ///< of t mod period
  bool hasHoles() const;
  /// Describes the pattern: "rows 4m+2 to 4m+3 never see tokens 4m+1 to the one before their own".
  std::string describe() const;
};
BlindPattern findBlindSpots(CrossEntropyOp loss);

} // namespace sluice
