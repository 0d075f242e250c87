// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Decides the obligations of the incremental step: the negation of each is a union of sets of
// integer points that must all be empty. A maximum on the greater side is a conjunction; on the
// smaller side, one set for each candidate. Rows exist from token 0 on, so the -1 of bounds never
// matters.
#include "sluice/Proof/StepProof.h"
#include "sluice/Proof/IntegerPoint.h"
#include "sluice/Proof/Residues.h"
#include "sluice/Proof/Staircase.h"
#include "sluice/Proof/StepPlan.h"

using namespace mlir;
using namespace sluice;

namespace {
/// A conjunction over p = d0, x = d1 and n = s0, to be shown empty.
struct StepQuestion {
  explicit StepQuestion(MLIRContext *context)
      : p(getAffineDimExpr(0, context)), x(getAffineDimExpr(1, context)),
        n(getAffineSymbolExpr(0, context)) {
    require(p);
  }
  StepQuestion &require(AffineExpr nonNegative, bool equality = false) {
    constraints.push_back(nonNegative);
    equalities.push_back(equality);
    return *this;
  }
  /// Requires that every candidate at `row` is at most `most`.
  StepQuestion &requireAtMost(ArrayRef<AffineExpr> candidates, AffineExpr row, AffineExpr most) {
    for (AffineExpr candidate : candidates) {
      require(most - candidate.replaceDims({row}));
    }
    return *this;
  }
  bool mentionsLength() const {
    return llvm::any_of(constraints,
                        [](AffineExpr constraint) { return constraint.isFunctionOfSymbol(0); });
  }
  IntegerSet get() const { return IntegerSet::get(2, 1, constraints, equalities); }

  AffineExpr p, x, n;
  SmallVector<AffineExpr> constraints;
  SmallVector<bool> equalities;
};
} // namespace

/// Returns the schedule at the latest steps: closed-segment counts 0 and 1 may both be reached at
/// the first step.
static StepSchedule atLatest(StepSchedule schedule) {
  if (schedule.cut) {
    schedule.due.push_back(getAffineConstantExpr(1, schedule.due.front().getContext()));
  }
  return schedule;
}

/// Returns the reads at `step`, a candidate of the reader: the step at which its row p is due. The
/// length is the length at that step or any later one, because the set of rows that are read must
/// not depend on it. An op that runs at every step reads at its own length.
static StepQuestion readsAt(const StepSchedule &reader, AffineExpr step, const StepRead &read) {
  StepQuestion question(step.getContext());
  question.requireAtMost(reader.due, question.p, step);
  for (auto [constraint, equality] :
       llvm::zip_equal(read.relation.getConstraints(), read.relation.getEqFlags())) {
    question.require(constraint, equality);
  }
  if (question.mentionsLength()) {
    question.require(question.n - 1 - step.floorDiv(read.operandFactor));
  } else {
    question.require(question.n - 1, /*equality=*/true);
  }
  return question.require(read.position);
}

/// Returns none if the set is empty. Treats an undecided set like a set with a point, so that the
/// step is rejected.
StepDecider::Point StepDecider::findPoint(IntegerSet set, ArrayRef<AffineExpr> ofRow) {
  auto [entry, isNew] = known.try_emplace(set);
  if (!isNew) {
    return entry->second;
  }
  IntegerPoint point = findIntegerPoint(set);
  if (point.kind == IntegerPoint::Found) {
    entry->second = {point.at[0], point.at[1]};
  } else if (point.kind == IntegerPoint::Unknown) {
    CommonPoint common =
        ofRow.empty() ? CommonPoint() : findCommonPoint(ofRow, /*everywhere=*/false);
    if (common.kind != CommonPoint::None) {
      entry->second = {common.at, 0};
    }
  }
  return entry->second;
}

StepDecider::Point StepDecider::findNotExisting(const StepSchedule &schedule, int64_t factor) {
  StepQuestion question(schedule.due.front().getContext());
  question.require(question.x, /*equality=*/true);
  question.requireAtMost(schedule.due, question.p, question.p * factor - 1);
  SmallVector<AffineExpr> early;
  for (AffineExpr due : schedule.due) {
    early.push_back(question.p * factor - 1 - due);
  }
  return findPoint(question.get(), early);
}

StepDecider::Point StepDecider::findBurst(const StepSchedule &of, int64_t burst) {
  StepSchedule schedule = atLatest(of);
  for (AffineExpr step : schedule.due) {
    StepQuestion question(step.getContext());
    question.require(question.x - burst, /*equality=*/true);
    question.requireAtMost(schedule.due, question.p + burst, step);
    SmallVector<AffineExpr> together;
    for (AffineExpr due : schedule.due) {
      together.push_back(step - due.replaceDims({question.p + burst}));
    }
    if (Point point = findPoint(question.get(), together)) {
      return point;
    }
  }
  return std::nullopt;
}

/// Compares counts with due steps; p is a row, x a step.
StepDecider::Point StepDecider::findMiscount(const StepSchedule &schedule) {
  StepQuestion domain(schedule.due.front().getContext());
  domain.require(domain.x + 1);
  auto counted = [&](AffineExpr count) { return count.replaceDims({domain.x}) - 1 - domain.p; };
  for (AffineExpr due : schedule.due) { // counted before it is due
    StepQuestion question = domain;
    question.require(due - domain.x - 1);
    llvm::for_each(schedule.counts, [&](AffineExpr count) { question.require(counted(count)); });
    if (Point point = findPoint(question.get())) {
      return point;
    }
  }
  for (AffineExpr count : schedule.counts) { // due, but not counted
    StepQuestion question = domain;
    question.requireAtMost(schedule.due, domain.p, domain.x).require(-counted(count) - 1);
    if (Point point = findPoint(question.get())) {
      return point;
    }
  }
  return std::nullopt;
}

StepDecider::Point StepDecider::findNotDue(const StepSchedule &reader, const StepSchedule &source,
                                           const StepRead &read) {
  for (AffineExpr step : reader.due) {
    StepQuestion domain = readsAt(reader, step, read);
    SmallVector<AffineExpr> needed;
    for (AffineExpr due : source.due) {
      needed.push_back(due.replaceDims({read.position}));
    }
    if (read.endsLazy) { // a position that is read only at a later length
      needed.push_back(domain.x * read.operandFactor);
    }
    for (AffineExpr later : needed) {
      StepQuestion question = domain;
      question.require(later - step - 1);
      if (Point point = findPoint(question.get())) {
        return point;
      }
    }
  }
  return std::nullopt;
}

StepDecider::Point StepDecider::findNotKept(const StepSchedule &readerOf,
                                            const StepSchedule &sourceOf, const StepRead &read,
                                            int64_t ring) {
  bool isShared = ring > 0 && read.crossing == StepCrossing::None;
  StepSchedule reader = isShared ? atLatest(readerOf) : readerOf;
  StepSchedule source = isShared ? atLatest(sourceOf) : sourceOf;
  for (AffineExpr step : reader.due) {
    StepQuestion question = readsAt(reader, step, read);
    AffineExpr most = ring > 0 ? step : step - 1;
    question.requireAtMost(source.due, read.position + ring, most);
    if (Point point = findPoint(question.get())) {
      return point;
    }
  }
  return std::nullopt;
}

StepDecider::Point StepDecider::findFailure(const StepPlan &plan,
                                            const StepObligation &obligation) {
  const StepValue *value = obligation.value ? &plan.values.find(obligation.value)->second : nullptr;
  StepSchedule every = everyStep(func::FuncOp(plan.function).getContext());
  bool isEvery = !value || (obligation.read && obligation.read->crossing == StepCrossing::Count);
  const StepSchedule &schedule = isEvery ? every : plan.schedules[value->schedule];
  if (obligation.kind == StepObligationKind::Exist) {
    return findNotExisting(schedule, value->factor);
  }
  if (obligation.kind == StepObligationKind::Burst) {
    return findBurst(schedule, schedule.burst);
  }
  if (obligation.kind == StepObligationKind::Count) {
    return findMiscount(schedule);
  }
  const StepValue &source = plan.values.find(obligation.read->source)->second;
  if (obligation.kind == StepObligationKind::Due) {
    return source.isGiven ? std::nullopt
                          : findNotDue(schedule, plan.schedules[source.schedule], *obligation.read);
  }
  if (source.keepsAll || source.isGiven) { // no row is lost before the context ends
    return source.ring == source.capacity ? std::nullopt : Point(std::pair(0, 0));
  }
  return findNotKept(schedule, plan.schedules[source.schedule], *obligation.read, source.ring);
}

std::vector<StepObligation> sluice::collectObligations(const StepPlan &plan) {
  std::vector<StepObligation> obligations;
  auto addReads = [&](Value value, ArrayRef<StepRead> reads) {
    for (const StepRead &read : reads) {
      if (read.crossing != StepCrossing::Ends) {
        obligations.push_back({StepObligationKind::Due, value, &read});
        obligations.push_back({StepObligationKind::Kept, value, &read});
      }
    }
  };
  for (const auto &[value, step] : plan.values) {
    if (step.isGiven) {
      continue;
    }
    for (StepObligationKind kind :
         {StepObligationKind::Exist, StepObligationKind::Burst, StepObligationKind::Count}) {
      if (kind != StepObligationKind::Exist || !plan.schedules[step.schedule].cut) {
        obligations.push_back({kind, value, nullptr});
      }
    }
    addReads(value, step.reads);
  }
  addReads({}, plan.finals);
  return obligations;
}
