// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Implements DifferentiableInterface: the backward ops of each op.
#include "../Scales/Windows.h"
#include "sluice/Dialect/Sluice/Gradients.h"
#include "sluice/Dialect/Sluice/ScalarDifferentiation.h"
#include "sluice/Dialect/Sluice/Sluice.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace sluice;

LogicalResult EmbedOp::buildBackward(OpBuilder &b, ArrayRef<Value> results,
                                     MutableArrayRef<Value> operands) {
  operands[1] = EmbedBackwardOp::create(b, getLoc(), getTable().getType(), getTokens(), results[0],
                                        operands[1]);
  return success();
}

LogicalResult PositionOp::buildBackward(OpBuilder &b, ArrayRef<Value> results,
                                        MutableArrayRef<Value> operands) {
  Value table = PositionBackwardOp::create(b, getLoc(), getTable().getType(), results[0]);
  operands[0] = addGradient(b, operands[0], table);
  return success();
}

//===----------------------------------------------------------------------===//
// Map
//===----------------------------------------------------------------------===//

/// Returns a map whose region computes the derivative by `input` and has only the operands that it
/// uses; the result's gradient itself if the derivative is one; null if it is zero.
static FailureOr<Value> buildMapDerivative(MapOp op, OpBuilder &b, Value gradient, unsigned input) {
  OpBuilder::InsertionGuard guard(b);
  SmallVector<Value> inputs(op.getInputs());
  inputs.push_back(gradient);
  auto map = MapOp::create(b, op.getLoc(), op.getInputs()[input].getType(), inputs);
  Block &block = map.getBody().emplaceBlock();
  for (size_t i = 0; i < inputs.size(); ++i) {
    block.addArgument(b.getF32Type(), op.getLoc());
  }
  b.setInsertionPointToStart(&block);
  auto derivatives = differentiateScalar(b, op.getBody().front(), block.getArguments().drop_back(),
                                         block.getArguments().back());
  Value derivative = succeeded(derivatives) ? (*derivatives)[input] : Value();
  if (!derivative || derivative == block.getArguments().back()) {
    map.erase();
    if (failed(derivatives)) {
      return failure();
    }
    return derivative ? gradient : Value();
  }
  YieldOp::create(b, op.getLoc(), derivative);
  eraseDeadOps(block);
  for (int i = static_cast<int>(inputs.size()) - 1; i >= 0; --i) {
    if (block.getArgument(i).use_empty()) {
      block.eraseArgument(i);
      map->eraseOperand(i);
    }
  }
  return map.getResult();
}

LogicalResult MapOp::buildBackward(OpBuilder &b, ArrayRef<Value> results,
                                   MutableArrayRef<Value> operands) {
  for (unsigned i = 0; i < getInputs().size(); ++i) {
    FailureOr<Value> derivative = buildMapDerivative(*this, b, results[0], i);
    if (failed(derivative)) {
      return failure();
    }
    auto type = cast<SequenceType>(getInputs()[i].getType());
    operands[i] =
        *derivative ? convertSequence(b, getLoc(), *derivative, type.getElement()) : Value();
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Norms, linear maps, attention
//===----------------------------------------------------------------------===//

LogicalResult NormOp::buildBackward(OpBuilder &b, ArrayRef<Value> results,
                                    MutableArrayRef<Value> operands) {
  Type bias = getBias() ? getBias().getType() : Type();
  auto backward =
      NormBackwardOp::create(b, getLoc(), getInput().getType(), getGain().getType(), bias,
                             getInput(), getGain(), getMean(), getRstd(), results[0], getRmsAttr());
  operands[0] = backward.getInputGradient();
  operands[1] = addGradient(b, operands[1], backward.getGainGradient());
  if (getBias()) {
    operands[2] = addGradient(b, operands[2], backward.getBiasGradient());
  }
  return success();
}

/// Returns the type of the gradient of a weight, for any type of the weight operand.
static Type gradientType(Value weight) {
  return cast<RankedTensorType>(weight.getType()).clone(Float32Type::get(weight.getContext()));
}

/// Both products of the backward pass have factors of the compute type, too.
LogicalResult LinearOp::buildBackward(OpBuilder &b, ArrayRef<Value> results,
                                      MutableArrayRef<Value> operands) {
  Type bias = getBias() ? getBias().getType() : Type();
  Type compute = getComputeType(getWeight());
  Value gradient = convertSequence(b, getLoc(), results[0], compute);
  Value input = convertSequence(b, getLoc(), getInput(), compute);
  auto weight =
      LinearWeightGradientOp::create(b, getLoc(), gradientType(getWeight()), bias, gradient, input,
                                     operands[1], getBias() ? operands[2] : Value());
  operands[1] = weight.getWeight();
  if (getBias()) {
    operands[2] = weight.getBias();
  }
  operands[0] =
      LinearInputGradientOp::create(b, getLoc(), getInput().getType(), gradient, getWeight());
  return success();
}

LogicalResult AttentionOp::buildBackward(OpBuilder &b, ArrayRef<Value> results,
                                         MutableArrayRef<Value> operands) {
  bool isPacked = getQuery() == getKey() && getKey() == getValue();
  if (!isPacked && (getQuery() == getKey() || getQuery() == getValue())) {
    return emitError("S-023: attention has a gradient only where queries, keys and values are one "
                     "packed sequence, or queries are another than keys and values");
  }
  SmallVector<Type> types{getQuery().getType()};
  if (!isPacked) {
    types.push_back(getKey().getType());
  }
  if (getKey() != getValue()) {
    types.push_back(getValue().getType());
  }
  dispatch::DistanceTerms terms = getTerms();
  constexpr unsigned firstTerm = 3;
  size_t sources = types.size();
  for (Value term : getExtras().take_front(terms.count())) {
    types.push_back(isa<RankedTensorType>(term.getType()) ? gradientType(term) : term.getType());
  }
  OpBuilder::InsertionGuard guard(b);
  auto backward = AttentionBackwardOp::create(
      b, getLoc(), types, getQuery(), getKey(), getValue(), getOutput(), getLse(),
      convertSequence(b, getLoc(), results[0], getOutput().getType().getElement()), getExtras(),
      getHeads(), getKvHeads(), getHeadSize(), getQueryColumn(), getKeyColumn(), getValueColumn(),
      getMask(), getDropout(), getRandomId(), getDistanceBias(), getDistanceAttr(), getCentered());
  IRMapping mapping;
  getScore().cloneInto(&backward.getScore(), mapping);
  Block &derivative = backward.getScoreGradient().emplaceBlock();
  for (Type type : getScore().getArgumentTypes()) {
    derivative.addArgument(type, getLoc());
  }
  Value g = derivative.addArgument(b.getF32Type(), getLoc());
  b.setInsertionPointToStart(&derivative);
  auto products =
      differentiateScalar(b, getScore().front(), derivative.getArguments().drop_back(), g);
  if (failed(products)) {
    return failure();
  }
  // The score and a term's result have gradients; positions have none.
  SmallVector<Value> yielded{products->front()};
  llvm::append_range(yielded, ArrayRef(*products).drop_front(4));
  for (Value &product : yielded) {
    product = product ? product : arith::ConstantOp::create(b, getLoc(), b.getF32FloatAttr(0));
  }
  YieldOp::create(b, getLoc(), yielded);
  eraseDeadOps(derivative);
  llvm::copy(backward.getGradients().take_front(sources), operands.begin());
  b.setInsertionPointAfter(backward);
  for (auto [i, gradient] : llvm::enumerate(backward.getGradients().drop_front(sources))) {
    bool isTable = isa<RankedTensorType>(gradient.getType());
    Value &sum = operands[firstTerm + i];
    sum = isTable ? addGradient(b, sum, gradient) : gradient;
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Scales: shorten (Shorten.cpp) and upsample are each other's adjoints
//===----------------------------------------------------------------------===//

LogicalResult ShiftOp::buildBackward(OpBuilder &b, ArrayRef<Value> results,
                                     MutableArrayRef<Value> operands) {
  operands[0] = ShiftOp::create(b, getLoc(), getInput().getType(), results[0],
                                -static_cast<int64_t>(getBy()));
  return success();
}

LogicalResult UpsampleOp::buildBackward(OpBuilder &b, ArrayRef<Value> results,
                                        MutableArrayRef<Value> operands) {
  operands[0] = ShortenOp::create(b, getLoc(), getInput().getType(), results[0], getFactor(),
                                  dispatch::ReduceKind::Add);
  return success();
}

LogicalResult FoldOp::buildBackward(OpBuilder &b, ArrayRef<Value> results,
                                    MutableArrayRef<Value> operands) {
  operands[0] = facts::unfoldWindows(b, getLoc(), getInput().getType(), results[0], getRowGroup());
  return success();
}

LogicalResult UnfoldOp::buildBackward(OpBuilder &b, ArrayRef<Value> results,
                                      MutableArrayRef<Value> operands) {
  operands[0] = FoldOp::create(b, getLoc(), getInput().getType(), results[0], getFactor(),
                               /*window=*/0);
  return success();
}

LogicalResult LastOp::buildBackward(OpBuilder &, ArrayRef<Value>, MutableArrayRef<Value>) {
  return emitError("S-024: the last position is for generation and has no gradient");
}

LogicalResult ObjectiveOp::buildBackward(OpBuilder &b, ArrayRef<Value>,
                                         MutableArrayRef<Value> operands) {
  for (auto [i, losses] : llvm::enumerate(getLosses())) {
    if (getFactors()[i] == 0) { // reported, but not part of the objective
      continue;
    }
    auto weights = getWeights() ? cast<StringAttr>((*getWeights())[i]) : b.getStringAttr("");
    operands[i] = MeanGradientOp::create(b, getLoc(), losses.getType(),
                                         llvm::APFloat(static_cast<float>(getFactors()[i])),
                                         getFirst()[i], getPadded(), getBatches(), weights);
  }
  return success();
}

/// The gradient of a mean is one number: the backward op divides by the number of rows itself, and
/// nothing is stored. With several batches it is the mean gradient of one batch divided by their
/// number. If training also uses the losses, the same pass computes them, and the forward op is
/// dead; any other gradient may depend on them.
LogicalResult CrossEntropyOp::buildBackward(OpBuilder &b, ArrayRef<Value> results,
                                            MutableArrayRef<Value> operands) {
  if (!getTarget().empty()) {
    return emitError("S-146: expected losses against tokens alone, found one against \"")
           << getTarget() << "\"; run sluice-expand-soft-targets before";
  }
  Type bias = getBias() ? getBias().getType() : Type();
  auto mean = results[0].getDefiningOp<MeanGradientOp>();
  bool isMean =
      mean && mean.getFirst() == getFirst() && !mean.getPadded() && mean.getWeights().empty();
  float factor = isMean ? mean.getFactor().convertToFloat() / float(mean.getBatches()) : 1.0F;
  auto backward = CrossEntropyBackwardOp::create(
      b, getLoc(), getLosses().getType(), getInput().getType(), gradientType(getWeight()), bias,
      getInput(), getWeight(), getTokens(), getBias(), isMean ? Value() : results[0], operands[1],
      getBias() ? operands[3] : Value(), getOffset(), getFirst(), getSmoothing(),
      llvm::APFloat(factor));
  if (isMean) {
    getLosses().replaceAllUsesWith(backward.getLosses());
  }
  operands[0] = backward.getInputGradient();
  operands[1] = backward.getWeightGradient();
  if (getBias()) {
    operands[3] = backward.getBiasGradient();
  }
  return success();
}
