// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Converts a transformer layer, an attention block and then a feed-forward block, and each block as
// a stage of its own.
#include "Attention.h"
#include "SpecToSluice.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::spec_to_sluice;

/// Returns silu(gate) * in.
static ScalarValue gate(ScalarValue gate, ScalarValue in) {
  ScalarValue decay = exp(-gate);
  return gate / (decay + 1) * in;
}

template <typename Op> static Value createFeedForward(StageContext &c, Op op, Value x) {
  SmallVector<Value> maps;
  if (op.getActivation() == spec::ActivationFunction::swiglu) {
    maps.push_back(c.createLinear("feed_forward.gate", x, c.computeType));
  }
  maps.push_back(c.createLinear("feed_forward.in", x, c.computeType));
  c.setName("feed_forward.activation");
  Value hidden = c.createMap(maps, [&](ArrayRef<ScalarValue> v) {
    ScalarValue active =
        v.size() == 2 ? gate(v[0], v[1]) : applyActivation(op.getActivation(), v[0]);
    return c.createDropout(active, op.getFeedForwardDropout(), *op.getFeedForward());
  });
  return c.createLinear("feed_forward.out", hidden, c.residualType);
}

/// Returns x + drop(inner(norm(x))), without the norm if streams come normed, or norm(x +
/// drop(inner(x))).
template <typename Op>
static Value createResidual(StageContext &c, Op op, StringRef block, Value x, bool hasNorm,
                            function_ref<Value(Value)> inner) {
  bool isPre = op.getPlacement() == spec::NormPlacement::pre;
  auto normalize = [&](Value v) {
    return c.createNorm(block, op.getNorm(), op.getEpsilon(), v,
                        isPre ? c.computeType : c.residualType);
  };
  Value branch = inner(isPre && hasNorm ? normalize(x) : x);
  c.setName((block + ".sum").str());
  Value sum = c.createMap({x, branch}, [&](ArrayRef<ScalarValue> v) {
    return v[0] + c.createDropout(v[1], op.getDropout(), c.getWidth());
  });
  return isPre ? sum : normalize(sum);
}

template <typename Op> static Value createFeedForwardBlock(StageContext &c, Op op, Value x) {
  return createResidual(c, op, "feed_forward", x, /*hasNorm=*/true,
                        [&](Value v) { return createFeedForward(c, op, v); });
}

static Value convertFeedForward(StageContext &c, spec::FeedForwardOp op) {
  return createFeedForwardBlock(c, op, c.getValue(op.getInput()));
}

/// The three streams have norms and maps of their own, so the residual sum alone reads the input.
static Value convertAttentionStage(StageContext &c, spec::AttentionOp op) {
  return createResidual(c, op, "attention", c.getValue(op.getInput()), /*hasNorm=*/false,
                        [&](Value) { return convertStreams(c, op); });
}

static Value convertLayer(StageContext &c, spec::LayerOp op) {
  Value x = createResidual(c, op, "attention", c.getValue(op.getInput()), op.getAttentionNorm(),
                           [&](Value v) { return convertAttention(c, op, v); });
  return *op.getFeedForward() == 0 ? x : createFeedForwardBlock(c, op, x);
}

void spec_to_sluice::populateLayerConversions(StageConversions &conversions) {
  conversions.add(convertLayer);
  conversions.add(convertFeedForward);
  conversions.add(convertAttentionStage);
}
