// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The one way in which this folder asks MLIR's Presburger library for an integer point.
#pragma once

#include "mlir/Analysis/Presburger/IntegerRelation.h"
#include "mlir/IR/IntegerSet.h"
#include <optional>
#include <vector>

namespace sluice {

/// An integer point of a set, by the library's exact search.
struct IntegerPoint {
  enum Kind { None, Found, Unknown } kind = Unknown;
  std::vector<int64_t> at; ///< Found: dims, then symbols, then the divisions of the set
};
/// The search cannot be stopped once it runs, and its numbers can grow without end where many
/// divisors are coprime. So only sets within limits are asked for, whose search takes
/// milliseconds; the current WorkBudget is charged for their size. Unknown for other sets.
IntegerPoint findIntegerPoint(mlir::IntegerSet set);
IntegerPoint findIntegerPoint(const mlir::presburger::IntegerRelation &relation);

} // namespace sluice
