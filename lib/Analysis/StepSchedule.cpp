// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// When rows are due, turned round: how many there are after each step.
#include "sluice/Analysis/Staircase.h"
#include "sluice/Analysis/Step.h"
#include "sluice/Dialect/Sluice/MaskBounds.h"
#include "sluice/Dialect/Sluice/Reference.h"

using namespace mlir;
using namespace sluice;

int64_t StepSchedule::getCount(int64_t t) const {
  int64_t count = std::numeric_limits<int64_t>::max();
  for (AffineExpr expression : counts) {
    count = std::min(count, reference::evaluateAffine(expression, t, 0, 0));
  }
  return std::max<int64_t>(0, count);
}

int64_t StepSchedule::getDue(int64_t m) const {
  int64_t step = 0;
  for (AffineExpr expression : due) {
    step = std::max(step, reference::evaluateAffine(expression, m, 0, 0));
  }
  return step;
}

/// a floor(x / k) + c as a floor((x + (c / a) k) / k) where that is whole, so that what is divided
/// is seldom negative.
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

/// N(t) of one candidate: the number of rows m >= 0 with due(m) <= t. None where the candidate
/// cannot be solved for m.
static AffineExpr countOf(AffineExpr due) {
  MLIRContext *context = due.getContext();
  AffineExpr t = getAffineDimExpr(0, context), m = getAffineDimExpr(1, context);
  MaskBounds bounds = solveMask(IntegerSet::get(2, 1, {t - due.replaceDims({m})}, {false}));
  if (!bounds.exact || bounds.upper.size() != 1 || !bounds.lower.empty() ||
      !bounds.conditions.empty()) {
    return {};
  }
  return withoutOffset(simplifyAffineExpr(bounds.upper.front() + 1, 1, 0));
}

/// Periods beyond this are not told of: 0.
constexpr int64_t longestRise = int64_t{1} << 40;

std::optional<StepSchedule> sluice::scheduleOf(const Frontier &bound) {
  StepSchedule schedule;
  schedule.due.assign(bound.candidates.begin(), bound.candidates.end());
  Repeat all{1, 0};
  for (AffineExpr due : schedule.due) {
    AffineExpr count = countOf(due);
    if (!count) {
      return std::nullopt;
    }
    schedule.counts.push_back(count);
    all = added(all, {repeatOf(count, longestRise).period, 0});
  }
  schedule.first = schedule.getDue(0);
  schedule.period = all.period;
  schedule.rise = all.period == 0 ? 0
                                  : schedule.getCount(schedule.first + all.period) -
                                        schedule.getCount(schedule.first);
  return schedule;
}

StepSchedule sluice::everyStep(MLIRContext *context) {
  AffineExpr step = getAffineDimExpr(0, context);
  StepSchedule schedule;
  schedule.due = {step};
  schedule.counts = {step + 1};
  return schedule;
}
