// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Converts recurrences: a linear map of the input, and a cell over its sums.
#include "sluice/Dialect/Sluice/Recurrence.h"
#include "SpecToSluice.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::spec_to_sluice;

/// Returns 1 / (1 + e^-x). Its derivative by this form is finite for every x.
static ScalarValue createGate(ScalarValue x) { return tanh(x * 0.5) * 0.5 + 0.5; }

/// Returns h and c of an LSTM from the sums of its gates (in the order of torch.nn.LSTM: input,
/// forget, cell, output) and from c before. A capped input gate is at most 1 - forget gate.
static SmallVector<Value> createLstm(ArrayRef<ScalarValue> v, ScalarValue before, bool isCapped) {
  ScalarValue input = createGate(v[0]), forget = createGate(v[1]);
  if (isCapped) {
    ScalarValue cap = 1 - forget;
    input = selectAbove(input, cap, cap, input);
  }
  ScalarValue cell = forget * before + input * tanh(v[2]);
  return {createGate(v[3]) * tanh(cell), cell};
}

/// Returns the bits of the rows that begin anew; null without segments.
static Value createResets(StageContext &c, spec::RecurrenceOp op) {
  if (!op.getSegments()) {
    return {};
  }
  const Segmentation &of = c.getSegmentation(op.getSegments());
  if (op.resetsAtEnds() || of.begins) {
    return of.bits;
  }
  c.setName("before"); // the row after an end begins a segment
  Value before = c.createShift(of.bits, 1);
  return c.materialize("reset", before);
}

/// Returns 1 in the first row and in rows that begin anew, and 0 elsewhere, in one column.
static Value createBeginnings(StageContext &c, spec::RecurrenceOp op, Value gates, Value reset) {
  auto &b = c.b;
  auto every = static_cast<int64_t>(op.getEvery().value_or(0));
  auto integer = [&](int64_t value) -> Value {
    return arith::ConstantOp::create(b, b.getI32IntegerAttr(static_cast<int32_t>(value)));
  };
  auto selectZero = [&](Value number, ScalarValue otherwise) -> ScalarValue {
    Value isZero = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, number, integer(0));
    return select({b, isZero}, c.createNumber(1), otherwise);
  };
  c.setName("start.rows");
  Value number = c.createColumnSum(reset ? reset : gates);
  c.setName("start.begins");
  number = c.createMap(number, [&](ArrayRef<ScalarValue> v) {
    Value p = dispatch::PositionOp::create(b, b.getI32Type());
    ScalarValue begins = selectZero(p, reset ? v[0] : c.createNumber(0));
    if (every > 0) {
      int64_t ahead = llvm::mod(-static_cast<int64_t>(op.getAt().value_or(0)), every);
      p = arith::RemSIOp::create(b, arith::AddIOp::create(b, p, integer(ahead)), integer(every));
      begins = selectZero(p, begins);
    }
    return begins;
  });
  c.setName("start.column");
  auto scale = cast<SequenceType>(gates.getType()).getScale();
  return RepeatColumnsOp::create(b, SequenceType::get(b.getContext(), scale, 1, b.getF32Type()),
                                 number);
}

/// Adds the trained states to the inputs of a recurrence. The row that begins has h as an input of
/// the state's weight, and c as a sum of its own.
static void addStart(StageContext &c, spec::RecurrenceOp op, SmallVectorImpl<Value> &inputs,
                     Value reset) {
  auto &b = c.b;
  Value &gates = inputs.front();
  Value begins = createBeginnings(c, op, gates, reset);
  Value hidden = c.createLinear("start.hidden", begins, b.getF32Type());
  Value product = c.createLinear("start.product", hidden, b.getF32Type(), "state");
  c.setName("start.sums");
  gates = c.createSum({gates, product});
  inputs.push_back(c.createLinear("start.cell", begins, b.getF32Type()));
}

static Value convertRecurrence(StageContext &c, spec::RecurrenceOp op) {
  constexpr size_t gates = 4, states = 2; // of an LSTM
  auto &b = c.b;
  Value x = c.materialize("rows", c.getValue(op.getInput()));
  SmallVector<Value> inputs{c.createLinear("", x, b.getF32Type(), "input")};
  auto type = cast<SequenceType>(inputs.front().getType());
  auto state = SequenceType::get(b.getContext(), type.getScale(), c.getWidth(), b.getF32Type());
  Value reset = createResets(c, op);
  bool isTrained = op.getStart() == spec::StartRows::null;
  if (isTrained) {
    addStart(c, op, inputs, reset);
  }
  c.setName("recurrence");
  auto recurrence = RecurrenceOp::create(
      b, TypeRange{state, state, type}, inputs, reset, c.readWeight(c.getSymbol("state.weight")),
      op.getDirection() == spec::RowDirection::backward, op.getEvery().value_or(0),
      op.getAt().value_or(0), reset ? c.getSegmentation(op.getSegments()).longest : 0);
  {
    OpBuilder::InsertionGuard guard(b);
    Block *cell = b.createBlock(&recurrence.getCell());
    SmallVector<ScalarValue> arguments;
    for (size_t i = 0; i < gates + (isTrained ? 1 : 0) + states; ++i) {
      arguments.emplace_back(b, cell->addArgument(b.getF32Type(), b.getLoc()));
    }
    ScalarValue before = isTrained ? arguments.back() + arguments[gates] : arguments.back();
    bool isCapped = op.getCell() == spec::RecurrentCell::lstm_capped;
    YieldOp::create(b, createLstm(arguments, before, isCapped));
  }
  return recurrence.getResults().front();
}

void spec_to_sluice::populateRecurrenceConversions(StageConversions &conversions) {
  conversions.add(convertRecurrence);
}
