// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// Scalar regions as vector code.
#pragma once

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "sluice/Dialect/Dispatch/Dispatch.h"
#include "sluice/Target/Common/Random.h"

namespace sluice::target {

/// Where a run of elements of a row lies.
struct Place {
  mlir::Value row;           ///< index: global row b * positions + p
  mlir::Value column;        ///< index: first column, a multiple of 4
  mlir::Value position = {}; ///< index: of the row in its sequence; null: row mod positions
};

/// Rotates the pairs (2i, 2i + 1) of a vector of f32 by `angles`, at 2i the cosine and at 2i + 1
/// the sine, or back. As many elements each, an even number.
mlir::Value emitRotation(mlir::ImplicitLocOpBuilder &b, mlir::Value vector, mlir::Value angles,
                         bool back);

/// Turns a contraction's epilogue (scalar arith, math, dispatch.column, position and random) into
/// code on vectors of one row.
class Epilogue {
public:
  /// What random numbers depend on: i64 each, and read only where the region draws some.
  struct Draw {
    mlir::Value step = {}, seed = {}, firstStream = {};
    PhiloxWord word = PhiloxWord::Wide;
    mlir::Value firstRow = {}; ///< index: of the update; null: none
  };
  Epilogue(dispatch::ContractOp op, mlir::ImplicitLocOpBuilder &b, Draw draw)
      : op(op), b(b), draw(draw) {}

  /// Emits the region for vector arguments of any one length; gives the vectors yielded. Fails with
  /// a diagnostic on an op that is not elementwise.
  mlir::FailureOr<llvm::SmallVector<mlir::Value>> emit(mlir::ValueRange arguments,
                                                       const Place &place);

private:
  mlir::Value emitRandom(dispatch::RandomOp op, const Place &place);
  mlir::FailureOr<mlir::Operation *> emitElementwise(mlir::Operation *op, mlir::IRMapping &mapping);
  mlir::VectorType vectorOf(mlir::Type element) { return mlir::VectorType::get({lanes}, element); }

  dispatch::ContractOp op;
  mlir::ImplicitLocOpBuilder &b;
  int64_t lanes = 0; ///< of the vectors that `emit` was given
  Draw draw;
};

} // namespace sluice::target
