// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Converts attention between a scale and its segments (Pagnoni et al. 2024, sections 3.2.2 and
// 3.3.1).
#include "SpecToSluice.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::spec_to_sluice;

static std::string getPart(const char *name, int64_t part) {
  return std::string(name) + "." + std::to_string(part);
}

/// Returns keys or values of the rows of segments. If bits begin segments, these are the rows from
/// e(m - 1) to before e(m), as in a mean.
static Value createRowMap(StageContext &c, std::string part, Value over, bool begins) {
  Value rows = c.createLinear(part, over, c.computeType);
  if (!begins) {
    return rows;
  }
  c.setName(part + ".before");
  return c.materialize(part + ".rows", c.createShift(rows, 1));
}

/// Each segment attends to its own rows, with one query per part.
static void attendToRows(StageContext &c, spec::AttendOp op, Value x, Value over,
                         SmallVectorImpl<Value> &terms) {
  const Segmentation &of = c.getSegmentation(op.getSegments());
  int64_t heads = *op.getHeads();
  Value key = createRowMap(c, "key", over, of.begins);
  Value value = createRowMap(c, "value", over, of.begins);
  SequenceType type = c.getSequence(1, heads * *op.getHeadSize(), c.computeType);
  for (int64_t i = 0; i < op.getParts(); ++i) {
    Value query = c.createLinear(getPart("query", i), x, c.computeType);
    c.setName(getPart("mix", i));
    Value mixed = AttendSegmentsOp::create(c.b, type, c.getSequence(1, heads, c.b.getF32Type()),
                                           query, key, value, of.counts, of.ends, heads)
                      .getOutput();
    c.setName(getPart("output", i));
    Value weight = c.readWeight(c.getSymbol(getPart("output", i) + ".weight"));
    terms.push_back(LinearOp::create(c.b, c.getSequence(1, c.getWidth(), c.residualType), mixed,
                                     weight, i == 0 ? c.readOwn("output.bias") : Value()));
  }
}

/// Each row attends to the parts of one segment's row, which is spread to it.
/// Without such a row keys and values are zeros.
static Value attendToParts(StageContext &c, spec::AttendOp op, Value x, Value over) {
  const Segmentation &of = c.getSegmentation(op.getSegments());
  int64_t heads = *op.getHeads();
  SequenceType type = c.getSequence(c.getFactor(), heads * *op.getHeadSize(), c.computeType);
  auto spread = [&](const char *what, int64_t part) -> Value {
    Value rows = c.createLinear(getPart(what, part), over, c.computeType);
    c.setName(getPart(what, part) + ".spread");
    return SpreadSegmentsOp::create(c.b, type, rows, of.counts, of.ends, *op.getBy());
  };
  Value query = c.createLinear("query", x, c.computeType);
  SmallVector<Value> keys, values;
  for (int64_t i = 0; i < op.getParts(); ++i) {
    keys.push_back(spread("key", i));
    values.push_back(spread("value", i));
  }
  c.setName("mix");
  Value mixed = AttendPartsOp::create(c.b, type, query, keys, values, heads);
  return c.createLinear("output", mixed, c.residualType);
}

static Value convertAttend(StageContext &c, spec::AttendOp op) {
  Value x = c.materialize("rows", c.getValue(op.getInput()));
  Value own = c.createNorm("own", op.getNorm(), op.getEpsilon(), x, c.computeType);
  Value over = c.createNorm("over", op.getNorm(), op.getEpsilon(),
                            c.materialize("over.rows", c.getValue(op.getOver())), c.computeType);
  SmallVector<Value> terms = {x};
  if (op.readsRows()) {
    attendToRows(c, op, own, over, terms);
  } else {
    terms.push_back(attendToParts(c, op, own, over));
  }
  c.setName("sum");
  return c.createSum(terms);
}

void spec_to_sluice::populateAttendConversions(StageConversions &conversions) {
  conversions.add(convertAttend);
}
