// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Layout of trained parameters in the flat arena that gradients, moments and masters share.
#pragma once

#include "sluice/Dialect/Sluice/Sluice.h"

namespace sluice {

/// Elements of one flat row. Every parameter starts at a row, so values that differ by parameter
/// (decay, initial deviation) are one number per flat row, and the optimizer is one launch over all
/// parameters.
constexpr int64_t flatRowElements = 1024;

/// Trained parameters in module order, with their first flat row.
struct ParameterLayout {
  struct Entry {
    ParameterOp parameter;
    int64_t row;
    int64_t elements;
  };
  std::vector<Entry> entries;
  int64_t rows = 0; ///< total number of flat rows

  explicit ParameterLayout(mlir::ModuleOp module);
  /// Returns the byte offset in the flat arena; -1 if no trained parameter has that name.
  int64_t getOffsetAt(llvm::StringRef parameter) const;
  /// Returns the byte offsets of the buckets of the gradients in the flat arena, ascending from 0.
  /// Processes exchange a bucket at once. A bucket begins at a parameter, and is the smallest that
  /// has an eighth of the bytes, and 16 KiB. The first bucket has the remainder: a backward pass
  /// completes it last, so its exchange has the least time.
  std::vector<int64_t> getBuckets() const;
};

} // namespace sluice
