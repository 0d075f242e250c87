// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Ops of segments, of edges and of recurrences.
#include "Segments.h"
#include "Scalar.h"
#include "sluice/Dialect/Sluice/Recurrence.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::pytorch;

static std::string readAll(MethodBody &body, ValueRange values) {
  std::string text;
  for (Value value : values) {
    text += body.read(value) + ", ";
  }
  return values.size() > 1 ? StringRef(text).drop_back(2).str() : StringRef(text).rtrim().str();
}

static void print(MethodBody &body, RecurrenceOp op) {
  body.use("recurrence");
  unsigned states = op.countStates();
  SmallVector<std::string> arguments;
  for (int64_t i = 0; i < op.countSums(); ++i) {
    arguments.push_back("s" + std::to_string(i));
  }
  for (unsigned i = 0; i < states; ++i) {
    arguments.push_back("before" + std::to_string(i));
  }
  std::string cell = body.printFunction(op, op.getCell(), arguments, "cell", /*isTuple=*/true);
  std::string text = "recurrence(\n            (" + readAll(body, op.getInputs()) + "), " + cell +
                     ", states=" + std::to_string(states) +
                     ", columns=" + std::to_string(op.getColumns());
  if (op.getWeight()) {
    text += ",\n            weight=" + body.readParameter(op.getWeight());
  }
  if (op.getReset()) {
    text += ", reset=" + body.read(op.getReset());
  }
  if (op.getResetEvery() > 0) {
    text +=
        ", every=" + std::to_string(op.getResetEvery()) + ", at=" + std::to_string(op.getResetAt());
  }
  if (op.getReversed()) {
    std::string count = body.getCount(op.getResult(0));
    text += ", reverse=True" + (count == "None" ? "" : ", count=" + count);
  }
  body.defineAll(op->getResults().take_front(states), text + ")");
}

static void print(MethodBody &body, SegmentOp op) {
  body.use("segment");
  std::string count = body.getCount(op.getBits());
  int64_t most = getPositions(op, cast<SequenceType>(op.getEnds().getType())) -
                 static_cast<int64_t>(op.getSpare());
  int64_t rows = getPositions(op, cast<SequenceType>(op.getEnds().getType()));
  int64_t after = getPositions(op, cast<SequenceType>(op.getBits().getType()));
  std::string text = "segment(" + body.read(op.getBits()) + ", " + std::to_string(rows) + ", " +
                     std::to_string(after) + (count == "None" ? "" : ", count=" + count) +
                     (most == rows ? "" : ", spare=" + std::to_string(op.getSpare())) + ")";
  body.defineAll({op.getCounts(), op.getEnds()}, text);
}

/// Adds the edges between rows, or words, of a sequence as an argument. Returns its name.
static std::string printEdges(MethodBody &body, StringRef edges, Value sequence) {
  Operation *op = sequence.getDefiningOp();
  auto type = cast<SequenceType>(sequence.getType());
  auto scale = SymbolTable::lookupNearestSymbolFrom<ScaleOp>(op, type.getScale());
  auto axis = SymbolTable::lookupNearestSymbolFrom<AxisOp>(op, scale.getAxisAttr());
  std::string rows = axis.getSegments() ? body.getLength(sequence) : "rows";
  return body.getNames().addInput(
      edges, "bool [B, " + rows + ", " + rows + "], symmetric: the edges \"" + escapeText(edges) +
                 "\" of " + (axis.getSegments() ? "words" : "\"" + axis.getSymName().str() + "\""));
}

bool pytorch::printSegments(MethodBody &body, Operation *operation) {
  auto call = [&](Value result, StringRef helper, const std::string &arguments) {
    body.use(helper);
    body.define(result, helper.str() + "(" + arguments + ")");
  };
  return TypeSwitch<Operation *, bool>(operation)
      .Case([&](RecurrenceOp op) { return print(body, op), true; })
      .Case([&](SegmentOp op) { return print(body, op), true; })
      .Case([&](PoolSegmentsOp op) {
        call(op.getResult(), "pool_segments",
             readAll(body, op->getOperands()) + (op.getStarts() ? ", starts=True" : "") +
                 (op.getSum() ? ", total=True" : ""));
        return true;
      })
      .Case([&](SelectSegmentsOp op) {
        call(op.getResult(), "take_rows", readAll(body, {op.getInput(), op.getEnds()}));
        return true;
      })
      .Case([&](SpreadSegmentsOp op) {
        call(op.getResult(), "spread_segments",
             readAll(body, {op.getInput(), op.getCounts()}) + ", " + std::to_string(op.getBy()) +
                 (op.getOwn() ? ", own=True" : ""));
        return true;
      })
      .Case([&](AttendSegmentsOp op) {
        call(op.getOutput(), "attend_segments",
             readAll(body, op->getOperands()) + ", heads=" + std::to_string(op.getHeads()));
        return true;
      })
      .Case([&](AttendPartsOp op) {
        call(op.getResult(), "attend_parts",
             body.read(op.getQuery()) + ", (" + readAll(body, op.getKeys()) + "), (" +
                 readAll(body, op.getValues()) + "), heads=" + std::to_string(op.getHeads()));
        return true;
      })
      .Case([&](DegreesOp op) {
        body.define(op.getResult(),
                    "1.0 + " + printEdges(body, op.getEdges(), op.getResult()) + ".sum(-1)");
        return true;
      })
      .Case([&](GraphSumOp op) {
        call(op.getResult(), "graph_sum",
             body.read(op.getInput()) + ", " + printEdges(body, op.getEdges(), op.getInput()) +
                 (op.getLeft() ? ", left=" + body.read(op.getLeft()) : "") +
                 (op.getRight() ? ", right=" + body.read(op.getRight()) : ""));
        return true;
      })
      .Case([&](GraphAttentionOp op) {
        std::string seen;
        if (op.getFirst()) {
          body.use("in_ranges");
          seen = "in_ranges(" + readAll(body, {op.getFirst(), op.getEnd()}) + ", " +
                 body.getLength(op.getValue()) + ")";
        } else {
          seen = printEdges(body, *op.getEdges(), op.getValue());
        }
        call(op.getResult(), "graph_attention",
             readAll(body, {op.getSource(), op.getTarget(), op.getValue()}) + ", " + seen + ", " +
                 printNumber(op.getLeak()));
        return true;
      })
      .Case([&](ResampleOp op) {
        call(op.getResult(), "resample",
             body.read(op.getInput()) + ", " + body.getCount(op.getFine()) + ", " +
                 body.getCount(op.getCoarse()) + ", " + body.getLength(op.getFine()) + ", " +
                 body.getLength(op.getCoarse()) + (op.getLinear() ? ", linear=True" : "") +
                 (op.getTransposed() ? ", transposed=True" : ""));
        return true;
      })
      .Case([&](FitOp op) {
        call(op.getResult(), "fit",
             body.read(op.getInput()) + ", " + std::to_string(static_cast<int64_t>(op.getAt())) +
                 ", " + std::to_string(cast<SequenceType>(op.getResult().getType()).getWidth()));
        return true;
      })
      .Case([&](PlaceOp op) {
        int64_t number = cast<SequenceType>(op.getResult().getType()).getWidth() /
                         cast<SequenceType>(op.getInput().getType()).getWidth();
        call(op.getResult(), "place",
             readAll(body, op->getOperands()) + ", " + std::to_string(number));
        return true;
      })
      .Default(false);
}
