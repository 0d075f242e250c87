// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where trained parameters stand in the flat arena that gradients, moments and masters share.
#pragma once

#include "sluice/Dialect/Sluice/Sluice.h"

namespace sluice {

/// Elements of one flat row. Every parameter starts on a row, so that what differs by parameter
/// (decay, initial deviation) is one number a flat row; the optimizer then is one launch over all
/// of them.
constexpr int64_t flatRowElements = 1024;

/// Trained parameters in module order, with their first flat row.
struct ParameterLayout {
  struct Entry {
    ParameterOp parameter;
    int64_t row;
    int64_t elements;
  };
  std::vector<Entry> entries;
  int64_t rows = 0; ///< flat rows in all

  explicit ParameterLayout(mlir::ModuleOp module);
  /// Bytes from the flat arena's start; -1 where no trained parameter has that name.
  int64_t offsetOf(llvm::StringRef parameter) const;
};

} // namespace sluice
