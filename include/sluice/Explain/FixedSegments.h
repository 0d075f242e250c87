// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Segments under boundaries that are taken as given: for what is enumerated or drawn at one length.
#pragma once

#include "sluice/Explain/LeakSearch.h"
#include "sluice/Proof/Scales.h"

namespace sluice {

/// Whether an operand says where segments are, and no row's content is read through it.
bool isOfBoundaries(mlir::OpOperand &operand);

/// Rows of a function's scales under regular boundaries: segments of a rule's factor, else of four
/// tokens, and of two where groups or segments are cut. Bits that begin segments begin with the
/// first row.
class RegularSegments {
public:
  explicit RegularSegments(mlir::func::FuncOp function);
  /// Tokens from one row of the value to the next; 0: one row.
  int64_t tokensOf(mlir::Value value) const;
  Boundaries boundariesAt(int64_t length) const;
  bool isEmpty() const { return cuts.empty(); }
  /// "segments of 4 tokens", "segments of 4 tokens and of 8"; empty without segments.
  std::string describe() const;

private:
  Scales scales;
  llvm::SmallVector<SegmentOp> cuts;
  llvm::SmallVector<int64_t> positions;            ///< of the cut scale, in a segment
  llvm::SmallVector<int64_t> firsts;               ///< of its positions, the first with a bit
  llvm::DenseMap<mlir::Attribute, int64_t> tokens; ///< of a segment, by axis
};

/// What ops of segments read under one set of boundaries.
class FixedSegments {
public:
  /// Boundaries of the function's cuts, in order.
  FixedSegments(mlir::func::FuncOp function, Boundaries boundaries);
  /// Rows of a value on segments: those that have ended and the open one, grouped; none of another
  /// value.
  std::optional<int64_t> rowsOf(mlir::Value value) const;
  /// First and last position of the operand that row p of the op's first result reads; last < first
  /// where there is none. Of operands whose reads have terms.
  std::pair<int64_t, int64_t> rangeOf(CausalFlowInterface op, unsigned operand, int64_t p,
                                      int64_t n) const;
  /// The first token of a row; of the row behind the last that has ended, the next token. Where
  /// bits begin segments, the row behind the last of them is behind all tokens.
  int64_t firstTokenOf(mlir::Value value, int64_t row) const;

private:
  std::optional<size_t> cutOf(mlir::Value value) const;
  std::optional<int64_t> numberOf(const SegmentTerm &term, int64_t p) const;

  Scales scales;
  llvm::SmallVector<SegmentOp> cuts;
  llvm::SmallVector<bool> begins; ///< whether the bits of a cut begin segments
  Boundaries boundaries;
};

} // namespace sluice
