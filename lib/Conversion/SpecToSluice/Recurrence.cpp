// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Converts recurrences: a linear map of the input, and a cell over its sums.
#include "sluice/Dialect/Sluice/Recurrence.h"
#include "SpecToSluice.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::spec_to_sluice;

/// Returns 1 / (1 + e^-x). Its derivative by this form is finite for every x.
static ScalarValue createGate(ScalarValue x) { return tanh(x * 0.5) * 0.5 + 0.5; }

/// Yields h and c of an LSTM from the sums of its gates (in the order of torch.nn.LSTM: input,
/// forget, cell, output) and from h and c before. A capped input gate is at most 1 - forget gate.
static SmallVector<Value> createLstm(ArrayRef<ScalarValue> v, bool isCapped) {
  ScalarValue input = createGate(v[0]), forget = createGate(v[1]);
  if (isCapped) {
    ScalarValue cap = 1 - forget;
    input = selectAbove(input, cap, cap, input);
  }
  ScalarValue cell = forget * v[5] + input * tanh(v[2]);
  return {createGate(v[3]) * tanh(cell), cell};
}

/// Returns the bits of the rows that reset; null without segments.
static Value createResets(StageContext &c, spec::RecurrenceOp op) {
  if (!op.getSegments()) {
    return {};
  }
  const Segmentation &of = c.getSegmentation(op.getSegments());
  if (op.getReset() == spec::ResetRow::last || of.begins) {
    return of.bits;
  }
  c.setName("before"); // the row after an end begins a segment
  Value before = c.createShift(of.bits, 1);
  return c.materialize("reset", before);
}

static Value convertRecurrence(StageContext &c, spec::RecurrenceOp op) {
  constexpr size_t sums = 4, states = 2; // of an LSTM
  auto &b = c.b;
  Value x = c.materialize("rows", c.getValue(op.getInput()));
  Value gates = c.createLinear("", x, b.getF32Type(), "input");
  auto type = cast<SequenceType>(gates.getType());
  auto state = SequenceType::get(b.getContext(), type.getScale(), c.getWidth(), b.getF32Type());
  Value reset = createResets(c, op);
  c.setName("recurrence");
  auto recurrence = RecurrenceOp::create(
      b, TypeRange{state, state, type}, gates, c.readWeight(c.getSymbol("state.weight")), reset,
      /*reversed=*/false, op.getEvery().value_or(0), op.getAt().value_or(0));
  {
    OpBuilder::InsertionGuard guard(b);
    Block *cell = b.createBlock(&recurrence.getCell());
    SmallVector<ScalarValue> arguments;
    for (size_t i = 0; i < sums + states; ++i) {
      arguments.emplace_back(b, cell->addArgument(b.getF32Type(), b.getLoc()));
    }
    YieldOp::create(b, createLstm(arguments, op.getCell() == spec::RecurrentCell::lstm_capped));
  }
  return recurrence.getResults().front();
}

void spec_to_sluice::populateRecurrenceConversions(StageConversions &conversions) {
  conversions.add(convertRecurrence);
}
