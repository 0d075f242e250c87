// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// States obligations with ends of segments as questions to the solver in Segments.h.
#pragma once

#include "sluice/Proof/Obligations.h"
#include "sluice/Proof/Segments.h"

namespace sluice {

/// A formula over p, q, n and further variables, and the segmentation that each of its functions
/// represents.
struct SegmentQuestion {
  segments::Formula formula;
  llvm::SmallVector<SegmentOp> cuts;
};

/// Formulas of an obligation, which holds if none of them has a solution.
struct SegmentQuestions {
  std::vector<SegmentQuestion> formulas;
  /// The points that the obligation covers; it is vacuous if there are none.
  SegmentQuestion domain;
  bool isComplete = true; ///< false if the obligation cannot be stated as formulas
};
SegmentQuestions askBySegments(const ModeProof &proof, const Obligation &obligation);
/// Decides an obligation with ends of segments, by cases on their order (Segments.h).
Decision decideBySegments(const ModeProof &proof, const Obligation &obligation);

} // namespace sluice
