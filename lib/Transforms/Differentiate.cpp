// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reverse-mode differentiation of the model dialect through the differentiable interface.
#include "sluice/Dialect/Sluice/Fusion.h"
#include "sluice/Dialect/Sluice/Gradients.h"
#include "sluice/Dialect/Sluice/Labels.h"
#include "sluice/Dialect/Sluice/Sluice.h"
#include "sluice/Dialect/Sluice/ValueNames.h"
#include "sluice/Transforms/Levels.h"
#include "sluice/Transforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"

namespace sluice {
#define GEN_PASS_DEF_DIFFERENTIATE
#include "sluice/Transforms/Passes.h.inc"
} // namespace sluice

using namespace mlir;
using namespace sluice;

namespace {

/// The reverse sweep over one function.
class ReverseMode {
public:
  explicit ReverseMode(func::FuncOp func) : func(func), b(func.getBody().front().getTerminator()) {}

  LogicalResult run();

private:
  LogicalResult visit(DifferentiableInterface op);
  LogicalResult addContribution(Value value, Value contribution);
  Value add(ValueRange terms);
  Value endAtLast(Value contribution, Value operand, ArrayRef<Value> results);
  bool isTrained(Value value);
  Value getKeeper(Value value);
  void countReaders();
  void sumInOrder();
  void storeGradients();

  func::FuncOp func;
  OpBuilder b;
  DenseMap<Value, Value> gradients;
  DenseMap<Attribute, Value> keepers; ///< accumulator of the gradient, by parameter
  /// Contributions to parameters that more than two ops read, the last op's first. The sum of two
  /// does not depend on their order.
  llvm::MapVector<Value, SmallVector<Value>> contributions;
};

bool ReverseMode::isTrained(Value value) {
  auto read = value.getDefiningOp<ReadOp>();
  auto parameter =
      read ? SymbolTable::lookupNearestSymbolFrom<ParameterOp>(func, read.getParameterAttr())
           : ParameterOp();
  return parameter && !parameter.getFrozen() && !parameter.getHeld();
}

/// Returns the value that accumulates the gradient. A parameter may be read in two types; one of
/// the reads represents it.
Value ReverseMode::getKeeper(Value value) {
  auto read = value.getDefiningOp<ReadOp>();
  return read ? keepers.try_emplace(read.getParameterAttr(), value).first->second : value;
}

/// Finds the parameters whose contributions are added after the sweep.
void ReverseMode::countReaders() {
  DenseMap<Value, int64_t> readers;
  for (auto read : func.getOps<ReadOp>()) {
    Value keeper = getKeeper(read.getValue());
    int64_t &count = readers[keeper];
    count += std::distance(read->use_begin(), read->use_end());
    if (count > 2 && isTrained(keeper)) {
      contributions[keeper];
    }
  }
}

/// Adds the contributions to each parameter in the order of the ops that read it.
void ReverseMode::sumInOrder() {
  for (auto &[keeper, terms] : contributions) {
    Value sum;
    for (Value term : llvm::reverse(terms)) {
      sum = addGradient(b, sum, term);
    }
    if (sum) {
      markGradient(sum, keeper);
      gradients[keeper] = sum;
    }
  }
}

/// Adds one or two sequences with a map, whose result ends at the last valid position.
Value ReverseMode::add(ValueRange terms) {
  OpBuilder::InsertionGuard guard(b);
  Location loc = terms.back().getLoc();
  auto map = MapOp::create(b, loc, terms.front().getType(), terms);
  Block &block = map.getBody().emplaceBlock();
  for (size_t i = 0; i < terms.size(); ++i) {
    block.addArgument(b.getF32Type(), loc);
  }
  b.setInsertionPointToStart(&block);
  Value result = block.getArgument(0);
  if (terms.size() == 2) {
    result = arith::AddFOp::create(b, loc, result, block.getArgument(1));
  }
  YieldOp::create(b, loc, ValueRange{result});
  return map.getResult();
}

/// An op that passes on the gradient of its result unchanged leaves it undefined past the last
/// valid position: if both the gradient and the operand are lazy, the operand would receive
/// undefined rows.
Value ReverseMode::endAtLast(Value contribution, Value operand, ArrayRef<Value> results) {
  bool extends =
      llvm::is_contained(results, contribution) && isLazy(contribution) && isLazy(operand);
  return extends ? add({contribution}) : contribution;
}

/// Gradients of parameters are already accumulated; contributions to a sequence are added here.
/// Contributions to a lazy op are passed on one by one, as it is linear: their sum would be a map,
/// which ends at the last valid position, and a reader past it would get no gradient.
LogicalResult ReverseMode::addContribution(Value value, Value contribution) {
  markGradient(contribution, value);
  if (isLazy(value)) {
    auto map = value.getDefiningOp<DifferentiableInterface>();
    SmallVector<Value> operands(map->getNumOperands());
    if (failed(map.buildBackward(b, {contribution}, operands))) {
      return failure();
    }
    return addContribution(map->getOperand(0), operands[0]);
  }
  if (auto terms = contributions.find(getKeeper(value)); terms != contributions.end()) {
    terms->second.push_back(contribution);
    return success();
  }
  Value &gradient = gradients[getKeeper(value)];
  gradient =
      gradient && isa<SequenceType>(value.getType()) ? add({gradient, contribution}) : contribution;
  markGradient(gradient, value);
  return success();
}

LogicalResult ReverseMode::visit(DifferentiableInterface op) {
  SmallVector<Value> results;
  for (Value result : op->getResults()) {
    results.push_back(gradients.lookup(result));
  }
  bool isMinimized = results.empty(); // the backward pass begins there
  if (!isMinimized && llvm::none_of(results, [](Value g) { return g != nullptr; })) {
    return success();
  }
  SmallVector<Value> operands;
  for (Value operand : op->getOperands()) {
    operands.push_back(isa<SequenceType>(operand.getType()) ? Value()
                                                            : gradients.lookup(getKeeper(operand)));
  }
  if (failed(op.buildBackward(b, results, operands))) {
    return failure();
  }
  for (auto [operand, gradient] : llvm::zip_equal(op->getOperands(), operands)) {
    if (gradient && (isa<SequenceType>(operand.getType()) || isTrained(operand))) {
      if (failed(addContribution(operand, endAtLast(gradient, operand, results)))) {
        return failure();
      }
    }
  }
  return success();
}

void ReverseMode::storeGradients() {
  for (auto read : llvm::to_vector(func.getOps<ReadOp>())) {
    Value gradient = gradients.lookup(read.getValue());
    if (gradient && isTrained(read.getValue())) {
      StoreGradientOp::create(b, read.getLoc(), read.getParameterAttr(), gradient);
    }
  }
}

LogicalResult ReverseMode::run() {
  SmallVector<DifferentiableInterface> forward;
  for (Operation &op : func.getBody().front()) {
    if (auto differentiable = dyn_cast<DifferentiableInterface>(op)) {
      forward.push_back(differentiable);
    }
  }
  countReaders();
  BeginBackwardOp::create(b, func.getLoc());
  for (DifferentiableInterface op : llvm::reverse(forward)) {
    if (failed(visit(op))) {
      return failure();
    }
  }
  sumInOrder();
  storeGradients();
  // The objective is last, because its losses may come from the backward pass.
  for (auto objective : llvm::to_vector(func.getOps<ObjectiveOp>())) {
    objective->moveBefore(func.getBody().front().getTerminator());
  }
  SmallVector<Operation *> all(llvm::make_pointer_range(func.getBody().front()));
  for (Operation *op : llvm::reverse(all)) {
    if (isOpTriviallyDead(op)) {
      op->erase();
    }
  }
  return success();
}

/// Without an objective, minimizes the mean of the losses that the function returns.
LogicalResult completeObjective(func::FuncOp func) {
  auto objectives = llvm::to_vector(func.getOps<ObjectiveOp>());
  if (objectives.size() > 1) {
    return objectives[1].emitError("sluice-differentiate: expected one objective in @")
           << func.getSymName() << ", found another";
  }
  if (!objectives.empty()) {
    return success();
  }
  Operation *end = func.getBody().front().getTerminator();
  auto type = end->getNumOperands() == 1 ? dyn_cast<SequenceType>(end->getOperand(0).getType())
                                         : SequenceType();
  if (!type || type.getWidth() != 0 || !type.getElement().isF32()) {
    return func.emitError("sluice-differentiate: expected @")
           << func.getSymName() << " to have an objective, or to return the losses of one";
  }
  OpBuilder b(end);
  ObjectiveOp::create(b, end->getOperand(0).getLoc(), end->getOperands(),
                      b.getStrArrayAttr({"next"}), ArrayRef<double>{1.0}, ArrayRef<int64_t>{0},
                      /*padded=*/false, /*batches=*/1, /*weights=*/ArrayAttr());
  return success();
}

/// Builds @count, which stores the sums of weights of a batch: an update of several batches divides
/// its losses by the sums over all of them, which the host computes first.
void buildCount(func::FuncOp gradient) {
  auto sums = llvm::to_vector(gradient.getOps<WeightSumOp>());
  if (sums.empty()) {
    return;
  }
  OpBuilder b(gradient);
  b.setInsertionPointAfter(gradient);
  auto count = cast<func::FuncOp>(b.clone(*gradient));
  count.setName("count");
  count.setType(b.getFunctionType(count.getArgumentTypes(), {}));
  Block &block = count.getBody().front();
  block.getTerminator()->setOperands({});
  SmallVector<Operation *> all(llvm::make_pointer_range(block));
  for (Operation *op : llvm::reverse(all)) {
    if (isa<ObjectiveOp>(op) || isOpTriviallyDead(op)) {
      op->erase();
    }
  }
  for (WeightSumOp sum : sums) {
    sum.setGiven(true);
  }
}

struct DifferentiatePass : sluice::impl::DifferentiateBase<DifferentiatePass> {
  using DifferentiateBase::DifferentiateBase;

  void runOnOperation() override {
    if (failed(verifyModel(getOperation())) ||
        failed(verifyLevel(getOperation(), ModuleLevel::Model))) {
      return signalPassFailure();
    }
    auto forward = getOperation().lookupSymbol<func::FuncOp>("evaluate");
    if (!forward) {
      getOperation().emitError("sluice-differentiate: expected a function @evaluate, found none");
      return signalPassFailure();
    }
    if (auto made = getOperation().lookupSymbol("gradient")) {
      made->emitError(
          "expected a module without @gradient, found one; run sluice-differentiate once");
      return signalPassFailure();
    }
    // With dropout, the trained function differs from the evaluated one.
    auto gradient = getOperation().lookupSymbol<func::FuncOp>("train");
    if (failed(completeObjective(forward)) || (gradient && failed(completeObjective(gradient)))) {
      return signalPassFailure();
    }
    if (!hasGradient) {
      if (gradient) {
        gradient.erase();
      }
      return;
    }
    if (!gradient) {
      OpBuilder b(forward);
      b.setInsertionPointAfter(forward);
      gradient = cast<func::FuncOp>(b.clone(*forward));
    }
    gradient.setName("gradient");
    for (auto objective : gradient.getOps<ObjectiveOp>()) {
      objective.setBatches(batchesOfUpdate(getOperation()));
    }
    if (batchesOfUpdate(getOperation()) > 1) {
      buildCount(gradient);
    }
    if (failed(ReverseMode(gradient).run())) {
      signalPassFailure();
    }
  }
};

} // namespace
