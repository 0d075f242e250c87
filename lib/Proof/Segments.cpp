// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Decides formulas by cases. A case is a conjunction of linear inequalities: elimination refutes
// it, or MLIR's Presburger library returns a sample point. If the sample's values do not extend to
// increasing functions, the violated condition gives the next row or the next split.
#include "sluice/Proof/Segments.h"
#include "mlir/Analysis/Presburger/Simplex.h"
#include "sluice/Proof/Elimination.h"
#include "sluice/Proof/IntegerPoint.h"
#include "sluice/Proof/ProveModel.h"
#include "sluice/Support/WorkBudget.h"
#include <algorithm>
#include <map>

using namespace sluice::segments;
using mlir::presburger::IntegerRelation;
using mlir::presburger::PresburgerSpace;

//===----------------------------------------------------------------------===//
// Linear forms
//===----------------------------------------------------------------------===//

Linear Linear::variable(size_t index) {
  Linear result;
  result.coefficients.resize(index + 1);
  result.coefficients[index] = 1;
  return result;
}

int64_t Linear::at(const std::vector<int64_t> &point) const {
  int64_t sum = constant;
  for (size_t i = 0; i < coefficients.size(); ++i) {
    sum += coefficients[i] * point[i];
  }
  return sum;
}

/// Returns x + factor * y.
static Linear addLinear(const Linear &x, const Linear &y, int64_t factor) {
  Linear sum = x;
  sum.coefficients.resize(std::max(x.coefficients.size(), y.coefficients.size()));
  sum.isExact &= y.isExact;
  auto add = [&](int64_t &number, int64_t other) {
    int64_t product = 0;
    sum.isExact &= !__builtin_mul_overflow(factor, other, &product) &&
                   !__builtin_add_overflow(number, product, &number);
  };
  for (size_t i = 0; i < y.coefficients.size(); ++i) {
    add(sum.coefficients[i], y.coefficients[i]);
  }
  add(sum.constant, y.constant);
  return sum;
}

Linear sluice::segments::operator+(const Linear &x, const Linear &y) { return addLinear(x, y, 1); }
Linear sluice::segments::operator-(const Linear &x, const Linear &y) { return addLinear(x, y, -1); }
Linear sluice::segments::operator*(const Linear &x, int64_t factor) {
  return addLinear({}, x, factor);
}

static std::vector<int64_t> trimmed(std::vector<int64_t> coefficients) {
  while (!coefficients.empty() && coefficients.back() == 0) {
    coefficients.pop_back();
  }
  return coefficients;
}

static bool isEqual(const Linear &x, const Linear &y) {
  return x.constant == y.constant && trimmed(x.coefficients) == trimmed(y.coefficients);
}

//===----------------------------------------------------------------------===//
// Formulas
//===----------------------------------------------------------------------===//

size_t Formula::addFunction(int64_t distance) {
  least.push_back(distance);
  return least.size() - 1;
}

Linear Formula::addVariable() { return Linear::variable(variables++); }

void Formula::require(Linear nonNegative) { rows.push_back(std::move(nonNegative)); }

void Formula::requireEqual(const Linear &x, const Linear &y) {
  require(x - y);
  require(y - x);
}

Linear Formula::buildFloor(const Linear &x, int64_t divisor) {
  if (divisor == 1) {
    return x;
  }
  Linear quotient = addVariable(), remainder = x - quotient * divisor;
  require(remainder);
  require(Linear::number(divisor - 1) - remainder);
  remainders.emplace_back(remainder, divisor);
  return quotient;
}

Linear Formula::getSegmentEnd(size_t function, const Linear &argument) {
  for (const LinearTerm &term : terms) {
    if (term.function == function && isEqual(term.argument, argument)) {
      return Linear::variable(term.value);
    }
  }
  Linear value = addVariable();
  terms.push_back({function, argument, variables - 1});
  return value;
}

//===----------------------------------------------------------------------===//
// Cases
//===----------------------------------------------------------------------===//

namespace {

constexpr int mostCases = 4000, deepest = 40;

/// A condition on terms that a sample violates. A case derives its row from the rows in `because`.
struct Demand {
  std::vector<Linear> because; ///< all must be >= 0
  RefutationStep step;
};

class CaseSearch {
public:
  explicit CaseSearch(const Formula &formula) : formula(formula), rows(formula.rows) {
    for (Linear &row : rows) {
      row.coefficients.resize(formula.variables);
    }
  }
  Answer run();

private:
  /// Returns true if the case is refuted; false if a solution is found (`found`) or the search is
  /// abandoned.
  bool refuteCase(Refutation &why, int depth);
  bool split(const Linear &on, Refutation &why, int depth);
  void add(RefutationStep step, Refutation &why);
  std::optional<size_t> findRow(const Linear &nonNegative) const;
  IntegerRelation asRelation() const;
  std::optional<Demand> findViolation(const std::vector<int64_t> &point) const;
  std::optional<Demand> findViolatedTerm(const LinearTerm &x, size_t i,
                                         const std::vector<int64_t> &point) const;
  std::optional<Demand> findViolatedOrder(const LinearTerm &x, size_t i, const LinearTerm &y,
                                          size_t j, const std::vector<int64_t> &point) const;
  std::optional<Linear> findOpenFloor() const;
  std::optional<Linear> findFraction() const;

  const Formula &formula;
  std::vector<Linear> rows;
  std::optional<std::vector<int64_t>> found;
  int cases = 0;
};

} // namespace

void CaseSearch::add(RefutationStep step, Refutation &why) {
  step.row.coefficients.resize(formula.variables);
  rows.push_back(step.row);
  why.steps.push_back(std::move(step));
}

/// Returns a row that implies `nonNegative` >= 0.
std::optional<size_t> CaseSearch::findRow(const Linear &nonNegative) const {
  Linear wanted = nonNegative;
  wanted.coefficients.resize(formula.variables);
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].constant <= wanted.constant && rows[i].coefficients == wanted.coefficients) {
      return i;
    }
  }
  return std::nullopt;
}

IntegerRelation CaseSearch::asRelation() const {
  IntegerRelation relation(PresburgerSpace::getSetSpace(static_cast<unsigned>(formula.variables)));
  for (const Linear &row : rows) {
    std::vector<int64_t> all = row.coefficients;
    all.push_back(row.constant);
    relation.addInequality(llvm::ArrayRef<int64_t>(all));
  }
  return relation;
}

/// Compares the values of two terms: if x's argument is at most y's, their difference is at least
/// the difference of the arguments, times `least` if x's argument is not negative.
std::optional<Demand> CaseSearch::findViolatedOrder(const LinearTerm &x, size_t i,
                                                    const LinearTerm &y, size_t j,
                                                    const std::vector<int64_t> &point) const {
  int64_t between = y.argument.at(point) - x.argument.at(point);
  int64_t rise = point[y.value] - point[x.value];
  int64_t distance = formula.least[x.function];
  bool isFar = distance > 1 && x.argument.at(point) >= 0;
  if (between < 0 || rise >= (isFar ? distance : 1) * between) {
    return std::nullopt;
  }
  Demand demand;
  demand.because = {y.argument - x.argument};
  if (isFar) {
    demand.because.push_back(x.argument);
  }
  demand.step.kind = RefutationStep::Order;
  demand.step.first = i;
  demand.step.second = j;
  demand.step.row = Linear::variable(y.value) - Linear::variable(x.value) -
                    (y.argument - x.argument) * (isFar ? distance : 1);
  return demand;
}

/// Compares a term with its own argument: e(x) <= x if x < 0, else e(x) >= least x.
std::optional<Demand> CaseSearch::findViolatedTerm(const LinearTerm &x, size_t i,
                                                   const std::vector<int64_t> &point) const {
  int64_t argument = x.argument.at(point), distance = formula.least[x.function];
  Linear value = Linear::variable(x.value);
  bool isNegative = argument < 0;
  if (isNegative ? point[x.value] <= argument : point[x.value] >= distance * argument) {
    return std::nullopt;
  }
  Demand demand;
  demand.because = {isNegative ? Linear::number(-1) - x.argument : x.argument};
  demand.step.kind = isNegative ? RefutationStep::Negative : RefutationStep::Apart;
  demand.step.first = i;
  demand.step.row = isNegative ? x.argument - value : value - x.argument * distance;
  return demand;
}

std::optional<Demand> CaseSearch::findViolation(const std::vector<int64_t> &point) const {
  for (size_t i = 0; i < formula.terms.size(); ++i) {
    const LinearTerm &x = formula.terms[i];
    if (auto demand = findViolatedTerm(x, i, point)) {
      return demand;
    }
    for (size_t j = 0; j < formula.terms.size(); ++j) {
      if (i != j && formula.terms[j].function == x.function) {
        if (auto demand = findViolatedOrder(x, i, formula.terms[j], j, point)) {
          return demand;
        }
      }
    }
  }
  return std::nullopt;
}

/// Returns a bound that splits a remainder whose value the rows do not determine yet.
std::optional<Linear> CaseSearch::findOpenFloor() const {
  for (const auto &[remainder, divisor] : formula.remainders) {
    for (int64_t r = 1; r < divisor && divisor <= 64; ++r) {
      Linear above = remainder - Linear::number(r);
      if (!findRow(above) && !findRow(Linear::number(r - 1) - remainder)) {
        return above;
      }
    }
  }
  return std::nullopt;
}

/// Returns a bound that splits a variable with a fractional value in a rational solution.
std::optional<Linear> CaseSearch::findFraction() const {
  auto point = mlir::presburger::Simplex(asRelation()).getRationalSample();
  for (size_t i = 0; point && i < point->size(); ++i) {
    if (ceil((*point)[i]) != floor((*point)[i])) {
      return Linear::variable(i) - Linear::number(int64_t(ceil((*point)[i])));
    }
  }
  return std::nullopt;
}

bool CaseSearch::split(const Linear &on, Refutation &why, int depth) {
  size_t before = rows.size();
  why.split = on;
  for (const Linear &half : {on, Linear::number(-1) - on}) {
    rows.push_back(half);
    rows.back().coefficients.resize(formula.variables);
    why.cases.emplace_back();
    if (!refuteCase(why.cases.back(), depth + 1)) {
      return false;
    }
    rows.resize(before);
  }
  return true;
}

bool CaseSearch::refuteCase(Refutation &why, int depth) {
  if (++cases > mostCases || depth > deepest) {
    return false;
  }
  for (;;) {
    if (!sluice::spendWork(static_cast<int64_t>(rows.size() * formula.variables))) {
      return false;
    }
    if (refute(rows, why.steps)) {
      return true;
    }
    sluice::IntegerPoint point = sluice::findIntegerPoint(asRelation());
    if (point.kind == sluice::IntegerPoint::Unknown) {
      return false;
    }
    if (point.kind == sluice::IntegerPoint::None) {
      std::optional<Linear> between = findOpenFloor();
      between = between ? between : findFraction();
      return between && split(*between, why, depth);
    }
    std::optional<Demand> demand = findViolation(point.at);
    if (!demand) {
      found = std::move(point.at);
      return false;
    }
    for (const Linear &condition : demand->because) {
      std::optional<size_t> row = findRow(condition);
      if (!row) {
        return split(condition, why, depth);
      }
      demand->step.because.push_back(*row);
    }
    add(demand->step, why);
  }
}

Answer CaseSearch::run() {
  Answer answer;
  for (size_t i = 0; i < formula.terms.size(); ++i) {
    RefutationStep step;
    step.kind = RefutationStep::AtLeast;
    step.first = i;
    step.row = Linear::variable(formula.terms[i].value) - formula.terms[i].argument;
    add(step, answer.why);
  }
  if (refuteCase(answer.why, 0)) {
    answer.kind = Answer::None;
  } else if (found) {
    answer.kind = Answer::Found;
    answer.point = std::move(*found);
  }
  return answer;
}

Answer sluice::segments::solve(const Formula &formula) {
  bool isExact = std::ranges::all_of(formula.rows, [](const Linear &row) { return row.isExact; }) &&
                 std::ranges::all_of(formula.terms,
                                     [](const LinearTerm &term) { return term.argument.isExact; });
  return isExact ? CaseSearch(formula).run() : Answer();
}

//===----------------------------------------------------------------------===//
// Points
//===----------------------------------------------------------------------===//

std::vector<int64_t> sluice::segments::getSegmentEnds(const Formula &formula, size_t function,
                                                      const std::vector<int64_t> &point) {
  std::map<int64_t, int64_t> known;
  for (const LinearTerm &term : formula.terms) {
    if (term.function == function && term.argument.at(point) >= 0) {
      known[term.argument.at(point)] = point[term.value];
    }
  }
  std::vector<int64_t> ends;
  for (auto [argument, value] : known) {
    while (static_cast<int64_t>(ends.size()) < argument) {
      ends.push_back(ends.empty() ? 0 : ends.back() + formula.least[function]);
    }
    ends.push_back(value);
  }
  return ends;
}
