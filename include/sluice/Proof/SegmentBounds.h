// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Bounds through ends and counts of segments.
#pragma once

#include "sluice/Proof/Frontier.h"

namespace sluice {

/// A term as the segmentation that decides it: of counts that a shift moves, its argument is moved.
struct CutTerm {
  SegmentTerm::Kind kind;
  SegmentOp cut;
  mlir::AffineExpr at; ///< of d0 = p
};
/// None where it is of no counts or ends that sluice.segment makes.
std::optional<CutTerm> resolveTerm(const SegmentTerm &term);

/// Adds what position p needs of an operand whose latest position is a term and a constant.
/// Returns false where no bound was found.
bool addThroughTerms(const PositionReads &reads, const Frontier &source, Frontier &result);
/// Adds what position `at`(p) of `source` needs.
void addEndBounds(const Frontier &source, mlir::AffineExpr at, Frontier &result);
/// Whether a scale of the module depends on data.
bool hasSegments(mlir::ModuleOp module);

/// Adds that row p of `ends` needs position e(p) to exist, on a scale of `factor` tokens.
void addOwnEnd(mlir::Value ends, int64_t factor, Frontier &result);

} // namespace sluice
