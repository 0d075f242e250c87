// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Implements FusionInterface: the part of each op in a dispatch.
#include "sluice/Dialect/Sluice/Fusion.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace sluice;

//===----------------------------------------------------------------------===//
// Reads
//===----------------------------------------------------------------------===//

/// Returns true if the position counts from the end of the accessed scale; the length of a coarser
/// scale does not determine that end.
static bool countsFromEnd(const AccessChain &chain) { return chain.position.isFunctionOfSymbol(0); }

/// Returns true if a shift accesses rows of another scale, through maps that are not stored.
static bool readsCoarser(ShiftOp shift) {
  SequenceType type = shift.getInput().getType();
  Value source = shift.getInput();
  while (isLazy(source)) {
    source = source.getDefiningOp()->getOperand(0);
  }
  return cast<SequenceType>(source.getType()).getScale() != type.getScale();
}

/// Stores the last row, and not a row of the operand, for a shift of a coarser scale, because a
/// step computes only the last row.
Value ShiftOp::composeAccess(AccessChain &chain) {
  if (countsFromEnd(chain) && readsCoarser(*this)) {
    return {};
  }
  chain.position = chain.position - static_cast<int64_t>(getBy());
  return getInput();
}

Value UpsampleOp::composeAccess(AccessChain &chain) {
  if (countsFromEnd(chain)) {
    return {};
  }
  chain.position = chain.position.floorDiv(getFactor());
  return getInput();
}

Value UnfoldOp::composeAccess(AccessChain &chain) {
  // A column that depends on the row within a group, or on two unfolds, cannot be expressed: the
  // value is stored instead.
  bool plain = chain.group == 1 && isa<AffineConstantExpr>(chain.column) && !countsFromEnd(chain);
  if (!plain) {
    return {};
  }
  int64_t factor = getFactor();
  chain.column = chain.position % factor * static_cast<int64_t>(getResult().getType().getWidth());
  chain.position = chain.position.floorDiv(factor);
  return getInput();
}

Value LastOp::composeAccess(AccessChain &chain) {
  chain.position = getAffineSymbolExpr(0, getContext()) - 1;
  return getInput();
}

//===----------------------------------------------------------------------===//
// Bodies
//===----------------------------------------------------------------------===//

LogicalResult EmbedOp::emitBody(BodyBuilder &body) {
  Value token = body.get(getTokens());
  body.set(getResult(), body.getGatheredRow(getTable(), token));
  return success();
}

LogicalResult PositionOp::emitBody(BodyBuilder &body) {
  body.set(getResult(), body.getTableRow(getTable()));
  return success();
}

LogicalResult MapOp::emitBody(BodyBuilder &body) {
  SmallVector<Value> arguments;
  for (Value input : getInputs()) {
    arguments.push_back(body.get(input));
    if (!arguments.back()) {
      return failure();
    }
  }
  body.set(getResult(), body.cloneScalar(getBody().front(), arguments));
  return success();
}

RowGroup FoldOp::getRowGroup() {
  return RowGroup::endingWithGroup(static_cast<int64_t>(getFactor()),
                                   static_cast<int64_t>(getWindow()));
}
bool FoldOp::yieldsGroup() { return true; }

LogicalResult FoldOp::emitBody(BodyBuilder &body) {
  RowGroup group = getRowGroup();
  Value rows =
      group.window == 1 ? body.getMember(getInput(), group, 0) : body.getGroup(getInput(), group);
  body.set(getResult(), rows);
  return success(rows != nullptr);
}

/// In an epilogue, the contraction's own value is the accumulator, which is already in the body.
LogicalResult LinearOp::emitBody(BodyBuilder &body) {
  Value result = body.lookup(getResult());
  if (getBias()) {
    result = arith::AddFOp::create(body.builder(), result, body.getVector(getBias()));
  }
  body.set(getResult(), result);
  return success();
}

LogicalResult LinearInputGradientOp::emitBody(BodyBuilder &) { return success(); }

LogicalResult NormOp::emitBody(BodyBuilder &body) {
  ImplicitLocOpBuilder &b = body.builder();
  Value x = body.get(getInput());
  if (!x) {
    return failure();
  }
  Type row = x.getType();
  Type number = b.getF32Type();
  Value share = body.constant(number, 1.0 / static_cast<double>(getInput().getType().getWidth()));
  Value mean = body.constant(number, 0);
  Value centred = x;
  if (!getRms()) {
    mean = arith::MulFOp::create(b, body.sum(x), share);
    centred = arith::SubFOp::create(b, x, body.splat(mean, row));
  }
  Value variance =
      arith::MulFOp::create(b, body.sum(arith::MulFOp::create(b, centred, centred)), share);
  Value padded =
      arith::AddFOp::create(b, variance, body.constant(number, getEpsilon().convertToDouble()));
  Value rstd = arith::DivFOp::create(b, body.constant(number, 1), math::SqrtOp::create(b, padded));
  Value result = arith::MulFOp::create(b, centred, body.splat(rstd, row));
  result = arith::MulFOp::create(b, result, body.getVector(getGain()));
  if (getBias()) {
    result = arith::AddFOp::create(b, result, body.getVector(getBias()));
  }
  body.set(getResult(), result);
  body.set(getMean(), mean);
  body.set(getRstd(), rstd);
  return success();
}

LogicalResult NormBackwardOp::emitBody(BodyBuilder &body) {
  ImplicitLocOpBuilder &b = body.builder();
  Value x = body.get(getInput());
  Value dy = body.get(getGradient());
  if (!x || !dy) {
    return failure();
  }
  Type row = x.getType();
  Value share =
      body.constant(b.getF32Type(), 1.0 / static_cast<double>(getInput().getType().getWidth()));
  Value rstd = body.splat(body.get(getRstd()), row);
  Value centred =
      getRms() ? x : Value(arith::SubFOp::create(b, x, body.splat(body.get(getMean()), row)));
  Value h = arith::MulFOp::create(b, centred, rstd);
  Value e = arith::MulFOp::create(b, dy, body.getVector(getGain()));
  Value along = arith::MulFOp::create(b, body.sum(arith::MulFOp::create(b, e, h)), share);
  Value inner = arith::SubFOp::create(b, e, arith::MulFOp::create(b, h, body.splat(along, row)));
  if (!getRms()) {
    Value mean = arith::MulFOp::create(b, body.sum(e), share);
    inner = arith::SubFOp::create(b, inner, body.splat(mean, row));
  }
  body.set(getInputGradient(), arith::MulFOp::create(b, inner, rstd));
  body.set(getGainGradient(), arith::MulFOp::create(b, dy, h));
  if (getBiasGradient()) {
    body.set(getBiasGradient(), dy);
  }
  return success();
}
