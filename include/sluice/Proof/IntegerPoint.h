// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds integer points with MLIR's Presburger library. The proof calls the library only here.
#pragma once

#include "mlir/Analysis/Presburger/IntegerRelation.h"
#include "mlir/IR/IntegerSet.h"
#include <optional>
#include <vector>

namespace sluice {

/// Result of the library's exact search for an integer point of a set.
struct IntegerPoint {
  enum Kind { None, Found, Unknown } kind = Unknown;
  std::vector<int64_t> at; ///< Found: dims, then symbols, then the divisions of the set
};
/// Returns an integer point of `set`. The library's search cannot be interrupted, and its numbers
/// can grow without bound if many divisors are coprime. So only sets within limits, which take
/// milliseconds, are searched; other sets are Unknown. Charges the current WorkBudget for the size
/// of a set.
IntegerPoint findIntegerPoint(mlir::IntegerSet set);
IntegerPoint findIntegerPoint(const mlir::presburger::IntegerRelation &relation);

} // namespace sluice
