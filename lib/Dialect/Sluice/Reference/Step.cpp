// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
// Evaluates a model token after token, with rings between steps.
#include "sluice/Dialect/Sluice/StepReference.h"
#include <limits>

using namespace mlir;
using namespace sluice;
using namespace sluice::reference;

StepRunner::StepRunner(func::FuncOp step)
    : function(step), evaluator(step->getParentOfType<ModuleOp>(), RuntimeValues{}) {
  for (auto due : step.getOps<DueOp>()) {
    auto schedule = SymbolTable::lookupNearestSymbolFrom<ScheduleOp>(step, due.getScheduleAttr());
    schedules[due.getValue()] = schedule;
    // Unused results are computed with the others.
    if (Operation *op = due.getValue().getDefiningOp()) {
      for (Value result : op->getResults()) {
        schedules.try_emplace(result, schedule);
      }
    }
  }
  for (auto cut : step.getOps<SegmentOp>()) {
    auto scale =
        SymbolTable::lookupNearestSymbolFrom<ScaleOp>(step, cut.getEnds().getType().getScale());
    cuts[scale.getAxisAttr()] = cut;
  }
  reset();
}

void StepRunner::setGiven(BlockArgument argument, std::vector<int32_t> data, int64_t count) {
  auto type = cast<SequenceType>(argument.getType());
  auto scale = SymbolTable::lookupNearestSymbolFrom<ScaleOp>(function, type.getScale());
  evaluator.setTokens(argument, std::move(data));
  evaluator.setCounts(scale.getAxis(), {count});
}

bool StepRunner::isGiven(Value value) const {
  auto type = dyn_cast<SequenceType>(value.getType());
  return type && sluice::isGiven(function, type);
}

/// Returns true if the op computes given rows and this is not the first step, which computes all of
/// them.
bool StepRunner::passGiven(Operation *op) {
  if (before == 0 || op->getNumResults() == 0 || !isGiven(op->getResult(0))) {
    return false;
  }
  for (Value result : op->getResults()) {
    evaluator.define(result, [](int64_t, int64_t) { return std::vector<double>(); });
  }
  return true;
}

void StepRunner::reset() {
  closed.clear();
  tokens.clear();
  before = 0;
  mistake.clear();
  rings.clear();
  for (auto state : function->getParentOfType<ModuleOp>().getOps<StateOp>()) {
    auto rows = static_cast<int64_t>(state.getRing());
    rings[state.getSymName()] = {rows, std::vector<int64_t>(rows, -1),
                                 std::vector<std::vector<double>>(rows)};
  }
}

/// Uses the newest row of counts, which this step may not compute.
int64_t StepRunner::closedNow(SegmentOp cut) const {
  auto [first, end] = getRowRange(cut.getCounts());
  return first == end ? closed.lookup(cut)
                      : static_cast<int64_t>(evaluator.at(cut.getCounts(), 0, end - 1, 0));
}

std::pair<int64_t, int64_t> StepRunner::getRowRange(Value value) const {
  auto found = schedules.find(value);
  if (isGiven(value)) { // all at once, before the first token
    return {0,
            before == 0 ? sluice::getPositions(function, cast<SequenceType>(value.getType())) : 0};
  }
  if (found == schedules.end()) { // on the scale of one position
    return {0, 1};
  }
  ScheduleOp schedule = found->second;
  if (schedule.getSegmentsAttr()) {
    SegmentOp cut = cuts.lookup(schedule.getSegmentsAttr());
    int64_t first = before == 0 ? 0 : getRowCount(schedule, closed.lookup(cut));
    return {first, getRowCount(schedule, closedNow(cut))};
  }
  return {getRowCount(schedule, before - 1), getRowCount(schedule, getLength() - 1)};
}

void StepRunner::note(Value value, int64_t row, const std::string &what) {
  if (mistake.empty()) {
    llvm::raw_string_ostream stream(mistake);
    stream << "step " << getLength() - 1 << " reads row " << row << " of " << value.getLoc()
           << ", which " << what;
  }
}

/// Users of the result access the ring, or, in a prefill that has not written it, the rows
/// themselves.
void StepRunner::keep(KeepOp op, bool isPrefill) {
  if (isPrefill) {
    evaluator.defineLazy(op.getResult(),
                         [this, op](int64_t b, int64_t row, int64_t column, double null) {
                           return evaluator.at(KeepOp(op).getValue(), b, row, column, null);
                         });
    return;
  }
  if (before == 0 || !isGiven(op.getValue())) {
    store(op);
  }
  const Ring &ring = rings.find(op.getState())->second;
  evaluator.defineLazy(op.getResult(),
                       [this, op, &ring](int64_t, int64_t row, int64_t column, double null) {
                         if (row < 0) {
                           return null;
                         }
                         auto slot = static_cast<size_t>(row % ring.rows);
                         if (ring.rowOf[slot] != row) {
                           note(KeepOp(op).getValue(), row,
                                ring.rowOf[slot] < row ? "is not due yet" : "was overwritten");
                           return std::numeric_limits<double>::quiet_NaN();
                         }
                         return ring.data[slot][static_cast<size_t>(column)];
                       });
}

void StepRunner::store(KeepOp op) {
  Ring &ring = rings.find(op.getState())->second;
  auto [first, end] = getRowRange(op.getValue());
  for (int64_t row = std::max(first, end - ring.rows); row < end; ++row) {
    auto slot = static_cast<size_t>(row % ring.rows);
    ring.rowOf[slot] = row;
    ring.data[slot] = evaluator.rowAt(op.getValue(), 0, row);
  }
}

std::vector<double> StepRunner::run(bool isPrefill) {
  evaluator.setTokens(function.getArgument(0), tokens);
  evaluator.setStep(getLength(), {[this](Value value) { return getRowRange(value); },
                                  [this](Value value, int64_t row) {
                                    note(value, row, "is none of the rows that this step computes");
                                  }});
  Block &body = function.getBody().front();
  for (Operation &op : body.without_terminator()) {
    if (auto kept = dyn_cast<KeepOp>(op)) {
      keep(kept, isPrefill);
    } else if (!isa<DueOp>(op) && !(hasParameters && isa<ReadOp>(op)) && !passGiven(&op) &&
               failed(evaluator.evaluate(&op))) {
      llvm::report_fatal_error("the reference cannot evaluate the step");
    }
  }
  for (auto kept : function.getOps<KeepOp>()) {
    if (isPrefill) {
      store(kept);
    }
  }
  llvm::DenseMap<Operation *, int64_t> now; // of all states, before any changes
  for (auto [axis, cut] : cuts) {
    now[cut] = closedNow(cut);
  }
  closed = std::move(now);
  hasParameters = true;
  return evaluator.getSequence(body.getTerminator()->getOperand(0));
}

std::vector<double> StepRunner::prefill(ArrayRef<int32_t> prompt) {
  reset();
  tokens.assign(prompt.begin(), prompt.end());
  return run(/*isPrefill=*/true);
}

std::vector<double> StepRunner::step(int32_t token) {
  before = getLength();
  tokens.push_back(token);
  return run(/*isPrefill=*/false);
}

std::vector<Value> StepRunner::getValues() const {
  std::vector<Value> values;
  for (auto due : func::FuncOp(function).getOps<DueOp>()) {
    values.push_back(due.getValue());
  }
  return values;
}

std::pair<int64_t, std::vector<double>> StepRunner::getRows(Value value) const {
  auto [first, end] = getRowRange(value);
  std::vector<double> data;
  for (int64_t row = first; row < end; ++row) {
    std::vector<double> numbers = evaluator.rowAt(value, 0, row);
    data.insert(data.end(), numbers.begin(), numbers.end());
  }
  return {first, data};
}
