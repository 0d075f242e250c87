// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Solves conjunctions of linear integer inequalities with unknown increasing functions, which state
// questions about data-dependent segments. Independent of any IR.
//
// A segmentation is an unknown function e: Z -> Z; e(m) is the position at which segment m ends.
// Its conditions are e(m) = m below 0, and e(l) - e(m) >= l - m for m < l. From 0 on, also e(l) -
// e(m) >= least (l - m), where boundaries keep a least distance. A finite partial map extends to
// such a function exactly if all its points and pairs satisfy these conditions. So a conjunction of
// linear inequalities over integers and values e(.) is decided by cases on the order of the
// arguments. Cases are split lazily, on the condition that a sample violates.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace sluice::segments {

/// A linear form, coefficients . variables + constant. Trailing zero coefficients may be omitted.
struct Linear {
  std::vector<int64_t> coefficients;
  int64_t constant = 0;
  bool isExact = true; ///< false if a number overflowed 64 bits; the form is then meaningless

  static Linear variable(size_t index);
  static Linear number(int64_t value) { return {{}, value, true}; }
  int64_t at(const std::vector<int64_t> &point) const;
};
Linear operator+(const Linear &x, const Linear &y);
Linear operator-(const Linear &x, const Linear &y);
Linear operator*(const Linear &x, int64_t factor);

/// States value = e(argument) for one of the functions e.
struct LinearTerm {
  size_t function;
  Linear argument;
  size_t value; ///< index of a variable
};

/// A conjunction: each row is at least 0, and each term's variable is the value of its function.
class Formula {
public:
  /// Adds an unknown function e with this least distance of boundaries; returns its number.
  size_t addFunction(int64_t least);
  /// Adds an integer variable.
  Linear addVariable();
  void require(Linear nonNegative);
  void requireEqual(const Linear &x, const Linear &y);
  /// Returns floor(x / divisor), divisor >= 1, as a new variable with its two inequalities.
  Linear buildFloor(const Linear &x, int64_t divisor);
  /// Returns e(argument) as a variable; equal arguments share one variable.
  Linear getSegmentEnd(size_t function, const Linear &argument);

  size_t variables = 0;
  std::vector<int64_t> least; ///< least distance of boundaries of each function
  std::vector<Linear> rows;
  std::vector<LinearTerm> terms;
  /// The remainder x - divisor floor(x / divisor) and the divisor of each floor.
  std::vector<std::pair<Linear, int64_t>> remainders;
};

/// Derives one row.
struct RefutationStep {
  enum Kind {
    Sum,      ///< sum of multiples of rows, divided by `divisor`, the constant rounded down
    AtLeast,  ///< e(x) - x >= 0 for term `first`
    Negative, ///< x - e(x) >= 0, because a row is -1 - x >= 0
    Apart,    ///< e(x) - least x >= 0, because a row is x >= 0
    Order     ///< e(y) - e(x) - g (y - x) >= 0 for terms `second` and `first`, because a row
              ///< is y - x >= 0; g is 1, or `least` if another row is x >= 0
  } kind = Sum;
  std::vector<std::pair<size_t, int64_t>> parts; ///< Sum: rows and their multipliers, which are >
                                                 ///< 0
  int64_t divisor = 1;
  size_t first = 0, second = 0; ///< indices of terms
  std::vector<size_t> because;  ///< indices of the rows that imply this one
  Linear row;
};

/// A derivation that a conjunction has no solution. No certificate contains it; tests check it, so
/// that a wrong elimination is noticed. Rows are numbered: first the rows of the formula, then the
/// derived rows in order, from the root of the case tree to the current case. A row may use any
/// earlier one.
struct Refutation {
  std::vector<RefutationStep> steps;
  /// Empty if the last row is a contradiction, -1 >= 0 or less. Else the two cases: one adds the
  /// row split >= 0, the other -1 - split >= 0.
  Linear split;
  std::vector<Refutation> cases;
};

struct Answer {
  enum Kind { None, Found, Undecided } kind = Undecided;
  Refutation why;             ///< None: the derivation
  std::vector<int64_t> point; ///< Found: the values of the variables
};

/// Searches for a solution of a conjunction. Undecided if numbers or cases grow too large.
Answer solve(const Formula &formula);

/// Returns the positions e(0), e(1), ... up to the largest argument of function `function` at
/// `point`, a solution: the smallest ends that agree with it.
std::vector<int64_t> getSegmentEnds(const Formula &formula, size_t function,
                                    const std::vector<int64_t> &point);

} // namespace sluice::segments
