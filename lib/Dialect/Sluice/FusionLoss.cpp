// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Head and cross-entropy as dispatches over chunks of rows: logits exist for one chunk at a time,
// sized to a core's caches. A chunk is four launches in training (logits, softmax, rows' gradient,
// weights' gradient) and two in evaluation.
#include "sluice/Dialect/Plan/Plan.h"
#include "sluice/Dialect/Sluice/Fusion.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace sluice;
using dispatch::AccessAttr;
using dispatch::AccessKind;

namespace {

/// The chunked head of one cross-entropy op.
class ChunkedHead {
public:
  ChunkedHead(DispatchEmitter &emitter, Value input, Value weight, Value bias, Value tokens,
              int64_t offset)
      : emitter(emitter), b(emitter.b), input(emitter.get(input)), weight(emitter.get(weight)),
        bias(emitter.get(bias)), tokens(emitter.get(tokens)), offset(offset), sequence(input) {
    auto type = cast<RankedTensorType>(emitter.get(weight).getType());
    vocabulary = type.getDimSize(0);
    dispatch::DomainAttr whole = emitter.domainOf(input);
    rowCount = whole.getBatch() * whole.getPositions();
    chunk = chunkRows();
    domain = emitter.domainOf(input, chunk);
  }

  int64_t chunks() const { return (rowCount + chunk - 1) / chunk; }
  Value logits(int64_t index);
  /// Softmax over a chunk's logits; returns losses (chained over chunks) and, in training, the
  /// logits' gradient in place.
  std::pair<Value, Value> softmax(int64_t index, Value logits, Value losses, bool training);
  Value inputGradient(int64_t index, Value gradient, Value soFar);
  std::pair<Value, Value> weightGradient(int64_t index, Value gradient, Value soFar,
                                         Value biasSoFar);

private:
  /// At most 2 MB of logits, and never the whole batch's where it has more than a few rows.
  int64_t chunkRows() const {
    int64_t fitting = std::max<int64_t>(64, (int64_t(2) << 20) / 4 / vocabulary);
    int64_t halves = rowCount >= 128 ? (rowCount + 1) / 2 : rowCount;
    return std::min(fitting, halves);
  }
  AccessAttr access(AccessKind kind) { return AccessAttr::get(b.getContext(), kind); }
  void mark(Operation *op, int64_t index) {
    op->setAttr("plan.row0", b.getI64IntegerAttr(index * chunk));
  }
  void emitSoftmax(Block &block, bool training);

  DispatchEmitter &emitter;
  ImplicitLocOpBuilder &b;
  Value input, weight, bias, tokens;
  int64_t offset, vocabulary, rowCount, chunk;
  Value sequence;
  dispatch::DomainAttr domain;
};

Value ChunkedHead::logits(int64_t index) {
  SmallVector<Value> operands{input, weight};
  SmallVector<Attribute> accesses;
  if (bias) {
    operands.push_back(bias);
    accesses.push_back(access(AccessKind::Vector));
  }
  Type f32 = b.getF32Type();
  auto type = RankedTensorType::get({chunk, vocabulary}, f32);
  auto op = dispatch::ContractOp::create(
      b, TypeRange{type}, input, weight, ValueRange(operands).drop_front(2), domain, UnitAttr(),
      UnitAttr(), b.getArrayAttr(accesses), b.getArrayAttr({access(AccessKind::Local)}),
      DenseI64ArrayAttr(), StringAttr());
  Block &block = op.getEpilogue().emplaceBlock();
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(&block);
  Value result = block.addArgument(f32, b.getLoc());
  if (bias) {
    result = arith::AddFOp::create(b, result, block.addArgument(f32, b.getLoc()));
  }
  dispatch::YieldOp::create(b, result);
  mark(op, index);
  return op.getResult(0);
}

void ChunkedHead::emitSoftmax(Block &block, bool training) {
  Type f32 = b.getF32Type();
  auto row = RankedTensorType::get({vocabulary}, f32);
  auto integers = RankedTensorType::get({vocabulary}, b.getI32Type());
  Value x = block.addArgument(row, b.getLoc());
  Value target = block.addArgument(b.getI32Type(), b.getLoc());
  Value length = block.addArgument(b.getI64Type(), b.getLoc());
  Value batchRows = block.addArgument(b.getI64Type(), b.getLoc());
  auto splat = [&](Value number, RankedTensorType type) -> Value {
    return tensor::SplatOp::create(b, type, number);
  };
  auto constant = [&](float value) -> Value {
    return arith::ConstantOp::create(b, DenseElementsAttr::get(row, value));
  };
  Value maximum = dispatch::ReduceOp::create(b, f32, dispatch::ReduceKind::Max, x);
  Value shifted = math::ExpOp::create(b, arith::SubFOp::create(b, x, splat(maximum, row)));
  Value sum = dispatch::ReduceOp::create(b, f32, dispatch::ReduceKind::Add, shifted);
  Value lse = arith::AddFOp::create(b, maximum, math::LogOp::create(b, sum));
  Value column = dispatch::ColumnOp::create(b, integers);
  Value isTarget =
      arith::CmpIOp::create(b, arith::CmpIPredicate::eq, column, splat(target, integers));
  Value chosen = dispatch::ReduceOp::create(b, f32, dispatch::ReduceKind::Add,
                                            arith::SelectOp::create(b, isTarget, x, constant(0)));
  SmallVector<Value> results{arith::SubFOp::create(b, lse, chosen)};
  if (training) {
    Value count = arith::SIToFPOp::create(b, f32, arith::MulIOp::create(b, length, batchRows));
    Value share =
        arith::DivFOp::create(b, arith::ConstantOp::create(b, b.getF32FloatAttr(1)), count);
    Value probability = math::ExpOp::create(b, arith::SubFOp::create(b, x, splat(lse, row)));
    Value expected = arith::SelectOp::create(b, isTarget, constant(1), constant(0));
    Value difference = arith::SubFOp::create(b, probability, expected);
    results.push_back(arith::MulFOp::create(b, difference, splat(share, row)));
  }
  dispatch::YieldOp::create(b, results);
}

std::pair<Value, Value> ChunkedHead::softmax(int64_t index, Value logits, Value losses,
                                             bool training) {
  auto scalar = RankedTensorType::get({}, b.getI64Type());
  AffineExpr p = b.getAffineDimExpr(0);
  auto targetAccess = AccessAttr::get(b.getContext(), AccessKind::Row,
                                      AffineMapAttr::get(AffineMap::get(2, 1, p + offset)), 1, 0,
                                      access(AccessKind::Row).getColumn(), -1);
  SmallVector<Value> operands{logits, tokens, emitter.bind("scalar:length", scalar),
                              emitter.bind("scalar:rows", scalar)};
  SmallVector<Attribute> accesses{access(AccessKind::Local), targetAccess,
                                  access(AccessKind::Scalar), access(AccessKind::Scalar)};
  auto lossType = RankedTensorType::get({domain.getBatch(), domain.getPositions()}, b.getF32Type());
  SmallVector<Type> types{lossType};
  SmallVector<Attribute> resultAccesses{access(AccessKind::Row)};
  SmallVector<int64_t> aliases{-1};
  if (training) {
    types.push_back(logits.getType());
    resultAccesses.push_back(access(AccessKind::Local));
    aliases.push_back(0);
  }
  if (losses) {
    aliases[0] = operands.size();
    operands.push_back(losses);
    accesses.push_back(access(AccessKind::Row));
  }
  auto op = dispatch::RowsOp::create(b, types, operands, domain, b.getArrayAttr(accesses),
                                     b.getArrayAttr(resultAccesses), b.getUnitAttr(),
                                     b.getDenseI64ArrayAttr(aliases), StringAttr());
  Block &block = op.getBody().emplaceBlock();
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(&block);
  emitSoftmax(block, training);
  if (losses) {
    block.addArgument(b.getF32Type(), b.getLoc());
  }
  mark(op, index);
  return {op.getResult(0), training ? op.getResult(1) : Value()};
}

Value ChunkedHead::inputGradient(int64_t index, Value gradient, Value soFar) {
  Type f32 = b.getF32Type();
  SmallVector<Value> extras;
  SmallVector<Attribute> accesses;
  DenseI64ArrayAttr aliases;
  if (soFar) {
    extras.push_back(soFar);
    accesses.push_back(access(AccessKind::Row));
    aliases = b.getDenseI64ArrayAttr({2});
  }
  auto op = dispatch::ContractOp::create(
      b, TypeRange{input.getType()}, gradient, weight, extras, domain, b.getUnitAttr(),
      b.getUnitAttr(), b.getArrayAttr(accesses), b.getArrayAttr({access(AccessKind::Row)}), aliases,
      StringAttr());
  Block &block = op.getEpilogue().emplaceBlock();
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(&block);
  Value result = block.addArgument(f32, b.getLoc());
  if (soFar) {
    block.addArgument(f32, b.getLoc());
  }
  dispatch::YieldOp::create(b, result);
  mark(op, index);
  return op.getResult(0);
}

std::pair<Value, Value> ChunkedHead::weightGradient(int64_t index, Value gradient, Value soFar,
                                                    Value biasSoFar) {
  auto op =
      dispatch::WeightGradientOp::create(b, weight.getType(), bias ? bias.getType() : Type(),
                                         gradient, input, soFar, biasSoFar, domain, StringAttr());
  mark(op, index);
  return {op.getWeight(), op.getBias()};
}

} // namespace

LogicalResult CrossEntropyOp::emitDispatches(DispatchEmitter &emitter) {
  ChunkedHead head(emitter, getInput(), getWeight(), getBias(), getTokens(), getOffset());
  Value losses;
  for (int64_t i = 0; i < head.chunks(); ++i) {
    losses = head.softmax(i, head.logits(i), losses, /*training=*/false).first;
  }
  emitter.set(getLosses(), losses);
  return success();
}

LogicalResult CrossEntropyBackwardOp::emitDispatches(DispatchEmitter &emitter) {
  ChunkedHead head(emitter, getInput(), getWeight(), getBias(), getTokens(), getOffset());
  Value losses;
  Value inputGradient;
  Value weight = emitter.get(getInitWeight());
  Value bias = emitter.get(getInitBias());
  for (int64_t i = 0; i < head.chunks(); ++i) {
    auto [chained, gradient] = head.softmax(i, head.logits(i), losses, /*training=*/true);
    losses = chained;
    inputGradient = head.inputGradient(i, gradient, inputGradient);
    std::tie(weight, bias) = head.weightGradient(i, gradient, weight, bias);
  }
  emitter.set(getLosses(), losses);
  emitter.set(getInputGradient(), inputGradient);
  emitter.set(getWeightGradient(), weight);
  if (getBiasGradient()) {
    emitter.set(getBiasGradient(), bias);
  }
  return success();
}
