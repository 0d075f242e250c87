// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Head and cross-entropy as dispatches: one for the rows (losses and, in training, the gradient of
// what the head reads) and in training one for the weights. No logits are stored.
#include "sluice/Dialect/Sluice/Fusion.h"

using namespace mlir;
using namespace sluice;

template <typename Op>
static dispatch::CrossEntropyOp emitRows(Op op, DispatchEmitter &emitter, bool training) {
  Value input = emitter.get(op.getInput());
  RankedTensorType losses = emitter.typeOf(op.getLosses());
  return dispatch::CrossEntropyOp::create(
      emitter.b, losses, training ? losses : Type(), training ? input.getType() : Type(), input,
      emitter.get(op.getWeight()), emitter.get(op.getTokens()), emitter.get(op.getBias()),
      emitter.domainOf(op.getInput()), op.getOffset(), StringAttr(), StringAttr());
}

LogicalResult CrossEntropyOp::emitDispatches(DispatchEmitter &emitter) {
  emitter.set(getLosses(), emitRows(*this, emitter, /*training=*/false).getLosses());
  return success();
}

LogicalResult CrossEntropyBackwardOp::emitDispatches(DispatchEmitter &emitter) {
  dispatch::CrossEntropyOp rows = emitRows(*this, emitter, /*training=*/true);
  emitter.set(getLosses(), rows.getLosses());
  emitter.set(getInputGradient(), rows.getInputGradient());
  auto weights = dispatch::CrossEntropyWeightGradientOp::create(
      emitter.b, getWeightGradient().getType(),
      getBiasGradient() ? rows.getBias().getType() : Type(), rows.getInput(), rows.getWeight(),
      rows.getTokens(), rows.getLse(), rows.getBias(), emitter.get(getInitWeight()),
      emitter.get(getInitBias()), rows.getDomain(), getOffset(), StringAttr(), StringAttr());
  emitter.set(getWeightGradient(), weights.getWeightGradient());
  if (getBiasGradient()) {
    emitter.set(getBiasGradient(), weights.getBiasGradient());
  }
  return success();
}
