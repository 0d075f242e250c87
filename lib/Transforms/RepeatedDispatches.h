// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Copies of forward dispatches in the backward pass, which come and go while a set of them is
// looked for.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"

namespace sluice {

using ValueSet = llvm::DenseSet<mlir::Value>;

/// One function's dispatches, cut in two where its backward pass begins.
class RepeatedDispatches {
public:
  explicit RepeatedDispatches(mlir::func::FuncOp func);

  llvm::ArrayRef<mlir::Operation *> forward() const { return early; }
  /// Whether a value need not be kept: a temporary of the forward pass whose dispatch can run
  /// again.
  bool isRepeatable(mlir::Value value) const { return repeatable.contains(value); }
  /// Bytes of repeatable values that forward dispatches up to the i-th make and later ones read, by
  /// i: what must be there to go on from that place.
  std::vector<int64_t> bytesBetween() const;
  /// Values that forward dispatches up to the i-th make and later ones read.
  llvm::SmallVector<mlir::Value> valuesAcross(size_t i) const;

  /// Makes the backward pass read copies of `dropped` values. Each copy stands before the first
  /// dispatch that needs it, together with those that it needs itself.
  void repeat(const ValueSet &dropped);
  void undo();
  /// By original, in the order of the copies.
  const llvm::MapVector<mlir::Operation *, mlir::Operation *> &copies() const { return made; }

private:
  struct Life {
    size_t first = 0, last = 0; ///< where it is made and last read in the forward pass
  };
  void findRepeatable(mlir::func::FuncOp func);
  void findLives();
  mlir::Value copyOf(mlir::Value value, const ValueSet &dropped, mlir::OpBuilder &b);

  llvm::SmallVector<mlir::Operation *> early, late;
  ValueSet repeatable;
  llvm::MapVector<mlir::Value, Life> lives; ///< of repeatable values
  llvm::MapVector<mlir::Operation *, mlir::Operation *> made;
};

} // namespace sluice
