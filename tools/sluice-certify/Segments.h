// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Questions about scales that depend on data, and about functions of long periods: linear
// inequalities over integers and ends of segments. e(m), the end of segment m, is unknown: e(m) = m
// below 0, and e(l) - e(m) >= l - m where m < l.
#pragma once

#include "Graph.h"

#include <map>

namespace certify {

/// The linear form numbers . variables + constant.
struct Form {
  std::map<size_t, int64_t> numbers; ///< none of them 0
  int64_t constant = 0;

  static Form variable(size_t index) { return {{{index, 1}}, 0}; }
  static Form number(int64_t value) { return {{}, value}; }
  /// Returns this + factor * other. Throws Refusal if a number overflows.
  Form plus(const Form &other, int64_t factor = 1) const;
  bool operator==(const Form &other) const = default;
};

/// A conjunction of integer rows, each at least 0.
class Question {
public:
  Form fresh() { return Form::variable(variables++); }
  void require(const Form &row) { rows.push_back(row); }
  void requireEqual(const Form &x, const Form &y);
  /// Returns e(argument) of the segmentation whose ends are value `ends`.
  Form end(size_t ends, const Form &argument);
  /// Returns the expression at p = `at`.
  Form of(const Expression &expression, const Form &at);
  /// Returns true if no candidate of `left` at x is above -1 and above all of `right` at p.
  bool isNeverAbove(const Bound &left, const Form &x, const Bound &right, const Form &p) const;

private:
  struct SegmentBoundTerm {
    size_t ends;
    Form argument, value;
  };
  struct Quotient {
    Form inner;
    int64_t divisor;
    Form value;
  };
  /// Returns true if there is no solution; false if that could not be shown.
  bool isEmpty(size_t settled, int &cases) const;

  size_t variables = 0;
  std::vector<Form> rows;
  std::vector<SegmentBoundTerm> terms;
  std::vector<Quotient> quotients; ///< of floors; equal floors are one integer
};

/// Row p of a value and a row q that it reads, under all boundaries; in a step, a row of the stored
/// values under lazy ones.
struct EndsRead {
  Question question;
  Form p = question.fresh(), q = question.fresh();
  size_t source = 0;

  EndsRead(const ModelGraph &graph, size_t value, size_t operand, bool inStep = false);
  bool isNeverAbove(const Bound &left, const Bound &right) const {
    return question.isNeverAbove(left, q, right, p);
  }
};
/// Throws Refusal if it does not hold.
void demandOfEnds(bool holds);
/// Returns true if left(p) <= right(p) is shown for all p >= 0 or, with `everywhere`, all integers.
bool isNeverAbove(const Bound &left, const Bound &right, bool everywhere = false);

} // namespace certify
