// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Scalar regions and integer relations as Python expressions over tensors.
#pragma once

#include "mlir/IR/IntegerSet.h"
#include "mlir/IR/Region.h"
#include "llvm/ADT/SmallVector.h"

#include <string>

namespace sluice::pytorch {

/// Python code of a region: statements, which define values that the region uses several times,
/// then one expression per yielded value.
struct ScalarCode {
  llvm::SmallVector<std::string> statements, results;
  bool isNumber = false;            ///< the first result is a number, not a tensor
  bool usesStraightThrough = false; ///< calls the helper of this name
};

/// Names of values that a region's ops depend on in addition to its arguments.
struct ScalarPlaces {
  std::string position, column;
};

/// Prints `region` for these arguments. An op without a printer is returned in `unknown`.
ScalarCode printScalar(mlir::Region &region, llvm::ArrayRef<std::string> arguments,
                       const ScalarPlaces &places, mlir::Operation *&unknown);

/// Returns `set` as a condition on tensors p and q and the number n.
std::string printRelation(mlir::IntegerSet set);

/// Returns the shortest decimal number that is read as this f32 or f64.
std::string printNumber(const llvm::APFloat &number);

} // namespace sluice::pytorch
