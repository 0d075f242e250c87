// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// Emits scalar regions as vector code.
#pragma once

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "sluice/Dialect/Dispatch/Dispatch.h"
#include "sluice/Target/Common/Random.h"

namespace sluice::target {

/// Position of a run of elements of a row.
struct EpiloguePlace {
  mlir::Value row;           ///< index: global row b * positions + p
  mlir::Value column;        ///< index: first column, a multiple of 4
  mlir::Value position = {}; ///< index: position of the row in its sequence; null: row mod
                             ///< positions
};

/// Rotates the pairs (2i, 2i + 1) of an f32 vector by `angles` (cosine at 2i, sine at 2i + 1), or
/// by the inverse rotation if `back`. Both have the same even number of elements.
mlir::Value emitRotation(mlir::ImplicitLocOpBuilder &b, mlir::Value vector, mlir::Value angles,
                         bool back);

/// Emits a block of elementwise scalar code for vector arguments of the same length; returns the
/// vectors that it yields. Fails with a diagnostic on any other op.
mlir::FailureOr<llvm::SmallVector<mlir::Value>>
emitScalarBlock(mlir::ImplicitLocOpBuilder &b, mlir::Block &block, mlir::ValueRange arguments);

/// Emits a contraction's epilogue (scalar arith, math, dispatch.column, position and random) as
/// code on vectors of one row.
class Epilogue {
public:
  /// Inputs of random numbers: i64 each, loaded only if the region draws.
  struct Draw {
    mlir::Value step = {}, seed = {}, firstStream = {};
    PhiloxWord word = PhiloxWord::Wide;
    mlir::Value drawRows = {}; ///< memory of draw_rows, for emitDrawnRow; null: none
  };
  Epilogue(dispatch::ContractOp op, mlir::ImplicitLocOpBuilder &b, Draw draw)
      : op(op), b(b), draw(draw) {}

  /// Emits the region for vector arguments of the same, arbitrary length; returns the yielded
  /// vectors. Fails with a diagnostic on an op that is not elementwise.
  mlir::FailureOr<llvm::SmallVector<mlir::Value>> emit(mlir::ValueRange arguments,
                                                       const EpiloguePlace &place);

private:
  mlir::Value emitRandom(dispatch::RandomOp op, const EpiloguePlace &place);
  mlir::VectorType getVectorType(mlir::Type element) {
    return mlir::VectorType::get({lanes}, element);
  }

  dispatch::ContractOp op;
  mlir::ImplicitLocOpBuilder &b;
  int64_t lanes = 0; ///< length of the argument vectors
  Draw draw;
};

} // namespace sluice::target
