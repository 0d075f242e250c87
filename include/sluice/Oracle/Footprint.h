// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which bytes a launch of a dispatch writes, and which it may not make use of: what its op, and the
// rows that are valid, say about memory.
#pragma once

#include "mlir/IR/Operation.h"

#include <cstdint>
#include <vector>

namespace sluice::oracle {

/// Bytes of a stored tensor, from its first.
struct Bytes {
  int64_t offset = 0, count = 0;
};

/// Rows of a launch that are there: `rows` sequences of `length` tokens, or, on an axis of
/// segments, of as many rows as `lengths` says of each; of a scheduled domain those of its
/// schedule, i64 [batch, 3] (start, count, length), in rings.
struct Extent {
  int64_t length = 0, rows = 0;
  const int64_t *schedule = nullptr;
  const int64_t *lengths = nullptr;
};

/// The bytes of result `result` that a GPU kernel writes, all of them, once each: no padding, and
/// no row that is not valid, save where the op wants zeros there.
std::vector<Bytes> writtenBytes(mlir::Operation *dispatch, unsigned result, const Extent &extent);

/// Bytes of operand `operand` on whose values nothing may depend: padding, and rows that are not
/// valid. Of floating-point operands only; over a scheduled domain rows that are not due only where
/// a contraction has its operands' rows at their own positions.
std::vector<Bytes> ignoredBytes(mlir::Operation *dispatch, unsigned operand, const Extent &extent);

/// Bytes of operand `operand` that a GPU kernel of `blocks` blocks may read: of row passes, weight
/// gradients and scatters no row that is not valid, likewise of attention's queries, keys and
/// values where heads are multiples of 8 columns; of contractions and of cross-entropy no tile of
/// rows without a valid one; of others, of weights, and over scheduled domains, all.
std::vector<Bytes> readBytes(mlir::Operation *dispatch, unsigned operand, const Extent &extent,
                             int64_t blocks);

} // namespace sluice::oracle
