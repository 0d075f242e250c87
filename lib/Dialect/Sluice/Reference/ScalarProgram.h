// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
// Prepares a scalar region that runs many times.
#pragma once

#include "sluice/Dialect/Sluice/Reference.h"

namespace sluice::reference {

/// A straight-line region with its rules, constants and operands looked up once, because a region
/// runs for each element of a sequence and each pair of attention. Terminates the program on an
/// unknown op, like `evaluateScalar`.
template <typename T> class ScalarProgram {
public:
  explicit ScalarProgram(mlir::Region &region);

  /// Runs the region; returns its yielded values.
  llvm::SmallVector<Scalar<T>> run(llvm::ArrayRef<Scalar<T>> arguments, const ScalarPlace &place);

private:
  /// One op of the region. Values are numbered, arguments first.
  struct ScalarStep {
    mlir::Operation *op;
    scalar::Rule<T> rule; ///< null if the op depends on its position
    size_t result;
    llvm::SmallVector<size_t, 4> operands = {};
  };

  std::vector<ScalarStep> steps;
  std::vector<Scalar<T>> values;
  llvm::SmallVector<size_t> yields;
};

extern template class ScalarProgram<double>;
extern template class ScalarProgram<float>;

} // namespace sluice::reference
