// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Converts bounds through ends to numbers of closed segments. For rows of segments of segments this
// is sound because e1(x) >= x: row e2(k) of the scale that is cut exists once segment k is closed.
#include "StepSegments.h"
#include "sluice/Proof/Frontier.h"
#include "sluice/Proof/QuasiAffine.h"
#include "sluice/Proof/SegmentBounds.h"
#include "sluice/Proof/StepPlan.h"
#include "sluice/Step/DeriveStep.h"

using namespace mlir;
using namespace sluice;

static bool isNowhereAbove(AffineExpr low, AffineExpr high) {
  AffineExpr difference = simplifyAffineExpr(low - high, 1, 0);
  return isNeverPositive(difference, /*wantFirst=*/false).kind == SignAnswer::Always;
}

/// Returns true if some candidate is nowhere below `low`.
static bool isCovered(AffineExpr low, ArrayRef<AffineExpr> candidates) {
  return llvm::any_of(candidates, [&](AffineExpr high) { return isNowhereAbove(low, high); });
}

/// Returns true if every row is due no later than in `other`.
static bool isNoLater(const StepSchedule &schedule, const StepSchedule &other) {
  return schedule.cut == other.cut &&
         llvm::all_of(schedule.due, [&](AffineExpr due) { return isCovered(due, other.due); });
}

static bool isSame(const StepSchedule &schedule, const StepSchedule &other) {
  return isNoLater(schedule, other) && isNoLater(other, schedule);
}

SegmentOp SegmentClocks::findSegmentOp(Value value) const {
  auto makes = [&](SegmentOp cut) { // segments of a given axis have no clock
    return scales.isOnTargetAxis(value) &&
           scales.findSequenceAxis(cut.getEnds()) == scales.findSequenceAxis(value);
  };
  const auto *found = llvm::find_if(cuts, makes);
  return found == cuts.end() ? SegmentOp() : *found;
}

std::optional<Frontier> SegmentClocks::inSegments(Value value, SegmentOp cut) const {
  const Frontier &bound = frontiers.at(value);
  AffineExpr d0 = getAffineDimExpr(0, value.getContext());
  SegmentOp root = cut;
  for (SegmentOp outer = cut; outer; outer = findSegmentOp(outer.getBits())) {
    root = outer;
  }
  Frontier result;
  if (!bound.candidates.empty()) {
    return std::nullopt;
  }
  for (const EndBound &end : bound.ends) {
    SegmentOp at = cut; // each cut segments the rows of the next one
    for (SegmentOp of : llvm::reverse(end.cuts)) {
      for (; at && at != of;) {
        at = findSegmentOp(at.getBits());
      }
    }
    auto between = ArrayRef(end.maps).drop_front().drop_back();
    if (!at || end.cuts.back() != cut ||
        !llvm::all_of(between, [&](AffineExpr map) { return isNowhereAbove(map, d0); }) ||
        !isCovered(end.maps.front(), frontiers.at(root.getCounts()).candidates)) {
      return std::nullopt;
    }
    AffineExpr due = simplifyAffineExpr(end.maps.back() + 1, 1, 0);
    if (!llvm::is_contained(result.candidates, due)) {
      result.candidates.push_back(due);
    }
  }
  if (bound.ends.empty()) {
    result.candidates.push_back(d0);
  }
  return result;
}

std::string SegmentClocks::cross(Operation &op, Value value, ArrayRef<SegmentTerm> terms,
                                 StepRead &read) const {
  if (!scales.isOnTargetAxis(value)) { // given values have no steps
    return "";
  }
  SegmentOp reader = findSegmentOp(value), source = findSegmentOp(read.source);
  if (terms.empty()) {
    return reader == source ? ""
                            : "it reads rows of another scale, and no count or end selects them";
  }
  AffineExpr p = getAffineDimExpr(0, op.getContext()), x = getAffineDimExpr(1, op.getContext());
  bool isCount = terms.front().kind == SegmentTerm::Count;
  SegmentOp cut = isCount ? source : reader; // the cut whose segments the values have rows for
  for (const SegmentTerm &term : terms) {
    std::optional<CutTerm> found = resolveTerm(term);
    if (!found || !cut || found->cut != cut || (term.kind == SegmentTerm::Count) != isCount ||
        (isCount && found->at != p) ||
        findSegmentOp(cut.getBits()) != (isCount ? reader : source)) {
      return "it reads segments by ends or counts that are not one segmentation's, or of another "
             "scale than that cuts";
    }
  }
  if (!isCount) {
    read.crossing = StepCrossing::Ends;
    return read.position == x ? "" : "it reads rows of a segment through a shift; store them first";
  }
  read.crossing = StepCrossing::Count;
  bool mentionsRow = llvm::any_of(read.relation.getConstraints(),
                                  [](AffineExpr expr) { return expr.isFunctionOfDim(0); });
  AffineExpr n = getAffineSymbolExpr(0, op.getContext());
  read.relation = read.relation.replaceDimsAndSymbols({p, x}, {n, p}, 2, 1);
  return terms.size() == 1 && !mentionsRow
             ? ""
             : "the segments that it reads depend on its own position too";
}

bool SegmentClocks::isSelection(const StepPlan &plan, const StepRead &read,
                                const StepSchedule &reader) const {
  MLIRContext *context = read.relation.getContext();
  AffineExpr x = getAffineDimExpr(1, context), end = getAffineSymbolExpr(1, context);
  bool isEnd = read.relation.getNumConstraints() == 1 && read.relation.isEq(0) &&
               simplifyAffineExpr(read.relation.getConstraint(0) - (x - end), 2, 2) ==
                   getAffineConstantExpr(0, context);
  return isEnd && reader.due == ArrayRef(getAffineDimExpr(0, context) + 1) &&
         plan.values.contains(SegmentOp(reader.cut).getCounts()) &&
         isSame(plan.findSchedule(read.source),
                plan.findSchedule(SegmentOp(reader.cut).getCounts()));
}

/// Checks that bits are known at the step of their token, or when the segment that they belong to
/// is closed; on a scale of groups, that a step computes at most one row.
std::string SegmentClocks::findFault(const StepPlan &plan, const StepValue &value) const {
  const StepSchedule &schedule = plan.schedules[value.schedule];
  auto cut = value.value.getDefiningOp<SegmentOp>();
  AffineExpr d0 = getAffineDimExpr(0, value.value.getContext());
  if (schedule.cut && !plan.values.contains(SegmentOp(schedule.cut).getCounts())) {
    return "no value counts the segments that its rows wait for";
  }
  if (cut && value.value == cut.getCounts()) {
    bool isOfRow = schedule.cut        ? schedule.due == ArrayRef(d0 + 1)
                   : value.factor == 1 ? schedule.due == ArrayRef(d0)
                                       : schedule.burst == 1;
    return isOfRow && schedule.cut == findSegmentOp(cut.getBits())
               ? ""
               : "its bits are not known at the step of their token";
  }
  return "";
}

/// Checks that rows selected by counts exist when they are counted, and that rows between ends
/// exist before their segment is closed.
std::string SegmentClocks::findFault(const StepPlan &plan, const StepValue &value,
                                     const StepRead &read) const {
  const StepSchedule &reader = plan.schedules[value.schedule];
  if (read.crossing == StepCrossing::Count) {
    SegmentOp cut = findSegmentOp(read.source);
    bool isCounted =
        plan.values.contains(cut.getCounts()) && isSame(reader, plan.findSchedule(cut.getCounts()));
    return isCounted ? "" : "its row does not count the closed segments";
  }
  if (read.crossing != StepCrossing::Ends) {
    return "";
  }
  auto flow = cast<CausalFlowInterface>(read.reader);
  unsigned result = cast<OpResult>(value.value).getResultNumber();
  bool isThere = isNoLater(plan.findSchedule(read.source),
                           plan.findSchedule(SegmentOp(reader.cut).getCounts()));
  for (const SegmentTerm &term : flow.getReads(result, read.operand).terms) {
    isThere &= isCovered(term.at + 1, reader.due);
  }
  return isThere ? "" : "its rows are read before they exist, or before their segment is closed";
}

bool SegmentClocks::check(const StepPlan &plan, StepRefusal &refusal) const {
  for (const auto &[value, step] : plan.values) {
    if (step.isGiven) {
      continue;
    }
    std::string why = findFault(plan, step);
    for (const StepRead &read : step.reads) {
      why = why.empty() ? findFault(plan, step, read) : why;
    }
    if (!why.empty()) {
      refusal = {value.getDefiningOp(), why};
      return false;
    }
  }
  return true;
}
