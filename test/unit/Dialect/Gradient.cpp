// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A plain reverse walk over @f, and finite differences.
#include "Gradient.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Verifier.h"

using namespace mlir;

namespace sluice::testing {

static Value buildSum(OpBuilder &builder, Value left, Value right) {
  OpBuilder::InsertionGuard guard(builder);
  auto map = MapOp::create(builder, left.getLoc(), left.getType(), ValueRange{left, right});
  Block &block = map.getBody().emplaceBlock();
  Value a = block.addArgument(builder.getF32Type(), left.getLoc());
  Value b = block.addArgument(builder.getF32Type(), left.getLoc());
  builder.setInsertionPointToStart(&block);
  Value sum = arith::AddFOp::create(builder, left.getLoc(), a, b);
  YieldOp::create(builder, left.getLoc(), sum);
  return map.getResult();
}

using Contributions = llvm::DenseMap<Value, SmallVector<Value>>;

/// Backward of one op for one gradient per result; adds contributions to `gradients`.
static void walkBack(OpBuilder &builder, Operation *op, ArrayRef<Value> results,
                     Contributions &gradients) {
  SmallVector<Value> operands;
  for (Value operand : op->getOperands()) {
    auto found = gradients.find(operand);
    bool accumulated = !isa<SequenceType>(operand.getType()) && found != gradients.end();
    operands.push_back(accumulated ? found->second.front() : Value());
  }
  if (failed(cast<DifferentiableInterface>(op).buildBackward(builder, results, operands))) {
    llvm::report_fatal_error("the test's function has no gradient");
  }
  for (auto [operand, gradient] : llvm::zip_equal(op->getOperands(), operands)) {
    if (gradient && isa<SequenceType>(operand.getType())) {
      gradients[operand].push_back(gradient);
    } else if (gradient) {
      gradients[operand] = {gradient};
    }
  }
}

static Value total(OpBuilder &builder, Value value, const Contributions &gradients) {
  Value sum;
  for (Value gradient : gradients.lookup(value)) {
    sum = sum ? buildSum(builder, sum, gradient) : gradient;
  }
  return sum;
}

/// A lazy op propagates each contribution separately: their sum, a map, would end with the scale's
/// valid positions, and rows that a consumer read past them would be lost.
static void walkBack(OpBuilder &builder, Operation *op, Contributions &gradients) {
  if (isa<ShiftOp, UpsampleOp, UnfoldOp>(op)) {
    for (Value gradient : gradients.lookup(op->getResult(0))) {
      walkBack(builder, op, gradient, gradients);
    }
    return;
  }
  SmallVector<Value> results;
  for (Value result : op->getResults()) {
    results.push_back(total(builder, result, gradients));
  }
  bool reached = llvm::any_of(results, [](Value value) { return value != nullptr; });
  if (isa<DifferentiableInterface>(op) && reached) {
    walkBack(builder, op, results, gradients);
  }
}

std::vector<unsigned> addGradient(DialectModel &model) {
  func::FuncOp forward = model.getFunction();
  func::FuncOp function = forward.clone();
  function.setName("gradient");
  model.getModule().push_back(function);
  Block &block = function.getBody().front();
  Operation *terminator = block.getTerminator();
  SmallVector<Operation *> ops(
      llvm::map_range(block.without_terminator(), [](Operation &op) { return &op; }));
  unsigned count = block.getNumArguments();
  Contributions gradients;
  for (Value result : SmallVector<Value>(terminator->getOperands())) {
    Value argument = block.addArgument(result.getType(), result.getLoc());
    gradients[result].push_back(argument);
  }
  OpBuilder builder(terminator);
  for (Operation *op : llvm::reverse(ops)) {
    walkBack(builder, op, gradients);
  }
  std::vector<unsigned> indices;
  SmallVector<Value> values;
  for (unsigned i = 0; i < count; ++i) {
    if (Value gradient = total(builder, block.getArgument(i), gradients)) {
      indices.push_back(i);
      values.push_back(gradient);
    }
  }
  terminator->setOperands(values);
  function.setType(
      builder.getFunctionType(block.getArgumentTypes(), ValueRange(values).getTypes()));
  if (failed(verify(function))) {
    llvm::report_fatal_error("the gradient of the test's function is not valid");
  }
  return indices;
}

static double weightedSum(DialectModel &model, const Arguments &arguments,
                          const std::vector<Doubles> &weights, reference::RuntimeValues setting) {
  func::FuncOp function = model.getFunction();
  std::vector<Doubles> results = evaluate<double>(function, arguments, setting);
  double sum = 0;
  for (auto [index, numbers] : llvm::enumerate(results)) {
    for (size_t i = 0; i < numbers.size(); ++i) {
      sum += numbers[i] * weights[index][i];
    }
  }
  return sum;
}

Doubles finiteDifference(DialectModel &model, const Arguments &arguments, unsigned index,
                         const std::vector<Doubles> &weights, reference::RuntimeValues setting) {
  constexpr double h = 1e-3; // the rule's error is about h^4 / 30 times the fifth derivative
  Doubles gradient(arguments.values[index].size());
  for (size_t i = 0; i < gradient.size(); ++i) {
    auto at = [&](double step) {
      Arguments moved = arguments;
      moved.values[index][i] += step;
      return weightedSum(model, moved, weights, setting);
    };
    gradient[i] = (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h);
  }
  return gradient;
}

} // namespace sluice::testing
