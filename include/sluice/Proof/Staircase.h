// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Quasi-affine functions of one integer by one of their periods: e(p + period) = e(p) + rise. How
// deep an expression nests does not matter to its period: translating every sequence of a model by
// the least common multiple of its scales changes nothing.
#pragma once

#include "mlir/IR/AffineExpr.h"
#include <cstdint>
#include <optional>
#include <vector>

namespace sluice {

/// Longer periods are not enumerated.
constexpr int64_t longestRepeat = int64_t{1} << 22;

/// e(p + period) = e(p) + rise for every integer p. `period` 0: longer than `longestRepeat`, or the
/// numbers are too large.
struct Repeat {
  int64_t period = 1, rise = 0;
};
Repeat multiplied(Repeat x, int64_t factor);
/// Returns the period and rise of floor(x / c), c > 0.
Repeat divided(Repeat x, int64_t c);
Repeat added(Repeat x, Repeat y);

/// A function of one integer by its values over a period.
struct Staircase {
  Repeat repeat;
  std::vector<int64_t> values; ///< at 0 ... period - 1

  int64_t at(int64_t p) const;
  bool isNonDecreasing() const;
  /// Makes the period the least one.
  void shorten();
  /// As a sum of floors, one for each place in a period where it rises; nothing where it falls, or
  /// rises at more than `mostFloors` places.
  std::optional<mlir::AffineExpr> toExpression(mlir::MLIRContext *context, size_t mostFloors) const;
};

/// The period of an expression of d0 with floordiv, ceildiv and mod by positive constants; period 0
/// where it is of another form, or where values of one period could be near 2^60.
Repeat computeRepeat(mlir::AffineExpr expression, int64_t longest = longestRepeat);
/// An expression's values; nothing where its period is beyond `longest`.
std::optional<Staircase> tabulate(mlir::AffineExpr expression, int64_t longest);

/// The larger of two functions at every integer, where they rise alike and repeat together within
/// `longest`.
std::optional<Staircase> maximum(const Staircase &x, const Staircase &y, int64_t longest);

/// Divisions and remainders in an expression.
size_t countFloors(mlir::AffineExpr expression);

} // namespace sluice
