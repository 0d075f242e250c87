// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The Hourglass paper's notation: "2@1 8@4 2@1" is 2 layers on tokens, 8 on groups of 4, 2 on
// tokens.
#pragma once

#include "sluice/Dialect/Spec/Spec.h"

namespace sluice::spec {

struct HierarchyLevel {
  int64_t layers = 0;
  int64_t factor = 1;   ///< coarseness relative to the stage's input
  bool isDrawn = false; ///< one of Hierarchy::drawn, the same for all such levels
};

struct Hierarchy {
  std::vector<HierarchyLevel> levels;
  std::vector<int64_t>
      drawn; ///< rising factors of which each training step draws one; empty: none is drawn

  /// Sets the factor of the levels that draw one.
  void setDrawn(int64_t factor);
  /// Returns the index of the coarsest level: the middle level of factors that form a palindrome,
  /// else the only level with the maximum factor.
  size_t getCoarsest() const;
  /// "2@1 8@4 2@1"
  std::string toString() const;
};

/// Order of the levels: down to the coarsest and back up (hourglass), from the coarsest down
/// (top_down), from fine to coarse (bottom_up).
enum class HierarchyOrder { DownAndUp, Falling, Rising };

/// Parses the key "hierarchy" of a stage. Reports an error at the invalid level.
llvm::FailureOr<Hierarchy> parseHierarchy(mlir::Operation *stage, llvm::StringRef text,
                                          HierarchyOrder order);

/// Returns the hourglass that draws its factor, and the factors, rising; null if no stage draws
/// one.
std::pair<HourglassOp, std::vector<int64_t>> findDrawing(ModelOp model);
/// Returns the factors of which each training step of a model draws one, rising; empty if all
/// factors are fixed.
llvm::SmallVector<int64_t> getDrawnFactors(ModelOp model);

} // namespace sluice::spec
