// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Represents a quasi-affine function of one integer by one of its periods: e(p + period) = e(p) +
// rise. The period of a nested expression does not grow with its nesting, because translating every
// sequence of a model by the least common multiple of its scales changes nothing.
#pragma once

#include "mlir/IR/AffineExpr.h"
#include <cstdint>
#include <optional>
#include <vector>

namespace sluice {

/// Maximum period that is enumerated.
constexpr int64_t longestRepeat = int64_t{1} << 22;

/// Period and rise: e(p + period) = e(p) + rise for every integer p. A `period` of 0 means longer
/// than `longestRepeat`, or numbers that are too large.
struct Repeat {
  int64_t period = 1, rise = 0;
};
Repeat multiplied(Repeat x, int64_t factor);
/// Returns the period and rise of floor(x / c), c > 0.
Repeat divided(Repeat x, int64_t c);
Repeat added(Repeat x, Repeat y);

/// A function of one integer, stored as its values over a period.
struct Staircase {
  Repeat repeat;
  std::vector<int64_t> values; ///< values at 0 ... period - 1

  int64_t at(int64_t p) const;
  bool isNonDecreasing() const;
  /// Reduces the period to the smallest one.
  void shorten();
  /// Returns the function as a sum of floors, one for each place in a period where it rises;
  /// nothing if it falls anywhere, or rises at more than `mostFloors` places.
  std::optional<mlir::AffineExpr> toExpression(mlir::MLIRContext *context, size_t mostFloors) const;
};

/// Returns the period of an expression of d0 with floordiv, ceildiv and mod by positive constants;
/// 0 if it has another form, or if values of one period could be near 2^60.
Repeat computeRepeat(mlir::AffineExpr expression, int64_t longest = longestRepeat);
/// Returns an expression's values; nothing if its period is beyond `longest`.
std::optional<Staircase> tabulate(mlir::AffineExpr expression, int64_t longest);

/// Returns the larger of two functions at every integer; nothing unless they have the same slope
/// and a common period within `longest`.
std::optional<Staircase> maximum(const Staircase &x, const Staircase &y, int64_t longest);

/// Counts divisions and remainders in an expression.
size_t countFloors(mlir::AffineExpr expression);

} // namespace sluice
