// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Implements the ops over edge lists: numbers of neighbours, and sums over them.
#include "Edges.h"

#include "../Cost.h"
#include "../Reference/Reference.h"
#include "../Scales/Windows.h"
#include "sluice/Dialect/Sluice/Fusion.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::edges;
using namespace sluice::reference;

//===----------------------------------------------------------------------===//
// Verifiers
//===----------------------------------------------------------------------===//

LogicalResult DegreesOp::verify() {
  if (!isNumber(getResult().getType())) {
    return emitOpError("S-161: expected one f32 per position, found ") << getResult().getType();
  }
  return verifyEdges(*this);
}

LogicalResult GraphSumOp::verify() {
  SequenceType type = getResult().getType(), input = getInput().getType();
  bool fits = input.getScale() == type.getScale() && input.getWidth() == type.getWidth() &&
              dispatch::isStorageType(type.getElement()) &&
              dispatch::isStorageType(input.getElement()) &&
              llvm::all_of(getOperands().drop_front(), [&](Value numbers) {
                auto each = cast<SequenceType>(numbers.getType());
                return isNumber(each) && each.getScale() == type.getScale();
              });
  if (!fits) {
    return emitOpError("S-162: expected rows of one scale and number of columns, and one f32 per "
                       "position there, found ")
           << input << " and " << type;
  }
  return verifyEdges(*this);
}

//===----------------------------------------------------------------------===//
// Positions, operations, backward
//===----------------------------------------------------------------------===//

/// The op has no operands.
std::optional<IntegerSet> DegreesOp::getRelation(unsigned) { return std::nullopt; }
AffineExpr DegreesOp::getLatest(unsigned) { return {}; }
/// A number for each position that depends on no token.
std::string DegreesOp::getNeutralName(unsigned) { return "position"; }

/// Any row may be a neighbour, and its factor in `right` is read with it.
std::optional<IntegerSet> GraphSumOp::getRelation(unsigned operand) {
  AffineExpr p = getAffineDimExpr(0, getContext()), q = getAffineDimExpr(1, getContext()),
             n = getAffineSymbolExpr(0, getContext());
  return getLatest(operand) ? IntegerSet::get(2, 1, {q - p}, {true})
                            : IntegerSet::get(2, 1, {q, n - 1 - q}, {false, false});
}
AffineExpr GraphSumOp::getLatest(unsigned operand) {
  bool isLeft = getOperation()->getOperand(operand) == getLeft() && operand == 1;
  return isLeft ? getAffineDimExpr(0, getContext()) : AffineExpr();
}

Cost DegreesOp::getCost() { return facts::cost(*this, facts::elements(*this, getResult())); }

/// Per entry and column a product and a sum, per row and column two products. Half of all pairs of
/// rows are drawn.
Cost GraphSumOp::getCost() {
  double rows = facts::elements(*this, getResult());
  double width = static_cast<double>(std::max<int64_t>(1, getResult().getType().getWidth()));
  double listed =
      getDrawn()
          ? rows / width * static_cast<double>(getPositions(*this, getResult().getType())) / 2
          : static_cast<double>(getBatch(*this) * getEntries());
  double entries = listed * width;
  return facts::cost(*this, (getRight() ? 2 : 1) * (entries + rows) + (getLeft() ? rows : 0));
}

LogicalResult DegreesOp::buildBackward(OpBuilder &, ArrayRef<Value>, MutableArrayRef<Value>) {
  return success();
}

/// (L (A + I) R)^T = R (A + I) L
LogicalResult GraphSumOp::buildBackward(OpBuilder &b, ArrayRef<Value> results,
                                        MutableArrayRef<Value> operands) {
  operands[0] = GraphSumOp::create(
      b, getLoc(), getInput().getType(), facts::withinLength(b, getLoc(), results[0]), getRight(),
      getLeft(), getEdgesAttr(), getBitsAttr(), getCapacityAttr(), getDrawnAttr());
  return success();
}

//===----------------------------------------------------------------------===//
// Lowering
//===----------------------------------------------------------------------===//

LogicalResult DegreesOp::emitBody(BodyBuilder &body) {
  ImplicitLocOpBuilder &b = body.builder();
  Value neighbours;
  if (getDrawn()) {
    neighbours = countDrawnRows(body, getPlace(*this), getResult());
  } else {
    auto [first, end] = getListBounds(body, getPlace(*this), getResult(), getEntries());
    neighbours = arith::SubIOp::create(b, end, first);
  }
  Value one = arith::ConstantOp::create(b, b.getF32FloatAttr(1));
  body.set(getResult(),
           arith::AddFOp::create(b, arith::SIToFPOp::create(b, b.getF32Type(), neighbours), one));
  return success();
}

/// Other rows of the input must be stored: a group that is not the own row.
RowGroup GraphSumOp::getRowGroup() { return {1, 2, 0}; }

/// Multiplies a row by one number per row, if there is one.
static Value scale(BodyBuilder &body, Value row, Value numbers) {
  if (!numbers) {
    return row;
  }
  Value number = body.get(numbers);
  bool isRow = isa<RankedTensorType>(row.getType());
  return arith::MulFOp::create(body.builder(), row,
                               isRow ? body.splat(number, row.getType()) : number);
}

LogicalResult GraphSumOp::emitBody(BodyBuilder &body) {
  Value sum = getDrawn() ? getDrawnSum(body, getPlace(*this), getInput(), getRight())
                         : getListSum(body, getPlace(*this), getInput(), getEntries(), getRight());
  Value own = sum ? body.get(getInput()) : Value();
  if (!own) {
    return failure();
  }
  Value all = arith::AddFOp::create(body.builder(), scale(body, own, getRight()), sum);
  body.set(getResult(), scale(body, all, getLeft()));
  return success();
}

//===----------------------------------------------------------------------===//
// Reference
//===----------------------------------------------------------------------===//

template <typename T> static void evaluate(DegreesOp op, Evaluator<T> &evaluator) {
  evaluator.define(op.getResult(), [&](int64_t b, int64_t p) {
    return std::vector<T>{static_cast<T>(1 + getNeighbours(op, evaluator, b, p).size())};
  });
}

/// y[p] = l[p] (r[p] x[p] + sum of r[q] x[q])
template <typename T> static void evaluate(GraphSumOp op, Evaluator<T> &evaluator) {
  auto number = [&](Value numbers, int64_t b, int64_t p) {
    return numbers ? evaluator.at(numbers, b, p, 0) : T(1);
  };
  evaluator.define(op.getResult(), [&](int64_t b, int64_t p) {
    std::vector<T> y(static_cast<size_t>(reference::getColumns(op.getResult())));
    std::vector<int64_t> rows = getNeighbours(op, evaluator, b, p);
    rows.insert(rows.begin(), p);
    for (size_t c = 0; c < y.size(); ++c) {
      for (int64_t q : rows) {
        y[c] += number(op.getRight(), b, q) *
                evaluator.at(op.getInput(), b, q, static_cast<int64_t>(c));
      }
      y[c] *= number(op.getLeft(), b, p);
    }
    return y;
  });
}

SLUICE_REFERENCE(DegreesOp)
SLUICE_REFERENCE(GraphSumOp)
