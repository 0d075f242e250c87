// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Copies of forward dispatches in the backward pass, which are created and removed during the
// search for a set to rematerialize.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"

namespace sluice {

using ValueSet = llvm::DenseSet<mlir::Value>;

/// Dispatches of one function, split where its backward pass begins.
class RepeatedDispatches {
public:
  explicit RepeatedDispatches(mlir::func::FuncOp func);

  llvm::ArrayRef<mlir::Operation *> forward() const { return early; }
  /// Returns true if a value can be rematerialized: a temporary of the forward pass whose dispatch
  /// can run again.
  bool isRepeatable(mlir::Value value) const { return repeatable.contains(value); }
  /// Returns, for each i, the bytes of repeatable values that forward dispatches up to the i-th
  /// define and later ones read: the values that are live at that point.
  std::vector<int64_t> bytesBetween() const;
  /// Returns the values that forward dispatches up to the i-th define and later ones read.
  llvm::SmallVector<mlir::Value> valuesAcross(size_t i) const;

  /// Redirects reads of `dropped` values in the backward pass to copies. Each copy is inserted
  /// before its first user, together with the copies that it depends on.
  void repeat(const ValueSet &dropped);
  void undo();
  /// Returns the copy of each original, in the order of the copies.
  const llvm::MapVector<mlir::Operation *, mlir::Operation *> &copies() const { return made; }

private:
  struct Life {
    size_t first = 0, last = 0; ///< definition and last read in the forward pass
  };
  void findRepeatable(mlir::func::FuncOp func);
  void findLives();
  mlir::Value getCopy(mlir::Value value, const ValueSet &dropped, mlir::OpBuilder &b);

  llvm::SmallVector<mlir::Operation *> early, late;
  ValueSet repeatable;
  llvm::MapVector<mlir::Value, Life> lives; ///< live ranges of repeatable values
  llvm::MapVector<mlir::Operation *, mlir::Operation *> made;
};

} // namespace sluice
