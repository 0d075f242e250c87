// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Epilogue of contraction kernels, on four columns of a row per thread.
#pragma once

#include "../TensorCore/Columns.h"
#include "sluice/Target/Common/Epilogue.h"

namespace sluice::cuda {

/// Fails with a diagnostic unless `SumRows` supports the types and accesses of extras and results.
mlir::LogicalResult checkSumRows(dispatch::ContractOp op);

/// Loads extras, and applies epilogue, rotation and stores to rows of a contraction.
class SumRows {
public:
  /// `guarded`: extras are loaded only for existing rows.
  SumRows(dispatch::ContractOp op, Frame &frame, TensorCore &core, bool guarded);

  /// Sets this thread's columns: four from `first` (index), a multiple of four. Loads the extras
  /// that all rows share.
  void setColumn(Value first);
  /// Loads the extras of one row; the last one is its angles if results are rotated. Null for
  /// extras that all rows share.
  Values loadExtras(const Row &row);
  /// Applies the epilogue to the sums of a row, vector<4xf32>, and stores the results if the row is
  /// valid. Fails with a diagnostic if the region has an op that is not elementwise.
  mlir::LogicalResult emit(Value sums, const Row &row, llvm::ArrayRef<Value> extras);

private:
  Value loadRow(Value memory, int64_t extent, const Row &row);
  Value loadAngles(const Row &row);
  Value rotate(Value value, Value angles);

  dispatch::ContractOp op;
  Frame &frame;
  TensorCore &core;
  Emitter &e;
  const bool guarded;
  Epilogue epilogue;
  llvm::SmallVector<Value> extras, results; ///< memory
  Values shared;                            ///< extras that all rows share
  Value column;                             ///< index
};

} // namespace sluice::cuda
