// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Interpreter of bodies, epilogues and score regions.
#pragma once

#include "Memory.h"
#include "sluice/Dialect/Dispatch/ScalarOps.h"

#include "llvm/ADT/DenseMap.h"
#include <memory>

namespace sluice::oracle {

/// Position at which a region runs: the results of ops that read positions.
struct BodyPlace {
  int64_t row = 0, position = 0;
  int64_t column = 0; ///< only for scalar regions
};

/// Interprets a block repeatedly. A value has as many numbers as its type has elements. A block
/// runs for each element of a contraction and each score of attention, so rules, types and
/// constants are looked up once.
class Body {
public:
  Body(mlir::Block &block, const OracleLaunch &launch);

  /// Starts a run; its arguments must be set next.
  void start(BodyPlace at) { place = at; }
  void setArgument(unsigned i, Numbers numbers) { values[i] = std::move(numbers); }
  const Numbers &getArgument(unsigned i) const { return values[i]; }
  /// Fails with a diagnostic on an unknown op.
  llvm::LogicalResult run();
  /// Returns the yielded value `i`.
  const Numbers &yielded(unsigned i) const { return values[yields[i]]; }
  size_t yieldCount() const { return yields.size(); }

private:
  /// An op. Values are numbered, arguments first.
  struct BodyStep {
    mlir::Operation *op = nullptr;
    scalar::Rule<Number> rule = nullptr; ///< set for elementwise ops
    size_t result = 0, elements = 0;
    bool isFloat = false; ///< the result is floating point
    llvm::SmallVector<size_t> operands;
    llvm::SmallVector<bool> areFloats;                       ///< the operands are floating point
    std::optional<dispatch::ReduceKind> kind = std::nullopt; ///< set for reductions
    std::unique_ptr<Body> combiner = nullptr;                ///< set for reductions without a kind
  };
  void addStep(mlir::Operation &op, llvm::DenseMap<mlir::Value, size_t> &numbers);
  llvm::LogicalResult compute(BodyStep &step);
  llvm::LogicalResult combine(BodyStep &step);
  llvm::LogicalResult computeElements(BodyStep &step);
  Numbers ofPlace(mlir::Operation &op) const;

  mlir::Block &block;
  const OracleLaunch &launch;
  BodyPlace place;
  std::vector<BodyStep> steps;
  std::vector<Numbers> values;
  llvm::SmallVector<size_t> yields;
};

/// Runs a scalar region again; fails as `Body` does.
llvm::FailureOr<llvm::SmallVector<Number>>
evaluateScalar(Body &region, llvm::ArrayRef<Number> arguments, BodyPlace place);
/// Runs a scalar region once.
llvm::FailureOr<llvm::SmallVector<Number>> evaluateScalar(mlir::Region &region,
                                                          llvm::ArrayRef<Number> arguments,
                                                          const OracleLaunch &launch,
                                                          BodyPlace place);

/// Returns true if element `element` of random stream `id` (plus the launch's first) is below
/// `rate`.
bool draws(const OracleLaunch &launch, int64_t id, uint64_t element, double rate);

} // namespace sluice::oracle
