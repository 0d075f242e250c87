// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "RecurrenceRows.h"
#include "RowAccess.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::target;

static int64_t getExtent(Value rows) {
  return cast<RankedTensorType>(rows.getType()).getDimSize(1);
}

RecurrenceRows::RecurrenceRows(dispatch::RecurrenceOp op, Emitter &e,
                               function_ref<Value(unsigned)> buffer)
    : op(op), e(e) {
  unsigned next = 0;
  if (op.getWeighted()) {
    weight = buffer(next++);
  }
  for (size_t i = 0; i < op.getInputs().size(); ++i) {
    inputs.push_back(buffer(next++));
  }
  bits = op.getResets() ? buffer(next) : Value();
  for (size_t i = 0; i < op.getOutputs().size(); ++i) {
    results.push_back(buffer(op->getNumOperands() + i));
  }
}

Value RecurrenceRows::getRow(Value tensor, Value batch, Value position) {
  return sequenceRow(e.b, op.getDomain(), getExtent(tensor), batch, position);
}

int64_t RecurrenceRows::countPlaces() {
  auto places = static_cast<int64_t>(op.getDomain().getPositions());
  auto every = static_cast<int64_t>(op.getResetEvery()),
       within = static_cast<int64_t>(op.getResetWithin());
  if (!op.getDomain().getScheduled()) {
    places = every > 0 ? std::min(every, places) : places;
    places = within > 0 ? std::min(within, places) : places;
  }
  return places;
}

Value RecurrenceRows::emitMark(Value batch, Value position) {
  ImplicitLocOpBuilder &b = e.b;
  Value marked = arith::ConstantIntOp::create(b, b.getI1Type(), 0);
  if (op.getResets()) {
    auto type = cast<RankedTensorType>(op.getBits().getType());
    int64_t extent = getExtent(op.getBits());
    Value at = op.getDomain().getScheduled() ? arith::RemUIOp::create(b, position, e.index(extent))
                                             : position;
    SmallVector<Value> place = {batch, at};
    if (type.getRank() == 3) {
      place = {e.add(e.mul(batch, extent), at), e.index(0)};
    }
    Value number = memref::LoadOp::create(b, bits, place);
    if (type.getElementType().isF32()) {
      Value half = arith::ConstantOp::create(b, b.getF32FloatAttr(0.5));
      marked = arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, number, half);
    } else {
      marked = e.less(e.integer(0), number);
    }
  }
  if (auto every = static_cast<int64_t>(op.getResetEvery()); every > 0) {
    int64_t ahead = llvm::mod(-static_cast<int64_t>(op.getResetAt()), every);
    Value rest = arith::RemUIOp::create(b, e.add(position, ahead), e.index(every));
    Value isPlace = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, rest, e.index(0));
    marked = arith::OrIOp::create(b, marked, isPlace);
  }
  return marked;
}

RecurrenceRows::Link RecurrenceRows::link(Value batch, Value position, Value length) {
  Value next = e.add(position, op.getReversed() ? 1 : -1);
  Value exists = op.getReversed() ? e.less(next, length) : e.less(e.index(0), position);
  Link link;
  link.previous = e.select(exists, next, position);
  link.cut = emitMark(batch, op.getAdjoint() ? link.previous : position);
  Value isOff = arith::ConstantIntOp::create(e.b, e.b.getI1Type(), 1);
  link.linked = e.both(exists, arith::XOrIOp::create(e.b, link.cut, isOff));
  return link;
}
