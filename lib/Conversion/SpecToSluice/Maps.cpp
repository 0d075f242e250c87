// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Converts stages that map rows: norm, add, replace, project, dropout.
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

static Value convertReplace(StageContext &c, spec::ReplaceOp op) {
  int64_t block = op.getBlock(), start = op.getStart();
  int64_t missing = start == 0 ? 0 : block - start; // rows that the first block lacks
  auto &b = c.b;
  auto createInteger = [&](int64_t value) -> Value {
    return arith::ConstantOp::create(b, b.getI32IntegerAttr(static_cast<int32_t>(value)));
  };
  SmallVector<Value> inputs = {c.getValue(op.getWith()), c.getValue(op.getInput())};
  return c.createMap(inputs, [&](ArrayRef<ScalarValue> v) {
    Value row = dispatch::PositionOp::create(b, b.getI32Type());
    row = arith::AddIOp::create(b, row, createInteger(missing));
    row = arith::RemSIOp::create(b, row, createInteger(block));
    Value isStart = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, row, createInteger(0));
    return select({b, isStart}, v[0], v[1]);
  });
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
  conversions.add(convertProject);
  conversions.add(convertDropout);
}
