// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Bodies, epilogues and score regions, one op after the other.
#pragma once

#include "Memory.h"
#include "llvm/ADT/DenseMap.h"

namespace sluice::oracle {

/// Where a region runs: what its ops on places answer.
struct Place {
  int64_t row = 0, position = 0;
  int64_t column = 0; ///< of scalar regions
};

/// One run of a block. A value is as many numbers as its type has elements.
class Body {
public:
  Body(mlir::Block &block, const Launch &launch, Place place)
      : block(block), launch(launch), place(place) {}

  void set(mlir::Value value, Numbers numbers) { values[value] = std::move(numbers); }
  /// Fails with a diagnostic on an op that is not known.
  llvm::LogicalResult run();
  const Numbers &get(mlir::Value value) const { return values.find(value)->second; }
  /// What the block yields.
  const Numbers &yielded(unsigned i) const { return get(block.getTerminator()->getOperand(i)); }

private:
  llvm::LogicalResult compute(mlir::Operation &op);
  llvm::LogicalResult combine(dispatch::ReduceGroupOp op);
  llvm::LogicalResult computeElements(mlir::Operation &op);
  Numbers ofPlace(mlir::Operation &op) const;

  mlir::Block &block;
  const Launch &launch;
  Place place;
  llvm::DenseMap<mlir::Value, Numbers> values;
};

/// Runs a scalar region; fails as `Body` does.
llvm::FailureOr<llvm::SmallVector<Number>> evaluateScalar(mlir::Region &region,
                                                          llvm::ArrayRef<Number> arguments,
                                                          const Launch &launch, Place place);

/// Whether element `element` of random stream `id` (the launch's first is added) is below `rate`.
bool draws(const Launch &launch, int64_t id, uint64_t element, double rate);

} // namespace sluice::oracle
