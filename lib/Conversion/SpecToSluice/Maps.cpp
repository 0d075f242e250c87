// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Converts stages that map rows: norm, add, replace, clear, fit, positions, project,
// dropout.
#include "SpecToSluice.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::spec_to_sluice;

static Value convertNorm(StageContext &c, spec::NormOp op) {
  return c.createNorm("", op.getNorm(), op.getEpsilon(), c.getValue(op.getInput()), c.residualType);
}

static Value convertAdd(StageContext &c, spec::AddOp op) {
  return c.createSum({c.getValue(op.getInput()), c.getValue(op.getWith())});
}

/// Returns true in the rows at which a block starts: `start`, start + block and so on.
static ScalarValue createBlockStart(StageContext &c, int64_t block, int64_t start) {
  int64_t missing = start == 0 ? 0 : block - start; // rows that the first block lacks
  auto &b = c.b;
  auto createInteger = [&](int64_t value) -> Value {
    return arith::ConstantOp::create(b, b.getI32IntegerAttr(static_cast<int32_t>(value)));
  };
  Value row = dispatch::PositionOp::create(b, b.getI32Type());
  row = arith::AddIOp::create(b, row, createInteger(missing));
  row = arith::RemSIOp::create(b, row, createInteger(block));
  return {b, arith::CmpIOp::create(b, arith::CmpIPredicate::eq, row, createInteger(0))};
}

static Value convertReplace(StageContext &c, spec::ReplaceOp op) {
  SmallVector<Value> inputs = {c.getValue(op.getWith()), c.getValue(op.getInput())};
  return c.createMap(inputs, [&](ArrayRef<ScalarValue> v) {
    return select(createBlockStart(c, op.getBlock(), op.getStart()), v[0], v[1]);
  });
}

/// Sets rows to zeros: those at which a block starts, or which have a bit.
static Value convertClear(StageContext &c, spec::ClearOp op) {
  Value x = c.getValue(op.getInput());
  if (op.getSegments()) {
    return createGatedRows(c, x, c.getSegmentation(op.getSegments()).bits, [&](ScalarValue bit) {
      return selectAbove(bit, c.createNumber(0.5), c.createNumber(0), c.createNumber(1));
    });
  }
  return c.createMap(x, [&](ArrayRef<ScalarValue> v) {
    return select(createBlockStart(c, *op.getBlock(), op.getStart()), c.createNumber(0), v[0]);
  });
}

static Value convertFit(StageContext &c, spec::FitOp op) {
  Value x = c.materialize("rows", c.getValue(op.getInput()));
  c.setName("fit");
  auto type = cast<SequenceType>(x.getType());
  return FitOp::create(c.b,
                       SequenceType::get(c.b.getContext(), type.getScale(),
                                         static_cast<int64_t>(op.getWidth()), type.getElement()),
                       x, op.getAt());
}

/// Adds rows of a table, which has some columns, to the last ones of a stream.
static Value convertPositions(StageContext &c, spec::PositionsOp op) {
  Value x = c.getValue(op.getInput());
  int64_t width = c.getWidth(), columns = op.getColumns().value_or(width);
  c.setName("position");
  Value rows = PositionOp::create(c.b, c.getSequence(c.getFactor(), columns, c.residualType),
                                  c.readOwn("weight"));
  if (op.getColumns()) {
    c.setName("fit");
    rows = FitOp::create(c.b, c.getSequence(c.getFactor(), width, c.residualType), rows,
                         width - columns);
  }
  c.setName("sum");
  return c.createSum({x, rows});
}

/// Computes both products as one, with [W | V] and the concatenated rows, but without storing
/// those.
static Value convertProject(StageContext &c, spec::ProjectOp op) {
  Value x = c.materialize("rows", c.getValue(op.getInput()));
  SmallVector<Value> terms = {c.createLinear("", x, c.residualType)};
  if (op.getWith()) {
    Value z = c.materialize("with.rows", c.getValue(op.getWith()));
    terms.push_back(c.createLinear("with", z, c.residualType));
  }
  if (terms.size() == 1 && op.getActivation() == spec::ActivationFunction::none) {
    return terms.front();
  }
  c.setName("project");
  return c.createMap(terms, [&](ArrayRef<ScalarValue> v) {
    return applyActivation(op.getActivation(), v.size() == 1 ? v[0] : v[0] + v[1]);
  });
}

static Value convertDropout(StageContext &c, spec::DropoutOp op) {
  Value x = c.getValue(op.getInput());
  if (c.purpose != Purpose::Train || op.getRate() == 0) {
    return x;
  }
  return c.createMap(x, [&](ArrayRef<ScalarValue> v) {
    return c.createDropout(v[0], op.getRate(), c.getWidth());
  });
}

void spec_to_sluice::populateMapConversions(StageConversions &conversions) {
  conversions.add(convertNorm);
  conversions.add(convertAdd);
  conversions.add(convertReplace);
  conversions.add(convertClear);
  conversions.add(convertFit);
  conversions.add(convertPositions);
  conversions.add(convertProject);
  conversions.add(convertDropout);
}
