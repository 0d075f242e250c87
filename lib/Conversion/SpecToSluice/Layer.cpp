// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Converts a transformer layer: an attention block, then a feed-forward block.
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

static Value convertFeedForward(StageContext &c, spec::LayerOp op, Value x) {
  SmallVector<Value> maps;
  if (op.getActivation() == spec::ActivationFunction::swiglu) {
    maps.push_back(c.createLinear("feed_forward.gate", x, c.computeType));
  }
  maps.push_back(c.createLinear("feed_forward.in", x, c.computeType));
  c.setName("feed_forward.activation");
  Value hidden = c.createMap(maps, [&](ArrayRef<ScalarValue> v) {
    return v.size() == 2 ? gate(v[0], v[1]) : applyActivation(op.getActivation(), v[0]);
  });
  return c.createLinear("feed_forward.out", hidden, c.residualType);
}

/// Returns x + drop(inner(norm(x))), without the norm if streams come normed, or norm(x +
/// drop(inner(x))).
static Value createResidual(StageContext &c, spec::LayerOp op, StringRef block, Value x,
                            bool hasNorm, function_ref<Value(Value)> inner) {
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

static Value convertLayer(StageContext &c, spec::LayerOp op) {
  Value x = createResidual(c, op, "attention", c.getValue(op.getInput()), op.getAttentionNorm(),
                           [&](Value v) { return convertAttention(c, op, v); });
  return createResidual(c, op, "feed_forward", x, /*hasNorm=*/true,
                        [&](Value v) { return convertFeedForward(c, op, v); });
}

void spec_to_sluice::populateLayerConversions(StageConversions &conversions) {
  conversions.add(convertLayer);
}
