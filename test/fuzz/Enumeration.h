// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The computation of every row at one length, found by following reads position by position.
// Written from the op descriptions alone; it shares no code with the causality check.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "sluice/Dialect/Sluice/Sluice.h"
#include "llvm/ADT/DenseMap.h"
#include <optional>
#include <vector>

namespace sluice::fuzz {

/// The tree of reads under one position.
struct Computation {
  uint64_t hash = 0;   ///< equal for equal trees over equal tokens; 0: null
  int64_t latest = -1; ///< token; -1: none
};

/// Masks at every (p, q) of a square, kept from length to length.
class MaskTable {
public:
  bool allows(mlir::IntegerSet mask, int64_t p, int64_t q, int64_t n);

private:
  static constexpr int64_t side = 512;
  llvm::DenseMap<mlir::IntegerSet, std::vector<signed char>> known; ///< -1: not asked yet
};

/// Where the bits of each segmentation of a function are set, in order.
using SegmentEnds = std::vector<std::vector<int64_t>>;

/// All positions of a function's values at one length.
class Enumeration {
public:
  /// Token `changed` is taken to be another one. Segments are given by `ends`.
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
  Computation computeOfSegments(mlir::OpResult result, int64_t position) const;

  int64_t length, changed;
  SegmentEnds ends;
  llvm::DenseMap<mlir::Operation *, size_t> cuts;
  MaskTable &masks;
  llvm::DenseMap<mlir::Attribute, Scale> scales; ///< by name
  llvm::DenseMap<mlir::Value, std::vector<Computation>> stored;
};

/// The reason why a row violates the theorem.
struct Violation {
  int64_t length = 0, row = 0;
  int64_t token = -1; ///< read too early; -1: the row is another one than at length row + 1
};

/// Twice the least common multiple of the factors, and the largest shift or window in addition, in
/// tokens: lengths beyond show nothing new.
int64_t longestToEnumerate(mlir::func::FuncOp function);

/// The first violation at any length up to `longest`: a row t of a loss with offset o reads a token
/// beyond t or beyond t + o - 1, or differs from the row at length t + 1.
std::optional<Violation> enumerateViolation(mlir::func::FuncOp function, int64_t longest);

/// The same under every string of bits: of `longest` tokens at most, and of as many segments as
/// these bits close where segments are cut again.
std::optional<Violation> enumerateSegments(mlir::func::FuncOp function, int64_t longest);

/// Returns true if the input of any loss at `row` of `length` tokens changes with `token`: changed
/// where it is in the sequence, else appended with all before it.
bool rowDependsOn(mlir::func::FuncOp function, int64_t length, int64_t row, int64_t token);

} // namespace sluice::fuzz
