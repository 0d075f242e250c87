// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Implements sluice.recurrence and its gradient: verifier, positions, work and backward. Reference:
// Reference/Recurrence.cpp; lowering: RecurrenceLowering.cpp.
#include "sluice/Dialect/Sluice/Recurrence.h"
#include "../Cost.h"
#include "../Scales/Windows.h"
#include "sluice/Dialect/Sluice/Gradients.h"
#include "sluice/Dialect/Sluice/ScalarDifferentiation.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace sluice;
using dispatch::RowRead;

#define GET_OP_CLASSES
#include "sluice/Dialect/Sluice/RecurrenceOps.cpp.inc"

//===----------------------------------------------------------------------===//
// Verifier
//===----------------------------------------------------------------------===//

static LogicalResult verifyCell(RecurrenceOp op) {
  Block &cell = op.getCell().front();
  auto isNumber = [](Type type) { return type.isF32(); };
  bool ends = !cell.empty() && isa<YieldOp>(cell.back());
  size_t states = ends ? cell.back().getNumOperands() : 0;
  if (states < 1 || cell.getNumArguments() <= states ||
      !llvm::all_of(cell.getArgumentTypes(), isNumber) ||
      !llvm::all_of(cell.back().getOperandTypes(), isNumber)) {
    return op.emitOpError("S-164: expected a cell that yields its states, f32, and has a sum or "
                          "more and the states as arguments, found ")
           << cell.getNumArguments() << " arguments and " << states << " states";
  }
  return success();
}

static LogicalResult verifyReset(RecurrenceOp op) {
  auto every = static_cast<int64_t>(op.getResetEvery());
  auto input = cast<SequenceType>(op.getInputs().front().getType());
  auto reset = op.getReset() ? op.getReset().getType() : SequenceType();
  if (every < 0 || (reset && (reset.getScale() != input.getScale() || reset.getWidth() > 1))) {
    return op.emitOpError("S-167: expected one number per row of ")
           << input.getScale() << " to reset rows, and a period of at least 0, found "
           << (reset ? Type(reset) : Type(input)) << " and " << every;
  }
  auto within = static_cast<int64_t>(op.getResetWithin());
  if (within < 0 || (within > 0 && !reset)) {
    return op.emitOpError("S-167: expected `reset_within` of at least 0, and 0 without `reset`, "
                          "found ")
           << within;
  }
  return success();
}

/// Verifies states, and inputs of as many columns as the cell has sums.
static LogicalResult verifyColumns(RecurrenceOp op) {
  auto first = cast<SequenceType>(op.getStates().front().getType());
  auto fits = [&](Value value) {
    auto type = cast<SequenceType>(value.getType());
    return type.getScale() == first.getScale() && dispatch::isStorageType(type.getElement());
  };
  int64_t columns = 0, width = op.getColumns();
  bool isRight = width > 0 && llvm::all_of(op.getInputs(), fits);
  for (Value input : op.getInputs()) {
    columns += cast<SequenceType>(input.getType()).getWidth();
    isRight &= width > 0 && cast<SequenceType>(input.getType()).getWidth() % width == 0;
  }
  isRight &= columns == op.countSums() * width && first.getElement().isF32() &&
             llvm::all_of(op.getStates(), [&](Value state) { return state.getType() == first; });
  if (!isRight) {
    return op.emitOpError("S-165: expected states of f32 of as many columns each, and inputs of ")
           << op.countSums() << " times as many, found " << first << " and "
           << op.getInputs().getTypes();
  }
  return success();
}

LogicalResult RecurrenceOp::verify() {
  size_t inputs = getInputs().size();
  if (failed(verifyCell(*this)) || inputs == 0 || failed(verifyReset(*this))) {
    return inputs == 0 ? emitOpError("S-165: expected an input, found none") : failure();
  }
  size_t count = countStates() + (getWeight() ? 1 : 0);
  if (getResults().size() != count) {
    return emitOpError("S-166: expected ")
           << count << " results, the states and with a weight the sums, found "
           << getResults().size();
  }
  if (failed(verifyColumns(*this))) {
    return failure();
  }
  if (!getWeight()) {
    return success();
  }
  auto weight = cast<RankedTensorType>(getWeight().getType());
  auto input = cast<SequenceType>(getInputs().front().getType());
  Type element = weight.getElementType();
  auto expected = RankedTensorType::get({input.getWidth(), getColumns()}, element);
  if (weight != expected || !dispatch::isStorageType(element) ||
      getResults().back().getType() != input || !input.getElement().isF32()) {
    return emitOpError("S-166: expected a weight ")
           << expected << " of f32 or bf16, and sums like the input, found " << weight << " and "
           << getResults().back().getType();
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Positions, cost
//===----------------------------------------------------------------------===//

unsigned RecurrenceOp::countCarried() { return getReversed() ? 0 : countStates(); }

std::string RecurrenceOp::getNeutralName(unsigned) {
  return getReversed() ? "reversed_recurrence" : "recurrence";
}

std::optional<IntegerSet> RecurrenceOp::getRelation(unsigned operand) {
  if (!isa<SequenceType>(getOperand(operand).getType())) {
    return std::nullopt;
  }
  AffineExpr p = getAffineDimExpr(0, getContext()), q = getAffineDimExpr(1, getContext());
  AffineExpr n = getAffineSymbolExpr(0, getContext());
  return getReversed() ? IntegerSet::get(2, 1, {q - p, q, n - 1 - q}, {false, false, false})
                       : IntegerSet::get(2, 1, {p - q, q}, {false, false});
}

AffineExpr RecurrenceOp::getLatest(unsigned) {
  return getReversed() ? AffineExpr() : getAffineDimExpr(0, getContext());
}

OpRemedy RecurrenceOp::getRemedy() {
  if (!getReversed()) {
    return {};
  }
  return {"it begins at the last row, so that each row depends on the rows after it; let it begin "
          "at the first row",
          "reversed",
          {}};
}

/// Row p of the gradients depends on the rows from p on, and on the states from p - 1 on.
std::optional<SmallVector<RowRead>> RecurrenceBackwardOp::getRowReads(unsigned) {
  AffineExpr p = getAffineDimExpr(0, getContext()), q = getAffineDimExpr(1, getContext());
  AffineExpr n = getAffineSymbolExpr(0, getContext());
  auto from = [&](unsigned operand, int64_t offset) {
    auto set = getReversed()
                   ? IntegerSet::get(2, 1, {p + offset - q, q}, {false, false})
                   : IntegerSet::get(2, 1, {q - p + offset, q, n - 1 - q}, {false, false, false});
    return RowRead::related(operand, set);
  };
  SmallVector<RowRead> reads;
  for (OpOperand &operand : getOperation()->getOpOperands()) {
    unsigned number = operand.getOperandNumber();
    unsigned first = getSums().size();
    bool isState = number >= first && number < first + getStates().size();
    if (!isa<SequenceType>(operand.get().getType())) {
      reads.push_back(RowRead::whole(number));
    } else {
      reads.push_back(from(number, isState ? 1 : 0));
    }
  }
  return reads;
}

/// Per row: the product of the weight, and the cell's arithmetic.
static double countFlops(Operation *op, Value state, int64_t weightedSums, Region &cell) {
  double elements = facts::elements(op, state);
  double columns = cast<SequenceType>(state.getType()).getWidth();
  auto arithmetic = static_cast<double>(cell.front().getOperations().size() - 1);
  return elements * (2 * static_cast<double>(weightedSums) * columns + arithmetic);
}

Cost RecurrenceOp::getCost() {
  SmallVector<Value> saved(getStates());
  llvm::append_range(saved, getSums());
  return facts::cost(*this, countFlops(*this, getStates()[0], countWeightedSums(), getCell()),
                     saved);
}

Cost RecurrenceBackwardOp::getCost() {
  int64_t columns = cast<SequenceType>(getSums().front().getType()).getWidth();
  int64_t sums = getWeight() ? columns / getColumns() : 0;
  return facts::cost(*this, countFlops(*this, getStates()[0], sums, getDerivative()));
}

//===----------------------------------------------------------------------===//
// Backward
//===----------------------------------------------------------------------===//

/// Fills the derivative of a cell: from the sums, the states before and the total gradients of the
/// states to the gradients of sums and states before.
static LogicalResult fillDerivative(RecurrenceOp op, Region &region, OpBuilder &b) {
  Location loc = op.getLoc();
  size_t states = op.countStates();
  Block &block = region.emplaceBlock();
  for (size_t i = 0; i < op.getCell().getNumArguments() + states; ++i) {
    block.addArgument(b.getF32Type(), loc);
  }
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(&block);
  SmallVector<Value> sums(op.getCell().getNumArguments());
  for (size_t i = 0; i < states; ++i) {
    Region one; // the cell, yielding state i alone
    IRMapping mapping;
    op.getCell().cloneInto(&one, mapping);
    Operation *end = one.front().getTerminator();
    OpBuilder ends(end);
    YieldOp::create(ends, loc, ValueRange{end->getOperand(i)});
    end->erase();
    auto products = differentiateScalar(b, one.front(), block.getArguments().drop_back(states),
                                        block.getArgument(block.getNumArguments() - states + i));
    if (failed(products)) {
      return failure();
    }
    for (auto [sum, product] : llvm::zip_equal(sums, *products)) {
      sum = sum && product ? Value(arith::AddFOp::create(b, loc, sum, product))
                           : (product ? product : sum);
    }
  }
  for (Value &sum : sums) {
    sum = sum ? sum : arith::ConstantOp::create(b, loc, b.getF32FloatAttr(0));
  }
  YieldOp::create(b, loc, sums);
  eraseDeadOps(block);
  return success();
}

/// Returns state 0 of the previous rows, zeros before reset rows.
static Value buildPreviousRows(RecurrenceOp op, OpBuilder &b) {
  Location loc = op.getLoc();
  auto type = cast<SequenceType>(op.getStates().front().getType());
  Value before = ShiftOp::create(b, loc, type, op.getStates().front(), op.getReversed() ? -1 : 1);
  auto every = static_cast<int64_t>(op.getResetEvery());
  if (!op.getReset() && every == 0) {
    return before;
  }
  SmallVector<Value> inputs{before};
  if (op.getReset()) {
    auto number = SequenceType::get(b.getContext(), type.getScale(), 0, b.getF32Type());
    Value bits = op.getReset();
    bits =
        op.getReset().getType().getWidth() == 0 ? bits : SumColumnsOp::create(b, loc, number, bits);
    inputs.push_back(RepeatColumnsOp::create(b, loc, type, bits));
  }
  auto map = MapOp::create(b, loc, type, inputs);
  OpBuilder::InsertionGuard guard(b);
  Block &block = map.getBody().emplaceBlock();
  for (size_t i = 0; i < inputs.size(); ++i) {
    block.addArgument(b.getF32Type(), loc);
  }
  b.setInsertionPointToStart(&block);
  auto integer = [&](int64_t value) -> Value {
    return arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(static_cast<int32_t>(value)));
  };
  Value zero = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(0)), row = block.getArgument(0);
  if (op.getReset()) {
    Value half = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(0.5));
    Value isSet =
        arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OGT, block.getArgument(1), half);
    row = arith::SelectOp::create(b, loc, isSet, zero, row);
  }
  if (every > 0) {
    auto ahead = llvm::mod(-static_cast<int64_t>(op.getResetAt()), every);
    Value p = dispatch::PositionOp::create(b, loc, b.getI32Type());
    p = arith::RemSIOp::create(b, loc, arith::AddIOp::create(b, loc, p, integer(ahead)),
                               integer(every));
    Value isSet = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, p, integer(0));
    row = arith::SelectOp::create(b, loc, isSet, zero, row);
  }
  YieldOp::create(b, loc, row);
  return map.getResult();
}

/// The gradient of the sums is the input's. The weight's is its product with the previous rows.
LogicalResult RecurrenceOp::buildBackward(OpBuilder &b, ArrayRef<Value> results,
                                          MutableArrayRef<Value> operands) {
  SmallVector<Value> gradients;
  SmallVector<int64_t> gradientStates;
  for (size_t i = 0; i < countStates(); ++i) {
    if (results[i]) {
      gradients.push_back(facts::withinLength(b, getLoc(), results[i]));
      gradientStates.push_back(static_cast<int64_t>(i));
    }
  }
  SmallVector<Type> types;
  for (Value sum : getSums()) {
    auto type = cast<SequenceType>(sum.getType());
    types.push_back(
        SequenceType::get(b.getContext(), type.getScale(), type.getWidth(), b.getF32Type()));
  }
  llvm::append_range(types, getStates().getTypes());
  auto backward = RecurrenceBackwardOp::create(
      b, getLoc(), types, getSums(), getStates(), gradients, getWeight(), getReset(),
      gradientStates, getReversed(), getResetEvery(), getResetAt(), getResetWithin());
  if (failed(fillDerivative(*this, backward.getDerivative(), b))) {
    return failure();
  }
  for (auto [i, input] : llvm::enumerate(getInputs())) {
    operands[i] = convertSequence(b, getLoc(), backward.getResults()[i],
                                  cast<SequenceType>(input.getType()).getElement());
  }
  if (getWeight()) {
    Type compute = getComputeType(getWeight());
    Value sums = convertSequence(b, getLoc(), backward.getResults()[0], compute);
    Value before = convertSequence(b, getLoc(), buildPreviousRows(*this, b), compute);
    Type type = cast<RankedTensorType>(getWeight().getType()).clone(b.getF32Type());
    Value &total = operands[getNumOperands() - 1];
    total = LinearWeightGradientOp::create(b, getLoc(), type, Type(), sums, before, total, Value())
                .getWeight();
  }
  return success();
}
