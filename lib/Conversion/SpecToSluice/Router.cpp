// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Creates boundaries where a row differs from the row before (Hwang et al. 2025).
#include "SpecToSluice.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::spec_to_sluice;

Value spec_to_sluice::createInnerProduct(StageContext &c, StringRef part, Value x, Value y) {
  c.setName(part.str() + ".terms");
  Value terms = c.createProduct(x, y);
  c.setName(part);
  return c.createColumnSum(terms);
}

/// Computes (1 - cos(W_q x[t], W_k x[t - 1])) / 2, one column (equation 4).
static Value createDistanceBefore(StageContext &c, Value x) {
  auto &b = c.b;
  Value query = c.createLinear("own", x, b.getF32Type());
  Value key = c.createLinear("previous", x, b.getF32Type());
  c.setName("before");
  key = c.createShift(key, 1);
  Value both = createInnerProduct(c, "cosine", query, key);
  Value queries = createInnerProduct(c, "own.square", query, query);
  Value keys = createInnerProduct(c, "previous.square", key, key);
  c.setName("distance");
  Value distance = c.createMap({both, queries, keys}, [](ArrayRef<ScalarValue> v) {
    constexpr double least = 1e-12; // minimum of a squared norm
    ScalarValue size = sqrt(max(v[1], least) * max(v[2], least));
    ScalarValue one = v[0].get(1);
    return (one - v[0] / size) * 0.5;
  });
  c.setName("column");
  return RepeatColumnsOp::create(b, c.getSequence(c.getFactor(), 1, b.getF32Type()), distance);
}

/// Computes N / (N - 1) ((N - 1) F G + (1 - F) (1 - G)) in every row: F is the share of bits, G the
/// mean of the probabilities that were rounded to them (equation 10).
static Value createRatioLoss(StageContext &c, spec::BoundariesOp op, Value bits, Value chances) {
  c.setName("ratio");
  Value ones = createTokenNumbers(c, createClosedBits(c, c.createConstants(bits, 1)));
  auto createTotal = [&](Value x) {
    return c.createColumnSum(TotalOp::create(c.b, x.getType(), x));
  };
  Value count = createTotal(createTokenNumbers(c, bits));
  Value sum = createTotal(createTokenNumbers(c, createClosedBits(c, chances)));
  Value all = createTotal(ones);
  return c.createMap(addUpdate(c, op, {count, sum, all}), [&](ArrayRef<ScalarValue> v) {
    auto [ratio, less] = createRatio(c, op, v.drop_front(3));
    ScalarValue one = c.createNumber(1), rows = max(v[2], one);
    ScalarValue share = v[0] / rows, mean = v[1] / rows;
    ScalarValue set = less * (share * mean), unset = (one - share) * (one - mean);
    return ratio * (set + unset);
  });
}

/// Rounds probabilities to bits. Rounding has no derivative.
Value spec_to_sluice::createRoutedBits(StageContext &c, spec::BoundariesOp op) {
  Value rows = c.materialize("rows", c.getValue(op.getInput()));
  Value chances = createForcedBits(c, op, createDistanceBefore(c, rows));
  c.setName("bits");
  Value rounded = c.createMap(chances, [&](ArrayRef<ScalarValue> v) {
    ScalarValue isSet = isAtLeast(v[0], v[0].get(0.5)), one = c.createNumber(1);
    return select(isSet, one, c.createNumber(0));
  });
  Value bits = createClosedBits(c, rounded);
  if (c.purpose != Purpose::Predict) {
    Value losses = createRatioLoss(c, op, bits, chances);
    c.terms.push_back({losses, op.getName().str() + ".ratio", *op.getWeight(), 0});
  }
  c.segmentations[op.getName()].chances = chances;
  return bits;
}
