// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Implements FusionInterface for ops that are separate dispatches: weight gradients and scatters.
// FuseAttention.cpp has attention.
#include "sluice/Dialect/Plan/Plan.h"
#include "sluice/Dialect/Sluice/Fusion.h"

using namespace mlir;
using namespace sluice;

RankedTensorType DispatchEmitter::getTensorType(Value sequence) const {
  RankedTensorType type = getStoredType(scope, cast<SequenceType>(sequence.getType()));
  int64_t rows = step ? step->countRows(sequence) : 0;
  if (rows == 0) {
    return type;
  }
  SmallVector<int64_t> shape(type.getShape());
  shape[1] = rows;
  return RankedTensorType::get(shape, type.getElementType());
}

dispatch::DomainAttr DispatchEmitter::getRowDomain(Value sequence) const {
  auto type = cast<SequenceType>(sequence.getType());
  return domain(getBatch(scope), getPositions(scope, type), getScaleFactor(sequence));
}

dispatch::DomainAttr DispatchEmitter::wholeDomain(int64_t batch, int64_t positions) const {
  return domain(batch, positions, 0);
}

int64_t DispatchEmitter::getScaleFactor(Value sequence) const {
  return getDomainFactor(scope, cast<SequenceType>(sequence.getType()), axis);
}

dispatch::DomainAttr DispatchEmitter::domain(int64_t batch, int64_t positions,
                                             int64_t factor) const {
  MLIRContext *context = b.getContext();
  return dispatch::DomainAttr::get(context, batch, positions, factor, false,
                                   axis.empty() ? StringAttr() : StringAttr::get(context, axis));
}

Value DispatchEmitter::bind(StringRef place, Type type) {
  return plan::BindOp::create(b, type, place);
}

LogicalResult LinearWeightGradientOp::emitDispatches(DispatchEmitter &emitter) {
  auto op = dispatch::WeightGradientOp::create(
      emitter.b, getWeight().getType(), getBias() ? getBias().getType() : Type(),
      emitter.get(getGradient()), emitter.get(getInput()), emitter.get(getInitWeight()),
      emitter.get(getInitBias()), emitter.getRowDomain(getGradient()), StringAttr(), StringAttr());
  emitter.set(getWeight(), op.getWeight());
  if (getBias()) {
    emitter.set(getBias(), op.getBias());
  }
  return success();
}

LogicalResult EmbedBackwardOp::emitDispatches(DispatchEmitter &emitter) {
  Value table = dispatch::ScatterRowsOp::create(
      emitter.b, getTable().getType(), emitter.get(getTokens()), emitter.get(getGradient()),
      emitter.get(getInit()), emitter.getRowDomain(getGradient()), StringAttr(), StringAttr());
  emitter.set(getTable(), table);
  return success();
}

/// Computes the sum over the batch as a scatter by position: the constant table `positions` has p
/// at (b, p).
LogicalResult PositionBackwardOp::emitDispatches(DispatchEmitter &emitter) {
  dispatch::DomainAttr domain = emitter.getRowDomain(getGradient());
  bool given = isGiven(*this, cast<SequenceType>(getGradient().getType()));
  std::string place = "constant:positions";
  bool isPart = ::sluice::getDrawParts((*this)->getParentOfType<ModuleOp>()) > 1;
  if (given || isPart) { // the length of its axis, or of another shape of batches
    place += "." + std::to_string(domain.getPositions());
  }
  auto index =
      RankedTensorType::get({domain.getBatch(), domain.getPositions()}, emitter.b.getI32Type());
  Value table = dispatch::ScatterRowsOp::create(
      emitter.b, getTable().getType(), emitter.bind(place, index), emitter.get(getGradient()),
      Value(), domain, StringAttr(), StringAttr());
  emitter.set(getTable(), table);
  return success();
}
