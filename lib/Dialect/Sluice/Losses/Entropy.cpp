// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Implements sluice.entropy and sluice.update: the entropy of a softmax, and the number of the
// update.
#include "../Cost.h"
#include "../Reference/Reference.h"
#include "sluice/Dialect/Sluice/Fusion.h"
#include "sluice/Dialect/Sluice/Labels.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::reference;

LogicalResult EntropyOp::verify() {
  SequenceType logits = getLogits().getType(), type = getResult().getType();
  if (logits.getScale() != type.getScale() || logits.getWidth() < 1 || type.getWidth() != 1 ||
      !logits.getElement().isF32() || !type.getElement().isF32()) {
    return emitOpError("S-127: expected rows of f32 and one column of f32 on one scale, found ")
           << logits << " and " << type;
  }
  return success();
}

LogicalResult UpdateOp::verify() {
  SequenceType type = getResult().getType();
  if (type.getWidth() != 0 || !type.getElement().isF32()) {
    return emitOpError("S-128: expected one f32 per position, found ") << type;
  }
  return success();
}

std::optional<IntegerSet> EntropyOp::getRelation(unsigned) {
  AffineExpr p = getAffineDimExpr(0, getContext()), q = getAffineDimExpr(1, getContext());
  return IntegerSet::get(2, 1, {q - p}, {true});
}
AffineExpr EntropyOp::getLatest(unsigned) { return getAffineDimExpr(0, getContext()); }
std::string EntropyOp::getNeutralName(unsigned) { return "map"; }

/// The op has no operands.
std::optional<IntegerSet> UpdateOp::getRelation(unsigned) { return std::nullopt; }
AffineExpr UpdateOp::getLatest(unsigned) { return {}; }

/// Per element: a maximum, a difference, an exponential, a product and two sums.
Cost EntropyOp::getCost() { return facts::cost(*this, 6 * facts::elements(*this, getLogits())); }
Cost UpdateOp::getCost() { return facts::cost(*this, 0); }

LogicalResult EntropyOp::buildBackward(OpBuilder &, ArrayRef<Value>, MutableArrayRef<Value>) {
  return success();
}
LogicalResult UpdateOp::buildBackward(OpBuilder &, ArrayRef<Value>, MutableArrayRef<Value>) {
  return success();
}

/// Computes log Z - (sum d e^d) / Z with d = x - max x and Z = sum e^d.
LogicalResult EntropyOp::emitBody(BodyBuilder &body) {
  ImplicitLocOpBuilder &b = body.builder();
  Value row = body.get(getLogits());
  if (!row) {
    return failure();
  }
  Value greatest = dispatch::ReduceOp::create(b, b.getF32Type(), dispatch::ReduceKind::Max, row);
  Value below = arith::SubFOp::create(b, row, body.splat(greatest, row.getType()));
  Value weights = math::ExpOp::create(b, below);
  Value sum = body.sum(weights), mean = body.sum(arith::MulFOp::create(b, below, weights));
  Value entropy =
      arith::SubFOp::create(b, math::LogOp::create(b, sum), arith::DivFOp::create(b, mean, sum));
  body.set(getResult(), body.splat(entropy, RankedTensorType::get({1}, b.getF32Type())));
  return success();
}

LogicalResult UpdateOp::emitBody(BodyBuilder &body) {
  ImplicitLocOpBuilder &b = body.builder();
  body.set(getResult(), arith::SIToFPOp::create(b, b.getF32Type(), body.getScalar("scalar:step")));
  return success();
}

/// Computes -sum p log p with p = e^x / sum e^x.
template <typename T> static void evaluate(EntropyOp op, Evaluator<T> &evaluator) {
  evaluator.define(op.getResult(), [&](int64_t b, int64_t position) {
    std::vector<T> row = evaluator.rowAt(op.getLogits(), b, position);
    T greatest = *std::max_element(row.begin(), row.end()), sum = 0, entropy = 0;
    for (T x : row) {
      sum += std::exp(x - greatest);
    }
    for (T x : row) {
      T logChance = x - greatest - std::log(sum);
      entropy -= std::exp(logChance) * logChance;
    }
    return std::vector<T>{entropy};
  });
}

template <typename T> static void evaluate(UpdateOp op, Evaluator<T> &evaluator) {
  evaluator.define(op.getResult(), [&](int64_t, int64_t) {
    return std::vector<T>{static_cast<T>(evaluator.getSetting().step)};
  });
}

SLUICE_REFERENCE(EntropyOp)
SLUICE_REFERENCE(UpdateOp)
