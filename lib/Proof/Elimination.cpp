// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Refutes a conjunction of linear inequalities over the integers, and records the sums that show
// it.
#include "sluice/Proof/Elimination.h"
#include "sluice/Proof/Segments.h"
#include "sluice/Support/WorkBudget.h"
#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

using namespace sluice::segments;

namespace {

/// Limits beyond which an elimination is abandoned; it takes milliseconds up to them.
constexpr size_t mostRows = 1500;
constexpr int64_t largestCoefficientOfRow = int64_t{1} << 40;

bool isLarge(int64_t x) { return x > largestCoefficientOfRow || x < -largestCoefficientOfRow; }

int64_t floorDivided(int64_t x, int64_t y) { return x / y - (x % y != 0 && x < 0 ? 1 : 0); }

/// One elimination. Rows are never changed, only added; `active` has the rows that are not
/// superseded.
class Elimination {
public:
  explicit Elimination(const std::vector<Linear> &given) : rows(given), steps(given.size()) {
    for (Linear &row : rows) {
      variables = std::max(variables, row.coefficients.size());
    }
    for (size_t i = 0; i < given.size(); ++i) {
      rows[i].coefficients.resize(variables);
      offer(i);
    }
  }
  /// Finds a row that is a contradiction; returns true if there is one.
  bool run();
  /// Appends the rows that the contradiction needs.
  void take(std::vector<Linear> &out, std::vector<RefutationStep> &outSteps, size_t given) const;

private:
  void offer(size_t index);
  void combine(size_t x, int64_t byX, size_t y, int64_t byY);
  size_t choose() const;
  std::optional<std::pair<size_t, size_t>> findEquality(size_t variable) const;
  bool isDone() const { return contradiction || active.size() > mostRows || isTooLarge; }

  std::vector<Linear> rows;
  std::vector<RefutationStep> steps;
  /// The tightest row for each vector of coefficients.
  std::map<std::vector<int64_t>, size_t> active;
  size_t variables = 0;
  std::optional<size_t> contradiction;
  bool isTooLarge = false;
};

} // namespace

/// Makes row `index` active unless a tighter one is. First divides by the greatest common divisor
/// of its coefficients, which rounds the constant.
void Elimination::offer(size_t index) {
  int64_t common = 0;
  isTooLarge |= !rows[index].isExact;
  for (int64_t coefficient : rows[index].coefficients) {
    common = std::gcd(common, coefficient);
    isTooLarge |= isLarge(coefficient);
  }
  isTooLarge |= isLarge(rows[index].constant);
  if (isTooLarge) {
    return;
  }
  if (common == 0) {
    if (rows[index].constant < 0 && !contradiction) {
      contradiction = index;
    }
    return;
  }
  if (common > 1 && !steps[index].parts.empty()) {
    steps[index].divisor = common;
  } else if (common > 1) { // keeps a given row, and adds its quotient as a new row
    RefutationStep step;
    step.parts = {{index, 1}};
    step.divisor = common;
    rows.push_back(rows[index]);
    steps.push_back(step);
    index = rows.size() - 1;
  }
  if (common > 1) {
    for (int64_t &coefficient : rows[index].coefficients) {
      coefficient /= common;
    }
    rows[index].constant = floorDivided(rows[index].constant, common);
  }
  auto [entry, isNew] = active.try_emplace(rows[index].coefficients, index);
  if (!isNew && rows[index].constant < rows[entry->second].constant) {
    entry->second = index;
  }
}

void Elimination::combine(size_t x, int64_t byX, size_t y, int64_t byY) {
  isTooLarge |= !sluice::spendWork(static_cast<int64_t>(variables));
  RefutationStep step;
  step.parts = {{x, byX}, {y, byY}};
  rows.push_back(rows[x] * byX + rows[y] * byY);
  rows.back().coefficients.resize(variables);
  steps.push_back(step);
  offer(rows.size() - 1);
}

/// Returns rows x >= s and x <= s of a variable with coefficient 1, if they exist.
std::optional<std::pair<size_t, size_t>> Elimination::findEquality(size_t variable) const {
  for (const auto &[coefficients, index] : active) {
    if (coefficients[variable] != 1) {
      continue;
    }
    std::vector<int64_t> opposite = coefficients;
    for (int64_t &coefficient : opposite) {
      coefficient = -coefficient;
    }
    auto other = active.find(opposite);
    if (other != active.end() && rows[index].constant + rows[other->second].constant == 0) {
      return std::pair(index, other->second);
    }
  }
  return std::nullopt;
}

/// Returns the variable whose elimination creates the fewest rows; `variables` if none is left.
size_t Elimination::choose() const {
  size_t best = variables;
  int64_t least = std::numeric_limits<int64_t>::max();
  for (size_t variable = 0; variable < variables; ++variable) {
    int64_t above = 0, below = 0;
    for (const auto &[coefficients, index] : active) {
      above += coefficients[variable] > 0 ? 1 : 0;
      below += coefficients[variable] < 0 ? 1 : 0;
    }
    int64_t made = findEquality(variable) ? std::numeric_limits<int64_t>::min() / 2
                                          : above * below - above - below;
    if (above + below > 0 && made < least) {
      least = made;
      best = variable;
    }
  }
  return best;
}

bool Elimination::run() {
  for (size_t variable; !isDone() && (variable = choose()) < variables;) {
    std::vector<size_t> above, below;
    auto equality = findEquality(variable);
    for (auto entry = active.begin(); entry != active.end();) {
      int64_t coefficient = entry->first[variable];
      bool isOfEquality =
          equality && (entry->second == equality->first || entry->second == equality->second);
      if (coefficient != 0 && !isOfEquality) {
        (coefficient > 0 ? above : below).push_back(entry->second);
      }
      entry = coefficient != 0 ? active.erase(entry) : std::next(entry);
    }
    auto of = [&](size_t row) { return std::abs(rows[row].coefficients[variable]); };
    if (equality) {
      for (size_t row : above) {
        combine(row, 1, equality->second, of(row));
      }
      for (size_t row : below) {
        combine(row, 1, equality->first, of(row));
      }
      continue;
    }
    for (size_t x : above) {
      for (size_t y : below) {
        int64_t common = std::gcd(of(x), of(y));
        combine(x, of(y) / common, y, of(x) / common);
        if (isDone()) {
          return contradiction.has_value();
        }
      }
    }
  }
  return contradiction.has_value();
}

void Elimination::take(std::vector<Linear> &out, std::vector<RefutationStep> &outSteps,
                       size_t given) const {
  if (*contradiction < given) { // repeats the row, so that it is the last
    outSteps.push_back({});
    outSteps.back().parts = {{*contradiction, 1}};
    outSteps.back().row = rows[*contradiction];
    out.push_back(rows[*contradiction]);
    return;
  }
  std::vector<bool> isNeeded(rows.size());
  isNeeded[*contradiction] = true;
  for (size_t i = *contradiction + 1; i-- > given;) {
    for (const auto &[part, by] : steps[i].parts) {
      isNeeded[part] = isNeeded[part] || isNeeded[i];
    }
  }
  std::vector<size_t> numbers(rows.size());
  std::iota(numbers.begin(), numbers.end(), size_t{0});
  for (size_t i = given; i <= *contradiction; ++i) {
    if (!isNeeded[i]) {
      continue;
    }
    numbers[i] = out.size();
    RefutationStep step = steps[i];
    for (auto &[part, by] : step.parts) {
      part = numbers[part];
    }
    step.row = rows[i];
    out.push_back(rows[i]);
    outSteps.push_back(std::move(step));
  }
}

bool sluice::segments::refute(std::vector<Linear> &rows, std::vector<RefutationStep> &steps) {
  Elimination elimination(rows);
  if (!elimination.run()) {
    return false;
  }
  elimination.take(rows, steps, rows.size());
  return true;
}
