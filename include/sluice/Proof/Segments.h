// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Linear integer arithmetic with unknown increasing functions: the language of questions about
// data-dependent segments. No IR here.
//
// A segmentation is an unknown e: Z -> Z, the position at which segment m ends. e(m) = m below 0,
// and for m < l: e(l) - e(m) >= l - m; from 0 on also >= least (l - m), where boundaries keep that
// distance. A finite partial map extends to such an e exactly if all its points and pairs satisfy
// these conditions. So a conjunction of linear inequalities over integers and values e(.) is
// decided by cases on the order of the arguments. They are split lazily, on what a sample violates.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace sluice::segments {

/// coefficients . variables + constant. Trailing coefficients of 0 may be left out.
struct Linear {
  std::vector<int64_t> coefficients;
  int64_t constant = 0;
  bool isExact = true; ///< false where a number did not fit into 64 bits: nothing is known of it

  static Linear variable(size_t index);
  static Linear number(int64_t value) { return {{}, value, true}; }
  int64_t at(const std::vector<int64_t> &point) const;
};
Linear operator+(const Linear &x, const Linear &y);
Linear operator-(const Linear &x, const Linear &y);
Linear operator*(const Linear &x, int64_t factor);

/// value = e(argument), of one of the functions.
struct LinearTerm {
  size_t function;
  Linear argument;
  size_t value; ///< a variable
};

/// A conjunction: each row is at least 0, each term is the value of its function.
class Formula {
public:
  /// An unknown e; see above. Returns its number.
  size_t addFunction(int64_t least);
  /// A fresh integer.
  Linear addVariable();
  void require(Linear nonNegative);
  void requireEqual(const Linear &x, const Linear &y);
  /// floor(x / divisor), divisor >= 1.
  Linear buildFloor(const Linear &x, int64_t divisor);
  /// e(argument); equal arguments share one variable.
  Linear getSegmentEnd(size_t function, const Linear &argument);

  size_t variables = 0;
  std::vector<int64_t> least; ///< of each function
  std::vector<Linear> rows;
  std::vector<LinearTerm> terms;
  /// (x - divisor floor(x / divisor), divisor) of each floor.
  std::vector<std::pair<Linear, int64_t>> remainders;
};

/// Why a conjunction has no solution. No certificate holds this: tests add it up, so that a wrong
/// elimination is seen. Rows are numbered: rows of the formula first, then in the
/// order in which the way from the root derives them. A row may use any earlier one.
struct Refutation {
  /// One more row.
  struct RefutationStep {
    enum Kind {
      Sum,      ///< sum of multiples of rows, divided by `divisor`, the constant rounded down
      AtLeast,  ///< e(x) - x >= 0, of term `first`
      Negative, ///< x - e(x) >= 0, where a row has -1 - x >= 0
      Apart,    ///< e(x) - least x >= 0, where a row has x >= 0
      Order     ///< e(y) - e(x) - g (y - x) >= 0, of terms `second` and `first`, where a row says
                ///< that y - x >= 0; g is 1, or `least` where another row says that x >= 0
    } kind = Sum;
    std::vector<std::pair<size_t, int64_t>> parts; ///< Sum: rows and multipliers, which are > 0
    int64_t divisor = 1;
    size_t first = 0, second = 0; ///< terms
    std::vector<size_t> because;  ///< rows
    Linear row;
  };
  std::vector<RefutationStep> steps;
  /// Empty where the last row reads -1 >= 0 or worse. Else two: with one more row, split >= 0,
  /// and with -1 - split >= 0.
  Linear split;
  std::vector<Refutation> cases;
};

struct Answer {
  enum Kind { None, Found, Undecided } kind = Undecided;
  Refutation why;             ///< None
  std::vector<int64_t> point; ///< Found: the variables
};

/// Searches a solution of a conjunction. Undecided where numbers or cases grow too large.
Answer solve(const Formula &formula);

/// Positions e(0), e(1), ... up to the largest argument of function `function` at `point`, a
/// solution: the least ends that agree with it.
std::vector<int64_t> getSegmentEnds(const Formula &formula, size_t function,
                                    const std::vector<int64_t> &point);

/// Reduces rows to a contradiction by Fourier-Motzkin elimination with integer rounding: whole
/// units of any row may be combined, and what all coefficients share is divided out. Sound; may
/// miss one. Rows that it needed are appended to `rows` with their steps, in order, the last one
/// being the contradiction.
bool refute(std::vector<Linear> &rows, std::vector<Refutation::RefutationStep> &steps);

} // namespace sluice::segments
