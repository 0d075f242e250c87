// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Obligations with ends of segments, as questions to the engine of Segments.h.
#pragma once

#include "sluice/Proof/Obligations.h"
#include "sluice/Proof/Segments.h"

namespace sluice {

/// A formula, of variables p, q, n and others, and the segmentation of each function.
struct SegmentQuestion {
  segments::Formula formula;
  llvm::SmallVector<SegmentOp> cuts;
};

/// An obligation holds if no formula has a solution.
struct SegmentQuestions {
  std::vector<SegmentQuestion> formulas;
  SegmentQuestion domain; ///< the points that it speaks of: some, else it is vacuous
  bool isComplete = true; ///< false where it cannot be asked
};
SegmentQuestions askBySegments(const ModeProof &proof, const Obligation &obligation);

} // namespace sluice
