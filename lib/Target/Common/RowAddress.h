// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rows of memory that the operands and results of a row kernel have for the current row. A target
// turns them into addresses.
#pragma once

#include "RowAccess.h"

#include <functional>

namespace sluice::target {

/// Current row of the body: row r = b * positions + p or, in a scheduled domain, b * positions + j
/// at position p, in a sequence of `length` tokens. On an axis of segments `length` is the number
/// of rows of b there; null if one length holds for every b.
struct RowPosition {
  mlir::Value row, batch, position; ///< index
  mlir::Value length = {};          ///< index
};

/// Row of a tensor's memory.
struct RowPlace {
  mlir::Value row;           ///< index
  mlir::Value inside;        ///< i1; null if every row is inside
  mlir::Value position = {}; ///< position in the sequence
};

/// Range of rows of a source before it is clamped to [0, valid), all index.
struct RangeBounds {
  mlir::Value first, end, valid;
};

/// Tensors of a row kernel, and the differences between targets.
struct RowAddressing {
  mlir::ImplicitLocOpBuilder &b;
  dispatch::RowsOp op;
  /// A row outside its source has the place of the source's first row, so that loads need no
  /// branch; otherwise its place is undefined, and the target selects other memory.
  bool clamps;
  /// Returns ceil(length / factor) for the sequence of a row.
  std::function<mlir::Value(int64_t factor, const RowPosition &at)> computeLength;
  llvm::SmallVector<mlir::Value> offsets = {}; ///< byte of each tensor in the arena
};

/// Returns the number of rows that bounds a mapped position: rows of one sequence, or of the whole
/// table.
int64_t getMappedExtent(mlir::RankedTensorType type, dispatch::AccessAttr access);

/// Returns the row of operand `i` for group member `member`; `gathered` is the index (i32) of a
/// gather, else null.
RowPlace computePlace(const RowAddressing &rows, unsigned i, const RowPosition &at,
                      mlir::Value member, mlir::Value gathered);

/// Returns a range of rows of operand `i`, or of entries of its list. A null bound (i32) is the
/// row's own position.
RangeBounds computeRange(const RowAddressing &rows, unsigned i, const RowPosition &at,
                         mlir::Value from, mlir::Value last);

/// Returns the row of operand `i` at position `entry` (i32), an entry of its list.
RowPlace computeListedPlace(const RowAddressing &rows, unsigned i, const RowPosition &at,
                            mlir::Value entry);

/// Returns the row of operand `i` that holds position `q` of a range.
mlir::Value computeRangePlace(const RowAddressing &rows, unsigned i, const RowPosition &at,
                              mlir::Value q);

/// Returns the weight of a row of a range: of a softmax map, from the numbers of the row itself and
/// of the row of the range, which `own` and `other` load by argument.
mlir::Value emitSoftmaxWeight(mlir::ImplicitLocOpBuilder &b, dispatch::SoftmaxAttr softmax,
                              llvm::function_ref<mlir::Value(unsigned argument)> own,
                              llvm::function_ref<mlir::Value(unsigned argument)> other);

/// Returns the row of result `i` in its tensor.
mlir::Value computeResultPlace(const RowAddressing &rows, unsigned i, const RowPosition &at);

/// Returns true if operand `i` starts at the first column of its source for every row.
bool startsAtFirstColumn(dispatch::RowsOp op, unsigned i);

/// Returns the first column of operand `i` for a member, and restricts `place` to columns that
/// exist. A column before the first becomes the first if places are clamped.
mlir::Value computeColumn(const RowAddressing &rows, unsigned i, const RowPosition &at,
                          mlir::Value member, RowPlace &place);

/// Returns an element that was loaded from `place`, or its value outside the source.
mlir::Value emitOutsideElement(const RowAddressing &rows, unsigned i, const RowPlace &place,
                               mlir::Value loaded);

} // namespace sluice::target
