// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Computes the dependences of every row at one length by following reads position by position.
// Written from the op descriptions alone; shares no code with the causality check.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "sluice/Dialect/Sluice/Sluice.h"
#include "llvm/ADT/DenseMap.h"
#include <optional>
#include <vector>

namespace sluice::fuzz {

/// Tree of reads of one position.
struct Computation {
  uint64_t hash = 0;   ///< equal for equal trees over equal tokens; 0: null
  int64_t latest = -1; ///< token; -1: none
};

/// Masks at every (p, q) of a square, cached across lengths.
class MaskTable {
public:
  bool allows(mlir::IntegerSet mask, int64_t p, int64_t q, int64_t n);

private:
  static constexpr int64_t side = 512;
  llvm::DenseMap<mlir::IntegerSet, std::vector<signed char>> known; ///< -1: not evaluated yet
};

/// Set bits of each segmentation of a function, in order.
using SegmentEnds = std::vector<std::vector<int64_t>>;

/// All positions of a function's values at one length.
class Enumeration {
public:
  /// Evaluates with token `changed` replaced by another one. Segments are given by `ends`.
  Enumeration(mlir::func::FuncOp function, int64_t length, MaskTable &masks, int64_t changed = -1,
              SegmentEnds ends = {});

  Computation at(mlir::Value value, int64_t position) const;
  int64_t positions(mlir::Value value) const;

private:
  struct Scale {
    int64_t factor = 1;
    bool isTarget = false; ///< of the axis whose tokens a loss scores
    int64_t rows = 0;      ///< of an axis of segments
  };
  const Scale &findScale(mlir::Value value) const {
    return scales.find(mlir::cast<SequenceType>(value.getType()).getScale())->second;
  }
  Computation compute(mlir::Operation *op, int64_t position) const;
  Computation attend(AttentionOp op, int64_t position) const;
  Computation pool(PoolSegmentsOp op, int64_t segment) const;
  Computation attend(AttendSegmentsOp op, int64_t segment) const;
  Computation bitsUpTo(mlir::Value bits, int64_t position) const;
  const std::vector<int64_t> &getSegmentEnds(mlir::Value endsOrCounts) const;
  std::vector<Computation> evaluateRows(mlir::OpResult result) const;
  Computation computeSegmentRow(mlir::OpResult result, int64_t position) const;

  int64_t length, changed;
  SegmentEnds ends;
  llvm::DenseMap<mlir::Operation *, size_t> cuts;
  MaskTable &masks;
  llvm::DenseMap<mlir::Attribute, Scale> scales; ///< by name
  llvm::DenseMap<mlir::Value, std::vector<Computation>> stored;
};

/// Reason why a row violates the theorem.
struct Violation {
  int64_t length = 0, row = 0;
  int64_t token = -1; ///< read too early; -1: the row differs from the row at length row + 1
};

/// Returns twice the least common multiple of the factors plus the largest shift or window, in
/// tokens: greater lengths show nothing new.
int64_t longestToEnumerate(mlir::func::FuncOp function);

/// Returns the first violation at any length up to `longest`: a row t of a loss with offset o reads
/// a token after t or after t + o - 1, or differs from the row at length t + 1.
std::optional<Violation> enumerateViolation(mlir::func::FuncOp function, int64_t longest);

/// Returns the first violation under every bit string of at most `longest` tokens, and of as many
/// segments as these bits close where segments are cut again.
std::optional<Violation> enumerateSegments(mlir::func::FuncOp function, int64_t longest);

/// Returns true if the input of any loss at `row` of `length` tokens changes with `token`: replaced
/// where the sequence contains it, else appended with all tokens before it.
bool rowDependsOn(mlir::func::FuncOp function, int64_t length, int64_t row, int64_t token);

} // namespace sluice::fuzz
