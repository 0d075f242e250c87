// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Determines the bytes that a launch of a dispatch writes, and the bytes on which it must not
// depend, from its op and the valid rows.
#pragma once

#include "mlir/IR/Operation.h"

#include <cstdint>
#include <vector>

namespace sluice::oracle {

/// A range of bytes of a stored tensor, relative to its first byte.
struct Bytes {
  int64_t offset = 0, count = 0;
};

/// The valid rows of a launch: `rows` sequences of `length` tokens or, on an axis of segments, of
/// the rows that `lengths` gives for each; for a scheduled domain the rows of its schedule, i64
/// [batch, 3] (start, count, length), in rings.
struct Extent {
  int64_t length = 0, rows = 0;
  const int64_t *schedule = nullptr;
  const int64_t *lengths = nullptr;
};

/// Returns the bytes of result `result` that a GPU kernel writes, each exactly once: no padding and
/// no invalid rows, except where the op requires zeros.
std::vector<Bytes> writtenBytes(mlir::Operation *dispatch, unsigned result, const Extent &extent);

/// Returns the bytes of operand `operand` on whose values no result may depend: padding and invalid
/// rows. Only for floating-point operands; over a scheduled domain, rows that are not due only if a
/// contraction has its operands' rows at their own positions.
std::vector<Bytes> ignoredBytes(mlir::Operation *dispatch, unsigned operand, const Extent &extent);

/// Returns the bytes of operand `operand` that a GPU kernel of `blocks` blocks may read. Row
/// passes, weight gradients and scatters read no invalid row; nor does attention of queries, keys
/// and values if heads are multiples of 8 columns. Contractions and cross-entropy read no tile of
/// rows without a valid one. Other ops, weights, and scheduled domains: all bytes.
std::vector<Bytes> readBytes(mlir::Operation *dispatch, unsigned operand, const Extent &extent,
                             int64_t blocks);

} // namespace sluice::oracle
