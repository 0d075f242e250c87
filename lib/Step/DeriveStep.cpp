// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Derives the step: schedules from the proof's bounds, reads composed through lazy values, and the
// smallest rings that keep every read. StepProof.cpp decides each claim again.
#include "sluice/Step/DeriveStep.h"
#include "StepSegments.h"
#include "sluice/Proof/Frontier.h"
#include "sluice/Proof/Losses.h"
#include "sluice/Proof/Scales.h"
#include "sluice/Proof/StepPlan.h"
#include "sluice/Proof/StepProof.h"
#include "sluice/Step/StepSchedule.h"
#include "sluice/Support/WorkBudget.h"
#include "llvm/Support/MathExtras.h"
#include <map>
#include <numeric>

using namespace mlir;
using namespace sluice;

//===----------------------------------------------------------------------===//
// Deriving
//===----------------------------------------------------------------------===//

/// Operations charged for each value that a read passes: the stored value, and every lazy value
/// before it.
static constexpr int64_t costOfRead = 50;

namespace {
class Deriver {
public:
  Deriver(func::FuncOp function, StepRefusal &refusal)
      : function(function), refusal(refusal), scales(function),
        frontiers(computeFrontiers(function)), clocks(function, scales, frontiers),
        every(everyStep(function.getContext())), context(sluice::getContext(function)) {
    plan.function = function;
  }
  std::optional<StepPlan> derive();

private:
  bool refuse(Operation *op, const std::string &message) {
    refusal = {op, message};
    return false;
  }
  bool runsEveryStep(Operation &op) const;
  bool collect();
  bool addReads(Operation &op, unsigned result, SmallVectorImpl<StepRead> &reads);
  bool checkSegments();
  bool follow(Operation *reader, StepRead &read, Value operand);
  bool addValue(Value value);
  bool findBurst(StepSchedule &schedule);
  std::optional<StepPlan> deriveWithin();
  void findRings(MutableArrayRef<StepRead> reads, const StepSchedule &reader);
  int64_t getRingSize(const StepRead &read, const StepSchedule &reader, const StepValue &source);

  func::FuncOp function;
  StepRefusal &refusal;
  Scales scales;
  DenseMap<Value, Frontier> frontiers;
  SegmentClocks clocks;
  StepSchedule every;
  int64_t context; ///< maximum number of tokens per row
  StepPlan plan;
  StepDecider decider;

  DenseSet<Value> live;
  std::map<std::vector<const void *>, size_t> scheduleIndices;
  struct Known {
    int64_t ring = 0;
    bool keepsAll = false, isOfStep = false;
  };
  std::map<std::vector<const void *>, Known> rings; ///< by the dependences of a ring
};
} // namespace

/// Returns true for the loss whose prediction is sampled, and for an op on the scale of one
/// position.
bool Deriver::runsEveryStep(Operation &op) const {
  return (isa<CrossEntropyOp>(op) && getMainLoss(function) == &op) ||
         (op.getNumResults() > 0 && isa<SequenceType>(op.getResult(0).getType()) &&
          scales.getScaleFactor(op.getResult(0)) == 0);
}

/// Follows a read from an operand to the stored values. A lazy value is a function of one position
/// of its operand.
bool Deriver::follow(Operation *reader, StepRead &read, Value operand) {
  for (;; operand = operand.getDefiningOp()->getOperand(0)) {
    Operation *op = operand.getDefiningOp();
    if (!spendWork(costOfRead)) {
      return false;
    }
    if (!isLazy(op)) {
      read.source = operand;
      return true;
    }
    auto flow = cast<CausalFlowInterface>(op);
    std::optional<IntegerSet> relation = flow.getRelation(0);
    AffineExpr position = flow.getLatest(0), q = getAffineDimExpr(1, function.getContext());
    bool isFunction = relation && position && op->getNumOperands() == 1 &&
                      relation->getNumConstraints() == 1 && relation->isEq(0) &&
                      simplifyAffineExpr(relation->getConstraint(0) - (q - position), 2, 1) ==
                          getAffineConstantExpr(0, function.getContext());
    if (!isFunction) {
      return refuse(op, "it is read through and reads more than one position; store its result");
    }
    read.position = simplifyAffineExpr(position.replaceDims({read.position}), 2, 1);
  }
}

bool Deriver::addReads(Operation &op, unsigned result, SmallVectorImpl<StepRead> &reads) {
  MLIRContext *context = function.getContext();
  AffineExpr p = getAffineDimExpr(0, context), x = getAffineDimExpr(1, context);
  bool isFinal = runsEveryStep(op) && !isa<CrossEntropyOp>(op);
  auto flow = dyn_cast<CausalFlowInterface>(op);
  if (!flow) {
    return refuse(&op, "the positions that it reads are unknown");
  }
  for (OpOperand &operand : op.getOpOperands()) {
    Value value = operand.get();
    PositionReads all;
    if (isa<SequenceType>(value.getType())) {
      all = flow.getReads(result, operand.getOperandNumber());
    }
    std::optional<IntegerSet> relation = all.relation;
    int64_t factor = relation ? scales.getScaleFactor(value) : 0;
    if (!relation || factor == 0) { // a read within the step of the op
      continue;
    }
    if (flow.countCarried() > 0) { // all earlier rows are read through the row before
      relation = IntegerSet::get(2, 1, {x - p}, {true});
    }
    StepRead read;
    read.reader = &op;
    read.operand = operand.getOperandNumber();
    read.position = x;
    read.operandFactor = factor;
    read.endsLazy = !isFinal && endsLazySource(*relation, value, scales);
    read.relation = *relation;
    if (isFinal) { // a read of the only position, at the length of step p
      AffineExpr zero = getAffineConstantExpr(0, context);
      read.relation = relation->replaceDimsAndSymbols({zero, x}, {p.floorDiv(factor) + 1}, 2, 1);
    }
    if (!follow(&op, read, value)) {
      return false;
    }
    if (std::string why = clocks.cross(op, op.getResult(result), all.terms, read); !why.empty()) {
      return refuse(&op, why);
    }
    reads.push_back(read);
  }
  for (unsigned i = 0; i < flow.countCarried(); ++i) {
    StepRead read;
    read.reader = &op;
    read.operand = op.getNumOperands() + i;
    read.source = op.getResult(i);
    read.relation = IntegerSet::get(2, 1, {x - p + 1}, {true});
    read.position = x;
    read.operandFactor = scales.getScaleFactor(read.source);
    reads.push_back(read);
  }
  return true;
}

/// Collects the inputs of the prediction, through lazy values, in order of definition.
bool Deriver::collect() {
  for (Operation &op : llvm::reverse(function.getBody().front().without_terminator())) {
    bool isFinal = runsEveryStep(op) && (isa<CrossEntropyOp>(op) || !op.use_empty());
    bool isLive = llvm::any_of(op.getResults(), [&](Value v) { return live.contains(v); });
    if (!isFinal && (!isLive || isLazy(&op) || !isa<CausalFlowInterface>(op))) {
      continue;
    }
    if (auto cut = dyn_cast<SegmentOp>(op); cut && isGiven(&op, cut.getBits().getType())) {
      live.insert(cut.getCounts()); // the number of keys, whatever reads it
    }
    SmallVector<StepRead> reads;
    for (unsigned result = 0; result < op.getNumResults(); ++result) {
      reads.clear();
      if (!addReads(op, result, reads)) {
        return false;
      }
      for (const StepRead &read : reads) {
        live.insert(read.source);
      }
    }
    if (isFinal) {
      plan.finals.insert(plan.finals.begin(), reads.begin(), reads.end());
    }
  }
  return true;
}

/// Returns false if no number of rows is proved sufficient.
bool Deriver::findBurst(StepSchedule &schedule) {
  constexpr int64_t largest = int64_t{1} << 40;
  int64_t most = 1, least = 0;
  for (; decider.findBurst(schedule, most); most *= 2) {
    if (most == largest || isWorkExhausted()) {
      return false;
    }
    least = most;
  }
  while (most - least > 1) {
    int64_t middle = least + (most - least) / 2;
    (decider.findBurst(schedule, middle) ? least : most) = middle;
  }
  schedule.burst = most;
  return true;
}

bool Deriver::addValue(Value value) {
  Operation *op = value.getDefiningOp() ? value.getDefiningOp() : function.getOperation();
  if (isGiven(function, cast<SequenceType>(value.getType()))) {
    StepValue &given = plan.values[value];
    given.value = value;
    given.capacity = getPositions(function, cast<SequenceType>(value.getType()));
    given.isGiven = true;
    return true;
  }
  Frontier bound = frontiers.at(value);
  if (bound.unbounded) {
    return refuse(bound.unbounded, "no bound was found for the positions that it reads, so that no "
                                   "step could compute it; let it read earlier positions alone");
  }
  SegmentOp cut;
  if (scales.isOnTargetAxis(value) && scales.isSegmented(value)) {
    cut = clocks.findSegmentOp(value);
    std::optional<Frontier> segments = cut ? clocks.inSegments(value, cut) : std::nullopt;
    if (!segments) {
      return refuse(op, "its rows wait for something other than the end of a segment of their own");
    }
    bound = *segments;
  }
  if (!scales.isOnTargetAxis(value) || bound.candidates.empty()) {
    return refuse(op, "it is on another axis than the predicted tokens, and has no capacity, so "
                      "that it is not given before the first token");
  }
  std::vector<const void *> key = {cut.getAsOpaquePointer()};
  for (AffineExpr candidate : bound.candidates) {
    key.push_back(candidate.getAsOpaquePointer());
  }
  auto [entry, isNew] = scheduleIndices.try_emplace(key, plan.schedules.size());
  if (isNew) {
    std::optional<StepSchedule> schedule = findSchedule(bound);
    if (!schedule) {
      scheduleIndices.erase(entry);
      return refuse(op, "the steps that compute its rows could not be counted; make its mask and "
                        "the masks before it simpler");
    }
    schedule->cut = cut;
    if (!findBurst(*schedule)) {
      scheduleIndices.erase(entry);
      return refuse(op, "the number of its rows per step could not be decided; make its mask and "
                        "the masks before it simpler");
    }
    plan.schedules.push_back(*schedule);
  }
  StepValue step;
  step.value = value;
  step.schedule = entry->second;
  step.factor = scales.getScaleFactor(value);
  step.capacity = cut ? getPositions(function, cast<SequenceType>(value.getType()))
                      : llvm::divideCeil(context, step.factor);
  if (value.getDefiningOp()) {
    SmallVector<StepRead> reads;
    if (!addReads(*op, cast<OpResult>(value).getResultNumber(), reads)) {
      return false;
    }
    step.reads.assign(reads.begin(), reads.end());
  }
  plan.values[value] = std::move(step);
  return true;
}

/// Returns the smallest ring that keeps the read at every length; -1 if it exceeds the capacity.
int64_t Deriver::getRingSize(const StepRead &read, const StepSchedule &reader,
                             const StepValue &source) {
  const StepSchedule &schedule = plan.schedules[source.schedule];
  auto loses = [&](int64_t ring) {
    return decider.findNotKept(reader, schedule, read, ring).has_value();
  };
  int64_t most = 1, least = 0;
  for (; most < source.capacity && loses(most); most *= 2) {
    least = most;
  }
  most = std::min(most, source.capacity);
  if (most == source.capacity && loses(most)) {
    return -1;
  }
  while (most - least > 1) {
    int64_t middle = least + (most - least) / 2;
    (loses(middle) ? least : most) = middle;
  }
  return most;
}

/// Widens the rings of values that are read. Decides equal reads once.
void Deriver::findRings(MutableArrayRef<StepRead> reads, const StepSchedule &own) {
  for (StepRead &read : reads) {
    StepValue &source = plan.values.find(read.source)->second;
    if (source.isGiven) { // any read needs all rows
      source.keepsAll = true;
      source.ring = source.capacity;
      continue;
    }
    if (read.crossing == StepCrossing::Ends) { // the last boundary can be arbitrarily far back
      read.isOfStep = clocks.isSelection(plan, read, own);
      source.keepsAll |= !read.isOfStep;
      source.ring = read.isOfStep ? source.ring : source.capacity;
      continue;
    }
    bool isCount = read.crossing == StepCrossing::Count;
    const StepSchedule &reader = isCount ? every : own;
    std::vector<const void *> key = {read.relation.getAsOpaquePointer(),
                                     read.position.getAsOpaquePointer(),
                                     &plan.schedules[source.schedule], isCount ? &read : nullptr};
    for (AffineExpr due : reader.due) {
      key.push_back(due.getAsOpaquePointer());
    }
    key.push_back(reinterpret_cast<const void *>(source.capacity));
    auto [entry, isNew] = rings.try_emplace(key);
    if (isNew) {
      const StepSchedule &schedule = plan.schedules[source.schedule];
      int64_t ring = getRingSize(read, reader, source);
      entry->second = {ring < 0 ? source.capacity : ring, ring < 0,
                       !isCount && !decider.findNotKept(reader, schedule, read, 0)};
    }
    source.ring = std::max(source.ring, entry->second.ring);
    source.keepsAll |= entry->second.keepsAll;
    read.isOfStep = entry->second.isOfStep;
  }
}

/// Counts conditions that are undecided when the budget is exhausted as false, which rejects the
/// plan.
std::optional<StepPlan> Deriver::derive() {
  std::optional<StepPlan> result = deriveWithin();
  if (!isWorkExhausted()) {
    return result;
  }
  refusal = {refusal.op ? refusal.op : function.getOperation(),
             "not proved: the budget of " +
                 WorkBudget::describe(WorkBudget::getCurrent()->getLimit()) + " ran out when " +
                 std::to_string(plan.values.size()) + " of " + std::to_string(live.size()) +
                 " values had a schedule; give factors and shifts common divisors and masks small "
                 "constants"};
  return std::nullopt;
}

std::optional<StepPlan> Deriver::deriveWithin() {
  if (!collect()) {
    return std::nullopt;
  }
  auto add = [&](Value value) { return !live.contains(value) || addValue(value); };
  for (BlockArgument argument : function.getArguments()) {
    if (!add(argument)) {
      return std::nullopt;
    }
  }
  for (Operation &op : function.getBody().front()) {
    for (Value value : op.getResults()) {
      if (!add(value)) {
        return std::nullopt;
      }
    }
  }
  for (auto &[value, step] : plan.values) {
    findRings(step.reads, plan.schedules[step.schedule]);
  }
  findRings(plan.finals, every);
  // No row outlives the step if every read is of rows of its own step.
  DenseSet<Value> outlives;
  auto note = [&](ArrayRef<StepRead> reads) {
    for (const StepRead &read : reads) {
      if (!read.isOfStep) {
        outlives.insert(read.source);
      }
    }
  };
  for (const auto &[value, step] : plan.values) {
    note(step.reads);
  }
  note(plan.finals);
  for (auto &[value, step] : plan.values) {
    if (!outlives.contains(value)) {
      step.ring = 0;
      step.keepsAll = false;
    } else { // rows of one step are written together: each needs its own slot, and a carried row
             // too
      auto flow = value.getDefiningOp<CausalFlowInterface>();
      int64_t least = plan.schedules[step.schedule].burst + (flow && flow.countCarried() > 0);
      step.ring = std::max(step.ring, std::min(least, step.capacity));
      step.keepsAll |= least > step.capacity;
    }
  }
  return checkSegments() ? std::optional(plan) : std::nullopt;
}

/// Checks that the clocks of segments relate to the tokens, and decides all other claims of the
/// plan, before any code is generated.
bool Deriver::checkSegments() {
  if (func::FuncOp(function).getOps<SegmentOp>().empty()) {
    return true;
  }
  if (!clocks.check(plan, refusal)) {
    return false;
  }
  for (const StepObligation &obligation : collectObligations(plan)) {
    if (decider.findFailure(plan, obligation)) {
      Operation *op = obligation.value ? obligation.value.getDefiningOp() : nullptr;
      return refuse(op ? op : function.getOperation(),
                    "a row would be read before its segment is closed, or after it is dropped");
    }
  }
  return true;
}

std::optional<StepPlan> sluice::proveStep(func::FuncOp function, StepRefusal &refusal) {
  if (!WorkBudget::getCurrent()) {
    WorkBudget budget;
    WorkScope scope(budget);
    return proveStep(function, refusal);
  }
  return Deriver(function, refusal).derive();
}

std::optional<StepPlan> sluice::deriveStep(func::FuncOp function, StepRefusal &refusal,
                                           int64_t operations) {
  dispatch::RandomOp drawn;
  function.walk([&](dispatch::RandomOp op) { drawn = op; });
  if (drawn) {
    refusal = {
        drawn->getParentOfType<MapOp>(),
        "its random numbers depend on a token's position in the batch, which a step does not keep"};
    return std::nullopt;
  }
  WorkBudget budget(operations);
  WorkScope scope(budget);
  std::optional<StepPlan> plan = proveStep(function, refusal);
  if (!plan) {
    return std::nullopt;
  }
  Scales scales(function);
  for (auto attention : function.getOps<AttendSegmentsOp>()) {
    if (scales.isSegmented(attention.getKey()) || scales.getScaleFactor(attention.getKey()) != 1) {
      refusal = {attention, "segments attend to rows that are not rows of tokens; steps exist for "
                            "segments of tokens alone"};
      return std::nullopt;
    }
  }
  for (const auto &[value, step] : plan->values) {
    auto flow = value.getDefiningOp<CausalFlowInterface>();
    if (flow && !flow.getBurstRefusal().empty() && plan->schedules[step.schedule].burst > 1) {
      refusal = {flow, flow.getBurstRefusal().str()};
      return std::nullopt;
    }
  }
  return plan;
}
