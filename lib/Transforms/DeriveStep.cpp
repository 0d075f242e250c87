// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Derives the decode step in model IR: @predict over the due rows, with states between steps.
#include "sluice/Step/DeriveStep.h"
#include "sluice/Dialect/Sluice/Origin.h"
#include "sluice/Dialect/Sluice/Rejection.h"
#include "sluice/Dialect/Sluice/Step.h"
#include "sluice/Proof/StepPlan.h"
#include "sluice/Transforms/Levels.h"
#include "sluice/Transforms/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/StringSet.h"

namespace sluice {
#define GEN_PASS_DEF_DERIVESTEP
#include "sluice/Transforms/Passes.h.inc"
} // namespace sluice

using namespace mlir;
using namespace sluice;

namespace {

/// Writes the @step of a plan.
class StepWriter {
public:
  StepWriter(const StepPlan &plan, func::FuncOp predict)
      : plan(plan), predict(predict), b(predict.getContext()) {}
  void write();

private:
  void addSchedules();
  void addRows(Value value);
  void addOp(Operation &op);
  Value through(Value operand, bool isOfStep);
  std::string nameState(Value value);
  bool isComputed(Operation &op) const;
  void addReads(ArrayRef<StepRead> reads);

  const StepPlan &plan;
  func::FuncOp predict;
  OpBuilder b;
  OpBuilder symbols{predict.getContext()};
  SmallVector<ScheduleOp> schedules;
  llvm::StringSet<> names;
  IRMapping computed; ///< maps a value of @predict to its rows of this step
  IRMapping kept;     ///< maps a value of @predict to the rows in its state
  DenseMap<std::pair<Value, unsigned>, Value> lazies;
  DenseMap<std::pair<Operation *, unsigned>, const StepRead *> reads;
};

} // namespace

void StepWriter::addReads(ArrayRef<StepRead> list) {
  for (const StepRead &read : list) {
    reads[{read.reader, read.operand}] = &read;
  }
}

void StepWriter::addSchedules() {
  MLIRContext *context = predict.getContext();
  for (const StepSchedule &schedule : plan.schedules) {
    FlatSymbolRefAttr segments;
    if (SegmentOp cut = schedule.cut) {
      auto scale = SymbolTable::lookupNearestSymbolFrom<ScaleOp>(
          predict, cut.getEnds().getType().getScale());
      segments = scale.getAxisAttr();
    }
    schedules.push_back(ScheduleOp::create(
        symbols, predict.getLoc(), "schedule." + std::to_string(schedules.size()), segments,
        AffineMap::get(1, 0, schedule.counts, context), AffineMap::get(1, 0, schedule.due, context),
        schedule.first, schedule.period, schedule.rise, schedule.burst));
  }
}

/// "state.stages.0.token"; a number is appended if that is taken.
std::string StepWriter::nameState(Value value) {
  std::string stem = "state." + getOriginName(value);
  std::string name = stem;
  for (int i = 1; !names.insert(name).second; ++i) {
    name = stem + "." + std::to_string(i);
  }
  return name;
}

/// Adds the `sluice.due` and `sluice.keep` of a value.
void StepWriter::addRows(Value value) {
  const StepValue &step = plan.values.find(value)->second;
  Value rows = computed.lookup(value);
  auto loc = value.getLoc();
  if (!step.isGiven) { // given values are complete before the first token
    auto by = FlatSymbolRefAttr::get(schedules[step.schedule].getSymNameAttr());
    DueOp::create(b, loc, rows, by);
  }
  if (step.ring > 0) {
    auto state = StateOp::create(
        symbols, loc, b.getStringAttr(nameState(value)), b.getI64IntegerAttr(step.ring),
        step.keepsAll ? b.getUnitAttr() : UnitAttr(), TypeAttr::get(value.getType()));
    kept.map(value, KeepOp::create(b, loc, value.getType(), rows,
                                   FlatSymbolRefAttr::get(state.getSymNameAttr())));
  }
}

/// Returns the value that a reader uses: rows of this step or cached ones, through copies of the
/// lazy ops in between.
Value StepWriter::through(Value operand, bool isOfStep) {
  Operation *op = operand.getDefiningOp();
  if (!isLazy(op) || computed.contains(operand)) {
    return isOfStep || !kept.contains(operand) ? computed.lookupOrDefault(operand)
                                               : kept.lookup(operand);
  }
  if (Value known = lazies.lookup({operand, isOfStep ? 1 : 0})) {
    return known;
  }
  IRMapping source;
  source.map(op->getOperand(0), through(op->getOperand(0), isOfStep));
  Value result = b.clone(*op, source)->getResult(0);
  lazies[{operand, isOfStep ? 1 : 0}] = result;
  return result;
}

bool StepWriter::isComputed(Operation &op) const {
  return llvm::any_of(op.getResults(), [&](Value v) { return plan.values.contains(v); }) ||
         llvm::any_of(plan.finals, [&](const StepRead &read) { return read.reader == &op; });
}

void StepWriter::addOp(Operation &op) {
  IRMapping operands;
  for (OpOperand &operand : op.getOpOperands()) {
    Value value = operand.get();
    auto read = reads.find({&op, operand.getOperandNumber()});
    if (read == reads.end() && !computed.contains(value)) {
      b.clone(*value.getDefiningOp(), computed); // a parameter
      computed.map(value, b.getInsertionBlock()->back().getResult(0));
    }
    Value mapped =
        read == reads.end() ? computed.lookup(value) : through(value, read->second->isOfStep);
    operands.map(value, mapped);
  }
  Operation *copy = b.clone(op, operands);
  // Several operands may be the same value, but one uses its rows of this step and another cached
  // ones.
  for (OpOperand &operand : op.getOpOperands()) {
    if (auto read = reads.find({&op, operand.getOperandNumber()}); read != reads.end()) {
      copy->setOperand(operand.getOperandNumber(), through(operand.get(), read->second->isOfStep));
    }
  }
  computed.map(op.getResults(), copy->getResults());
  for (Value result : op.getResults()) {
    if (plan.values.contains(result)) {
      addRows(result);
    }
  }
}

void StepWriter::write() {
  symbols.setInsertionPoint(predict);
  addSchedules();
  b.setInsertionPointAfter(predict);
  auto step = func::FuncOp::create(b, predict.getLoc(), "step", predict.getFunctionType());
  b.setInsertionPointToStart(step.addEntryBlock());
  for (auto [from, to] : llvm::zip_equal(predict.getArguments(), step.getArguments())) {
    computed.map(from, to);
    if (plan.values.contains(from)) {
      addRows(from);
    }
  }
  for (const auto &[value, step] : plan.values) {
    addReads(step.reads);
  }
  addReads(plan.finals);
  Block &body = predict.getBody().front();
  DenseSet<Operation *> wanted;
  for (Operation &op : llvm::reverse(body)) {
    bool isWanted = isComputed(op) || op.hasTrait<OpTrait::IsTerminator>() ||
                    llvm::any_of(op.getUsers(), [&](Operation *user) {
                      return wanted.contains(user) && !isLazy(&op) && !isa<ReadOp>(op);
                    });
    if (isWanted) {
      wanted.insert(&op);
    }
  }
  for (Operation &op : body) {
    if (wanted.contains(&op)) {
      addOp(op);
    }
  }
}

/// Returns true if no contraction or attention reads a lazy value: the rows of such an op have no
/// schedule in a step.
static bool hasScheduledReads(func::FuncOp predict) {
  auto isLazyValue = [](Value value) {
    return isa_and_nonnull<ShiftOp, UpsampleOp>(value.getDefiningOp());
  };
  WalkResult result = predict.walk([&](FusionInterface op) {
    FusionRole role = op.getFusionRole();
    bool readsStored = role == FusionRole::Contraction || role == FusionRole::Alone;
    return readsStored && llvm::any_of(op->getOperands(), isLazyValue) ? WalkResult::interrupt()
                                                                       : WalkResult::advance();
  });
  return !result.wasInterrupted();
}

/// Returns true if a step can be derived from a module that need not have one.
static bool hasStep(ModuleOp module, int64_t operations) {
  auto predict = module.lookupSymbol<func::FuncOp>("predict");
  StepRefusal refusal;
  bool generates = predict && !hasFact<SluiceDialect::GroupAttrHelper>(module);
  return generates && hasScheduledReads(predict) && deriveStep(predict, refusal, operations);
}

static void eraseOthers(ModuleOp module, StringRef name) {
  for (auto function : llvm::to_vector(module.getOps<func::FuncOp>())) {
    if (function.getSymName() != name) {
      function.erase();
    }
  }
}

namespace {
struct DeriveStepPass : sluice::impl::DeriveStepBase<DeriveStepPass> {
  using DeriveStepBase::DeriveStepBase;

  void runOnOperation() override {
    if (isOptional && !hasStep(getOperation(), operations)) {
      return markAllAnalysesPreserved();
    }
    if (failed(verifyModel(getOperation())) ||
        failed(verifyLevel(getOperation(), ModuleLevel::Model))) {
      return signalPassFailure();
    }
    auto predict = getOperation().lookupSymbol<func::FuncOp>("predict");
    if (!predict || !llvm::hasSingleElement(predict.getBody())) {
      getOperation().emitError("expected a function @predict to derive the step of, found none");
      return signalPassFailure();
    }
    if (Operation *step = getOperation().lookupSymbol("step")) {
      step->emitError("expected no @step yet, found one");
      return signalPassFailure();
    }
    StepRefusal refusal;
    std::optional<StepPlan> plan = deriveStep(predict, refusal, operations);
    if (!plan) {
      emitRejection(refusal.op, "expected a model from which a step can be derived, found that " +
                                    refusal.message);
      return signalPassFailure();
    }
    StepWriter(*plan, predict).write();
    if (isOnly) {
      eraseOthers(getOperation(), "step");
    }
  }
};
} // namespace
