// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Columns of queries, keys and values in their sequences.
#pragma once

#include "sluice/Dialect/Sluice/Sluice.h"

namespace sluice {

/// Returns true if every column of the sequences of an attention (or of its backward) belongs to
/// exactly one of queries, keys and values. Kernels write each gradient's columns once, and no
/// others.
template <typename Op> bool fillsSequences(Op op) {
  struct ColumnSlice {
    mlir::Value sequence;
    int64_t column, count;
  };
  auto columns = [&](uint64_t heads) { return static_cast<int64_t>(heads * op.getHeadSize()); };
  ColumnSlice parts[] = {{op.getQuery(), int64_t(op.getQueryColumn()), columns(op.getHeads())},
                         {op.getKey(), int64_t(op.getKeyColumn()), columns(op.getKvHeads())},
                         {op.getValue(), int64_t(op.getValueColumn()), columns(op.getKvHeads())}};
  for (const ColumnSlice &part : parts) {
    int64_t filled = 0;
    for (const ColumnSlice &other : parts) {
      if (other.sequence != part.sequence) {
        continue;
      }
      bool meets = &other != &part && part.column < other.column + other.count &&
                   other.column < part.column + part.count;
      if (meets) {
        return false;
      }
      filled += other.count;
    }
    if (filled != llvm::cast<SequenceType>(part.sequence.getType()).getWidth()) {
      return false;
    }
  }
  return true;
}

} // namespace sluice
