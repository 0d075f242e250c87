// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Implements sluice.start, a shift with learned first rows, and the gradient of its row.
#include "../Cost.h"
#include "../Reference/Reference.h"
#include "Windows.h"
#include "sluice/Dialect/Sluice/Fusion.h"
#include "sluice/Dialect/Sluice/Gradients.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::reference;
using dispatch::RowRead;

/// Returns the number of rows before the input's first.
template <typename Op> static int64_t countStartRows(Op op) {
  return static_cast<int64_t>(op.getBy());
}

//===----------------------------------------------------------------------===//
// Positions, cost
//===----------------------------------------------------------------------===//

LogicalResult StartOp::verify() {
  if (countStartRows(*this) < 1) {
    return emitOpError("S-083: expected at least 1 row before the input's first, found ")
           << countStartRows(*this);
  }
  SequenceType from = getInput().getType(), to = getResult().getType();
  auto null = cast<RankedTensorType>(getNull().getType());
  bool isOneRow = null.getRank() == 1 && null.getDimSize(0) == to.getWidth();
  if (from.getScale() != to.getScale() || from.getWidth() != to.getWidth() || !isOneRow) {
    return emitOpError("S-084: expected an input and a row like those of the result, ")
           << to << ", found " << from << " and " << null;
  }
  return success();
}

std::optional<IntegerSet> StartOp::getRelation(unsigned operand) {
  if (operand != 0) {
    return std::nullopt;
  }
  AffineExpr q = getAffineDimExpr(1, getContext());
  return IntegerSet::get(2, 1, {q - getLatest(operand)}, {true});
}

AffineExpr StartOp::getLatest(unsigned) {
  return getAffineDimExpr(0, getContext()) - countStartRows(*this);
}

std::optional<int64_t> StartOp::getShift() { return countStartRows(*this); }

Cost StartOp::getCost() { return facts::cost(*this, 0); }

std::optional<SmallVector<RowRead>> StartBackwardOp::getRowReads(unsigned) { return std::nullopt; }

/// One addition per element: all rows are loaded, and rows after the first ones count as zero.
Cost StartBackwardOp::getCost() {
  return facts::cost(*this, facts::elements(*this, getGradient()));
}

//===----------------------------------------------------------------------===//
// Backward
//===----------------------------------------------------------------------===//

/// The result ends at the last valid position, and so do the accesses of the opposite shift.
LogicalResult StartOp::buildBackward(OpBuilder &b, ArrayRef<Value> results,
                                     MutableArrayRef<Value> operands) {
  Value gradient = facts::withinLength(b, getLoc(), results[0]);
  operands[0] =
      ShiftOp::create(b, getLoc(), getInput().getType(), gradient, -countStartRows(*this));
  Value row = StartBackwardOp::create(b, getLoc(), getNull().getType(), gradient, getBy());
  operands[1] = addGradient(b, operands[1], row);
  return success();
}

//===----------------------------------------------------------------------===//
// Reference
//===----------------------------------------------------------------------===//

/// y[p] = x[p - s] for p >= s, else null
template <typename T> static void evaluate(StartOp op, Evaluator<T> &evaluator) {
  evaluator.define(op.getResult(), [&](int64_t b, int64_t p) {
    int64_t source = p - countStartRows(op);
    return source < 0 ? evaluator.getTensor(op.getNull())
                      : evaluator.rowAt(op.getInput(), b, source);
  });
}

/// dnull = sum over b and p < s of dy[b, p]
template <typename T> static void evaluate(StartBackwardOp op, Evaluator<T> &evaluator) {
  std::vector<T> sum(reference::getColumns(op.getGradient()));
  evaluator.forEachPosition(op.getGradient(), [&](int64_t b, int64_t p) {
    for (size_t c = 0; p < countStartRows(op) && c < sum.size(); ++c) {
      sum[c] += evaluator.at(op.getGradient(), b, p, static_cast<int64_t>(c));
    }
  });
  evaluator.setTensor(op.getNull(), std::move(sum));
}

SLUICE_REFERENCE(StartOp)
SLUICE_REFERENCE(StartBackwardOp)

//===----------------------------------------------------------------------===//
// Lowering
//===----------------------------------------------------------------------===//

RowGroup StartOp::getRowGroup() { return {1, 1, -countStartRows(*this)}; }

/// Returns `first` in the first `count` rows of a sequence, `later` from then on.
static Value choose(BodyBuilder &body, int64_t count, Value first, Value later) {
  ImplicitLocOpBuilder &b = body.builder();
  Value end = arith::ConstantOp::create(b, b.getI32IntegerAttr(static_cast<int32_t>(count)));
  Value isFirst = arith::CmpIOp::create(b, arith::CmpIPredicate::slt,
                                        dispatch::PositionOp::create(b, b.getI32Type()), end);
  return arith::SelectOp::create(b, isFirst, first, later);
}

LogicalResult StartOp::emitBody(BodyBuilder &body) {
  Value row = body.getMember(getInput(), getRowGroup(), 0);
  if (!row) {
    return failure();
  }
  body.set(getResult(), choose(body, countStartRows(*this), body.getVector(getNull()), row));
  return success();
}

LogicalResult StartBackwardOp::emitBody(BodyBuilder &body) {
  Value row = body.get(getGradient());
  if (!row) {
    return failure();
  }
  body.set(getNull(), choose(body, countStartRows(*this), row, body.constant(row.getType(), 0)));
  return success();
}
