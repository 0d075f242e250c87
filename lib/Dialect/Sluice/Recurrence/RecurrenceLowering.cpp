// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lowers recurrences and their gradients: each is one dispatch.
#include "sluice/Dialect/Sluice/Fusion.h"
#include "sluice/Dialect/Sluice/Recurrence.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace sluice;
using dispatch::AccessAttr, dispatch::AccessKind;

namespace {
/// Collects the operands of a recurrence's dispatch.
struct RowOperands {
  explicit RowOperands(DispatchEmitter &emitter, Value sequence)
      : emitter(emitter), factor(emitter.getRowDomain(sequence).getFactor()) {}

  /// Adds rows p + offset.
  void addRows(Value sequence, int64_t offset) {
    AffineExpr row = emitter.b.getAffineDimExpr(0) + offset;
    tensors.push_back(emitter.get(sequence));
    accesses.push_back(AccessAttr::get(emitter.b.getContext(), AccessKind::Row,
                                       AffineMap::get(2, 1, row), 1, factor));
  }

  DispatchEmitter &emitter;
  int64_t factor;
  SmallVector<Value> tensors;
  SmallVector<Attribute> accesses;
};
} // namespace

/// Clones the ops of a cell for `arguments`; returns the values that it yields.
static SmallVector<Value> cloneCell(Block &cell, ValueRange arguments, ImplicitLocOpBuilder &b) {
  IRMapping mapping;
  mapping.map(cell.getArguments(), arguments);
  for (Operation &op : cell.without_terminator()) {
    b.clone(op, mapping);
  }
  return llvm::map_to_vector(cell.getTerminator()->getOperands(),
                             [&](Value value) { return mapping.lookupOrDefault(value); });
}

/// Adds arguments of f32 to a block.
static SmallVector<Value> addNumbers(Block &block, size_t count, ImplicitLocOpBuilder &b) {
  SmallVector<Value> added;
  for (size_t i = 0; i < count; ++i) {
    added.push_back(block.addArgument(b.getF32Type(), b.getLoc()));
  }
  return added;
}

/// Creates the dispatch without its body, and the body's arguments.
template <typename Op>
static dispatch::RecurrenceOp createDispatch(Op op, const RowOperands &operands, int64_t carried,
                                             bool isAdjoint, DispatchEmitter &emitter) {
  ImplicitLocOpBuilder &b = emitter.b;
  SmallVector<Type> types;
  for (Value result : op->getResults()) {
    types.push_back(emitter.getTensorType(result));
  }
  bool isWeighted = bool(op.getWeight());
  auto made = dispatch::RecurrenceOp::create(
      b, types, operands.tensors, emitter.getRowDomain(op->getResult(0)),
      b.getArrayAttr(operands.accesses), op.getColumns(), carried, isWeighted,
      /*by_input=*/isWeighted && isAdjoint, /*reversed=*/op.getReversed() != isAdjoint, isAdjoint,
      /*resets=*/bool(op.getReset()), op.getResetEvery(), op.getResetAt(), op.getResetWithin(),
      StringAttr(), StringAttr());
  for (auto [result, tensor] : llvm::zip_equal(op->getResults(), made.getOutputs())) {
    emitter.set(result, tensor);
  }
  return made;
}

LogicalResult RecurrenceOp::emitDispatches(DispatchEmitter &emitter) {
  ImplicitLocOpBuilder &b = emitter.b;
  RowOperands operands(emitter, getInputs().front());
  if (getWeight()) {
    operands.tensors.push_back(emitter.get(getWeight()));
  }
  for (Value input : getInputs()) {
    operands.addRows(input, 0);
  }
  if (getReset()) {
    operands.tensors.push_back(emitter.get(getReset()));
  }
  size_t sums = countSums(), states = countStates(), weighted = countWeightedSums();
  dispatch::RecurrenceOp made =
      createDispatch(*this, operands, static_cast<int64_t>(states), /*isAdjoint=*/false, emitter);
  OpBuilder::InsertionGuard guard(b);
  Block *block = b.createBlock(&made.getBody());
  SmallVector<Value> products = addNumbers(*block, weighted, b),
                     arguments = addNumbers(*block, sums, b);
  for (auto [sum, product] : llvm::zip(arguments, products)) {
    sum = arith::AddFOp::create(b, sum, product);
  }
  ArrayRef<Value> all = arguments;
  SmallVector<Value> total(all.take_front(weighted));
  llvm::append_range(arguments, addNumbers(*block, states, b));
  SmallVector<Value> yielded = cloneCell(getCell().front(), arguments, b);
  llvm::append_range(yielded, total);
  dispatch::YieldOp::create(b, yielded);
  return success();
}

/// The rows of the gradients are computed against the order of the rows, so the states before a row
/// are operands, and the body zeroes them before the first row and before reset rows.
LogicalResult RecurrenceBackwardOp::emitDispatches(DispatchEmitter &emitter) {
  ImplicitLocOpBuilder &b = emitter.b;
  RowOperands operands(emitter, getSums().front());
  if (getWeight()) {
    operands.tensors.push_back(emitter.get(getWeight()));
  }
  for (Value sums : getSums()) {
    operands.addRows(sums, 0);
  }
  for (Value state : getStates()) {
    operands.addRows(state, getReversed() ? 1 : -1);
  }
  for (Value gradient : getGradients()) {
    operands.addRows(gradient, 0);
  }
  if (getReset()) {
    operands.tensors.push_back(emitter.get(getReset()));
  }
  size_t states = getStates().size();
  size_t sums = getDerivative().getNumArguments() - 2 * states;
  dispatch::RecurrenceOp made =
      createDispatch(*this, operands, static_cast<int64_t>(getNumResults()),
                     /*isAdjoint=*/true, emitter);
  OpBuilder::InsertionGuard guard(b);
  Block *block = b.createBlock(&made.getBody());
  SmallVector<Value> product = addNumbers(*block, getWeight() ? 1 : 0, b);
  SmallVector<Value> arguments = addNumbers(*block, sums + states, b);
  SmallVector<Value> gradients = addNumbers(*block, getGradients().size(), b);
  addNumbers(*block, sums, b); // ds of the row after it, which the product takes
  SmallVector<Value> totals = addNumbers(*block, states, b);
  if (getWeight()) {
    totals[0] = arith::AddFOp::create(b, totals[0], product[0]);
  }
  for (auto [gradient, of] : llvm::zip_equal(gradients, getGradientStates())) {
    totals[of] = arith::AddFOp::create(b, totals[of], gradient);
  }
  llvm::append_range(arguments, totals);
  dispatch::YieldOp::create(b, cloneCell(getDerivative().front(), arguments, b));
  return success();
}
