// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Creates boundaries that two linear maps predict (Nawrot et al. 2023, sections 3.1 and 3.2).
#include "SpecToSluice.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::spec_to_sluice;

/// Creates the logit that a segment ends here, f32: two linear maps with GELU between.
static Value createBoundaryLogits(StageContext &c, Value x) {
  Value hidden = c.createLinear("in", x, c.computeType);
  c.setName("activation");
  hidden = c.createMap(hidden, [](ArrayRef<ScalarValue> v) {
    return applyActivation(spec::ActivationFunction::gelu, v[0]);
  });
  return c.createLinear("out", hidden, c.b.getF32Type());
}

/// Creates a draw of the Gumbel-sigmoid, rounded, with its own derivative (equation 4).
static ScalarValue createDraw(StageContext &c, spec::BoundariesOp op, ScalarValue logit,
                              ScalarValue zero, ScalarValue one) {
  constexpr double least = 1e-6; // minimum distance of a draw from 0 and 1
  ScalarValue draw = {c.b, dispatch::RandomOp::create(c.b, c.b.getF32Type(), c.nextRandom++, 1)};
  draw = min(max(draw, least), 1 - least);
  ScalarValue odds = draw / (one - draw);
  if (op.getPriorLogit().value_or(false)) {
    logit = logit + op.computeLogitShift();
  }
  ScalarValue moved = logit + log(odds);
  ScalarValue soft = sigmoid(moved * c.createNumber(1 / *op.getTemperature()), one);
  ScalarValue hard = selectAbove(soft, c.createNumber(0.5), one, zero);
  return {c.b, dispatch::StraightThroughOp::create(c.b, c.b.getF32Type(), hard, soft)};
}

/// Creates bits from logits: rounded probabilities. If nothing labels them, training draws them,
/// and the prior's logit may be added.
static Value createLogitBits(StageContext &c, spec::BoundariesOp op, Value logits) {
  bool isDrawn = (c.purpose == Purpose::Train || op.followsCode()) && !op.getRule();
  double shift = op.computeLogitShift();
  c.setName("bits");
  return c.createMap(logits, [&](ArrayRef<ScalarValue> v) {
    ScalarValue zero = c.createNumber(0), one = c.createNumber(1);
    return isDrawn ? createDraw(c, op, v[0], zero, one)
                   : selectAbove(v[0], c.createNumber(-shift), one, zero);
  });
}

/// Creates the binary cross-entropy of logits l against labels y: max(l, 0) - l y + log(1 +
/// exp(-|l|)). The public code applies the sigmoid before, and so twice in all.
static Value createSupervision(StageContext &c, spec::BoundariesOp op, Value logits, Value labels) {
  if (op.followsCode()) {
    c.setName("probability");
    logits = c.createMap(logits,
                         [&](ArrayRef<ScalarValue> v) { return sigmoid(v[0], c.createNumber(1)); });
  }
  c.setName("supervision");
  Value losses = c.createMap({logits, labels}, [&](ArrayRef<ScalarValue> v) {
    ScalarValue zero = c.createNumber(0), least = min(v[0], -v[0]); // -|l|
    ScalarValue rest = log1p(exp(least));
    return max(v[0], zero) - v[0] * v[1] + rest;
  });
  return c.createColumnSum(createTokenNumbers(c, losses));
}

/// Creates -log Binomial(k; L, a) / L in every row: k of a row's L tokens end a segment (equation
/// 6).
static Value createPriorLoss(StageContext &c, spec::BoundariesOp op, Value bits) {
  c.setName("prior");
  Value ones = createTokenNumbers(c, c.createConstants(bits, 1));
  bits = createTokenNumbers(c, bits);
  Value count = c.createColumnSum(TotalOp::create(c.b, bits.getType(), bits));
  Value all = c.createColumnSum(TotalOp::create(c.b, bits.getType(), ones));
  return c.createMap(addUpdate(c, op, {count, all}), [&](ArrayRef<ScalarValue> v) {
    ScalarValue one = c.createNumber(1), others = v[1] - v[0];
    auto logFactorial = [&](ScalarValue n) { return logGamma(n + one); };
    ScalarValue ways = logFactorial(v[0]) + logFactorial(others) - logFactorial(v[1]);
    auto [set, unset] = createBitCosts(c, op, v.drop_front(2));
    ScalarValue rate = v[0] * set + others * unset;
    // A row of segments has no tokens if nothing ends an outer segment.
    ScalarValue tokens = max(v[1], one);
    return (ways + rate) / tokens;
  });
}

Value spec_to_sluice::createPredictedBits(StageContext &c, spec::BoundariesOp op) {
  Value logits = createBoundaryLogits(c, c.materialize("rows", c.getValue(op.getInput())));
  Value bits = createClosedBits(c, createForcedBits(c, op, createLogitBits(c, op, logits)));
  if (c.purpose == Purpose::Predict) {
    return bits;
  }
  Value losses;
  if (op.getRule() == spec::SegmentRule::entropy && !c.scored.count(op.getLoss()->str())) {
    c.waiting[op.getLoss()->str()].push_back({op, logits, c.terms.size()});
  } else {
    losses = op.getRule() ? createSupervision(c, op, logits, createRuleBits(c, op))
                          : createPriorLoss(c, op, bits);
  }
  c.terms.push_back(
      {losses, op.getName().str() + (op.getRule() ? ".labels" : ".prior"), *op.getWeight(), 0});
  return bits;
}

void spec_to_sluice::superviseWaiting(StageContext &c, StringRef loss) {
  Operation *own = c.stage;
  for (const WaitingPredictor &predictor : c.waiting[loss.str()]) {
    spec::BoundariesOp op = predictor.stage;
    c.setStage(op);
    Value labels = createRuleBits(c, op);
    c.terms[predictor.term].losses = createSupervision(c, op, predictor.logits, labels);
  }
  c.setStage(own);
}
