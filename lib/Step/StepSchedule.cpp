// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Inverts due steps: computes the number of rows after each step.
#include "sluice/Step/StepSchedule.h"
#include "sluice/Dialect/Sluice/MaskBounds.h"
#include "sluice/Dialect/Sluice/Reference.h"
#include "sluice/Proof/Frontier.h"
#include "sluice/Proof/Staircase.h"
#include "sluice/Proof/StepPlan.h"
#include "sluice/Step/DeriveStep.h"
#include "sluice/Support/WorkBudget.h"
#include "llvm/Support/MathExtras.h"
#include <map>
#include <numeric>

using namespace mlir;
using namespace sluice;

/// Rewrites a floor(x / k) + c as a floor((x + (c / a) k) / k) if c k / a is an integer, so that
/// the dividend is seldom negative.
static AffineExpr withoutOffset(AffineExpr expression) {
  auto sum = dyn_cast<AffineBinaryOpExpr>(expression);
  auto offset = sum && sum.getKind() == AffineExprKind::Add
                    ? dyn_cast<AffineConstantExpr>(sum.getRHS())
                    : AffineConstantExpr();
  auto division = offset ? dyn_cast<AffineBinaryOpExpr>(sum.getLHS()) : AffineBinaryOpExpr(nullptr);
  int64_t multiple = 1;
  if (division && division.getKind() == AffineExprKind::Mul) {
    multiple = cast<AffineConstantExpr>(division.getRHS()).getValue();
    division = dyn_cast<AffineBinaryOpExpr>(division.getLHS());
  }
  if (!division || division.getKind() != AffineExprKind::FloorDiv ||
      offset.getValue() % multiple != 0) {
    return expression;
  }
  int64_t divisor = cast<AffineConstantExpr>(division.getRHS()).getValue();
  AffineExpr inside = division.getLHS() + offset.getValue() / multiple * divisor;
  return inside.floorDiv(divisor) * multiple;
}

/// Formats a function as a line plus one division for each place in a period where the function
/// departs from the line: floor((t + period - x) / period) rises at x. Returns null if there are
/// too many places.
static AffineExpr spellByLine(const Staircase &table, MLIRContext *context) {
  constexpr size_t mostPlaces = 6;
  int64_t period = table.repeat.period;
  std::map<int64_t, int64_t> places; // number of places by increase of the function
  for (int64_t x = 1; x <= period; ++x) {
    ++places[table.at(x) - table.at(x - 1)];
  }
  auto most = llvm::max_element(
      places, [](const auto &left, const auto &right) { return left.second < right.second; });
  AffineExpr t = getAffineDimExpr(0, context);
  AffineExpr sum = t * most->first + table.at(0);
  if (static_cast<size_t>(period - most->second) > mostPlaces) {
    return {};
  }
  for (int64_t x = 1; x <= period; ++x) {
    if (int64_t more = table.at(x) - table.at(x - 1) - most->first) {
      sum = sum + (t + (period - x)).floorDiv(period) * more;
    }
  }
  return sum;
}

/// Formats a function that rises only at multiples of g, counted from `first`, in terms of floor((t
/// - first) / g).
static AffineExpr spell(const Staircase &table, MLIRContext *context) {
  int64_t period = table.repeat.period, first = 0, g = 0;
  for (int64_t x = period; x >= 1; --x) {
    if (table.at(x) != table.at(x - 1)) {
      g = std::gcd(g, g == 0 ? period : x - first);
      first = x;
    }
  }
  if (g <= 1) {
    return spellByLine(table, context);
  }
  first %= g;
  Staircase coarse{{period / g, table.repeat.rise}, {}};
  for (int64_t i = 0; i < period / g; ++i) {
    coarse.values.push_back(table.at(first + g * i));
  }
  AffineExpr count = spellByLine(coarse, context);
  return count ? count.replaceDims({(getAffineDimExpr(0, context) - first).floorDiv(g)}) : count;
}

/// Returns true if row m is counted from step due(m) on, and not earlier. One period of m is
/// sufficient if `count` rises by `period` every `rise` steps.
static bool countsRows(AffineExpr count, const Staircase &due) {
  auto [period, rise] = due.repeat;
  std::optional<Staircase> counts = tabulate(count, rise);
  if (!counts || !counts->isNonDecreasing() || rise % counts->repeat.period != 0 ||
      rise / counts->repeat.period * counts->repeat.rise != period) {
    return false;
  }
  for (int64_t m = 0; m < period; ++m) {
    if (counts->at(due.at(m)) <= m || counts->at(due.at(m) - 1) > m) {
      return false;
    }
  }
  return true;
}

/// Returns N(t) if constraints cannot be solved for m, for example with a difference of divisions:
/// the first m with due(m) > t, over one period of t. The resulting expression is checked again.
static AffineExpr countByPeriod(AffineExpr due) {
  constexpr int64_t longestPeriod = 1024; // of m, and of t
  std::optional<Staircase> table = tabulate(due, longestPeriod);
  if (!table || !table->isNonDecreasing() || table->repeat.rise < 1 ||
      table->repeat.rise > longestPeriod || !spendWork(table->repeat.period + table->repeat.rise)) {
    return {};
  }
  table->shorten();
  auto [period, rise] = table->repeat;
  Staircase count{{rise, period}, {}};
  int64_t m = -llvm::divideCeilSigned(table->at(0), rise) * period; // -rise < due(m) <= 0
  for (int64_t t = 0; t < rise; ++t) {
    while (table->at(m) <= t) {
      ++m;
    }
    count.values.push_back(m);
  }
  AffineExpr result = spell(count, due.getContext());
  return result && countsRows(result, *table) ? result : AffineExpr();
}

/// Operations charged for each division of a bound: rewriting solves its constraint.
static constexpr int64_t costOfDivision = 100;

/// Returns N(t) of one candidate: the number of rows m >= 0 with due(m) <= t, negative if none is
/// due. Returns null if the candidate cannot be inverted.
static AffineExpr getDueCount(AffineExpr due) {
  if (!spendWork(costOfDivision * static_cast<int64_t>(countFloors(due) + 1))) {
    return {};
  }
  MLIRContext *context = due.getContext();
  AffineExpr t = getAffineDimExpr(0, context), m = getAffineDimExpr(1, context);
  MaskBounds bounds = solveMask(IntegerSet::get(2, 1, {t - due.replaceDims({m})}, {false}));
  if (!bounds.exact || bounds.upper.size() != 1 || !bounds.lower.empty() ||
      !bounds.conditions.empty()) {
    return countByPeriod(due);
  }
  return withoutOffset(simplifyAffineExpr(bounds.upper.front() + 1, 1, 0));
}

/// Maximum period of a schedule; a longer period is recorded as 0.
constexpr int64_t longestRise = int64_t{1} << 40;

std::optional<StepSchedule> sluice::findSchedule(const Frontier &bound) {
  StepSchedule schedule;
  schedule.due.assign(bound.candidates.begin(), bound.candidates.end());
  Repeat all{1, 0};
  for (AffineExpr due : schedule.due) {
    AffineExpr count = getDueCount(due);
    if (!count) {
      return std::nullopt;
    }
    schedule.counts.push_back(count);
    all = added(all, {computeRepeat(count, longestRise).period, 0});
  }
  schedule.first = schedule.getDue(0);
  schedule.period = all.period;
  schedule.rise = all.period == 0 ? 0
                                  : schedule.getCount(schedule.first + all.period) -
                                        schedule.getCount(schedule.first);
  return schedule;
}
