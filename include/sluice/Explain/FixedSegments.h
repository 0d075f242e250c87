// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Represents segments with given boundaries, for enumerations and pictures at one length.
#pragma once

#include "sluice/Explain/LeakSearch.h"
#include "sluice/Proof/Scales.h"

namespace sluice {

/// Returns true if an operand only defines segments, so that the op reads no row through it.
bool isOfBoundaries(mlir::OpOperand &operand);

/// Rows of a function's scales under regular boundaries. Segments have the factor of a rule,
/// otherwise four tokens, or two rows on a scale of groups or segments. If bits begin segments, the
/// first row has a bit.
class RegularSegments {
public:
  explicit RegularSegments(mlir::func::FuncOp function);
  /// Returns the number of tokens per row of a value; 0 for a scale of one row.
  int64_t countTokensInRow(mlir::Value value) const;
  Boundaries boundariesAt(int64_t length) const;
  bool isEmpty() const { return cuts.empty(); }
  /// Describes the segments: "segments of 4 tokens", "segments of 4 tokens and of 8"; empty without
  /// segments.
  std::string describe() const;

private:
  Scales scales;
  llvm::SmallVector<SegmentOp> cuts;
  llvm::SmallVector<int64_t> positions; ///< rows of the segmented scale per segment
  llvm::SmallVector<int64_t> firsts;    ///< the first row with a bit, for each segmentation
  llvm::DenseMap<mlir::Attribute, int64_t> tokens; ///< tokens per segment, by axis
};

/// Rows that ops on segments read under one set of boundaries.
class FixedSegments {
public:
  /// Takes the boundaries of the function's segmentations, in order.
  FixedSegments(mlir::func::FuncOp function, Boundaries boundaries);
  /// Returns the number of rows of a value on segments: closed segments and the open one, grouped;
  /// none for another value.
  std::optional<int64_t> countSegmentRows(mlir::Value value) const;
  /// Returns the first and last position of an operand that row p of the op's first result reads;
  /// last < first if it reads none. The operand's reads must have terms of segments.
  std::pair<int64_t, int64_t> computeRange(CausalFlowInterface op, unsigned operand, int64_t p,
                                           int64_t n) const;
  /// Returns the first token of a row; for the row after the last closed segment, the token after
  /// it. If bits begin segments, the row after the last bit begins after all tokens.
  int64_t getFirstToken(mlir::Value value, int64_t row) const;

private:
  std::optional<size_t> findSegmentOp(mlir::Value value) const;
  std::optional<int64_t> evaluateTerm(const SegmentTerm &term, int64_t p) const;

  Scales scales;
  llvm::SmallVector<SegmentOp> cuts;
  llvm::SmallVector<bool> begins; ///< true where bits begin segments
  Boundaries boundaries;
};

} // namespace sluice
