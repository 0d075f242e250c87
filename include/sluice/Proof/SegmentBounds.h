// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Computes bounds that depend on ends and counts of segments.
#pragma once

#include "sluice/Proof/Frontier.h"

namespace sluice {

/// A term with the segmentation that determines it. A shift of counts moves its argument.
struct CutTerm {
  SegmentTerm::Kind kind;
  SegmentOp cut;
  mlir::AffineExpr at; ///< an expression of d0 = p
};
/// Returns nothing if the term has no counts or ends of a sluice.segment.
std::optional<CutTerm> resolveTerm(const SegmentTerm &term);

/// Adds the tokens that position p needs if it reads an operand up to a term plus a constant.
/// Returns false if there is no bound.
bool addThroughTerms(const PositionReads &reads, const Frontier &source, Frontier &result);
/// Adds the tokens that position `at`(p) of `source` needs.
void addEndBounds(const Frontier &source, mlir::AffineExpr at, Frontier &result);
/// Returns true if a scale of the predicted tokens depends on data.
bool hasSegments(mlir::ModuleOp module);

/// Adds that row p of `ends` needs position e(p) to exist, on a scale of `factor` tokens.
void addOwnEnd(mlir::Value ends, int64_t factor, Frontier &result);

} // namespace sluice
