// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Scales of the sequences of a function.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "sluice/Dialect/Sluice/Sluice.h"

namespace sluice {

/// Scales of a function's sequences, looked up once.
class Scales {
public:
  explicit Scales(mlir::func::FuncOp function);
  /// Returns the factor of a value's scale; 0 for the scale of one position.
  int64_t getScaleFactor(mlir::Value value) const { return findScale(value).factor; }
  mlir::FlatSymbolRefAttr findSequenceAxis(mlir::Value value) const {
    return findScale(value).axis;
  }
  /// Returns true for the axis whose tokens the losses score (without a loss, the axis of the first
  /// argument) and its segments. Other axes, such as an encoder's, have their own lengths and are
  /// not constrained.
  bool isOnTargetAxis(mlir::Value value) const { return findScale(value).tokens == target; }
  /// Returns true if position p exists from f p + 1 tokens of the target on, where f is the scale's
  /// factor: the value is stored and on the target's axis.
  bool existsByTokens(mlir::Value value) const;
  /// Returns true on an axis of segments, where every row is computed at every length.
  bool isSegmented(mlir::Value value) const {
    return findSequenceAxis(value) != findScale(value).tokens;
  }

private:
  struct Scale {
    mlir::FlatSymbolRefAttr axis;
    int64_t factor = 1;
    mlir::FlatSymbolRefAttr tokens; ///< the axis of the target's tokens; for an axis of segments,
                                    ///< the axis that they cut
  };
  const Scale &findScale(mlir::Value value) const;

  llvm::DenseMap<mlir::StringAttr, Scale> known;
  mlir::FlatSymbolRefAttr target;
};

} // namespace sluice
