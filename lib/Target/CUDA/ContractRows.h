// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a contraction makes of its sums, four columns of a row a thread.
#pragma once

#include "Columns.h"
#include "sluice/Target/Common/Epilogue.h"

namespace sluice::cuda {

/// Fails with a diagnostic unless extras and results are of types and accesses that `SumRows` has.
mlir::LogicalResult checkSumRows(dispatch::ContractOp op);

/// Extras, epilogue, rotation and stores of rows of a contraction.
class SumRows {
public:
  using Value = mlir::Value;

  /// `guarded`: extras are read only where a row exists.
  SumRows(dispatch::ContractOp op, Frame &frame, TensorCore &core, bool guarded);

  /// This thread's columns from now on: four from `first` (index), a multiple of four. Loads of
  /// them what all rows share.
  void setColumn(Value first);
  /// Extras of one row, the last of them its angles where results are rotated; null where all rows
  /// share them.
  Values loadExtras(const Row &row);
  /// Stores what the epilogue makes of a row's sums, vector<4xf32>, where the row is valid. Fails
  /// with a diagnostic where the region holds something that is not elementwise.
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
