// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Implements sluice.soft_loss, the loss of logits against distributions from data.
#include "../Cost.h"
#include "../Reference/Numbers.h"
#include "../Reference/Reference.h"
#include "sluice/Dialect/Sluice/Fusion.h"
#include "sluice/Dialect/Sluice/Labels.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace sluice;
using namespace sluice::reference;
using dispatch::RowRead;

LogicalResult SoftLossOp::verify() {
  SequenceType logits = getLogits().getType(), tokens = getTokens().getType(),
               type = getLosses().getType();
  if (!isa<BlockArgument>(getTokens()) || logits.getScale() != type.getScale() ||
      tokens.getScale() != type.getScale() || logits.getWidth() < 1 || type.getWidth() != 0 ||
      !logits.getElement().isF32() || !type.getElement().isF32()) {
    return emitOpError("S-145: expected rows of f32, tokens as the function is given them, and one "
                       "f32 for each on their scale, found ")
           << logits << ", " << tokens << " and " << type;
  }
  if (getTarget().empty()) {
    return emitOpError("S-145: expected the name of the targets, found none");
  }
  return success();
}

/// Relation of logits: their own row; targets may depend on any token.
std::optional<IntegerSet> SoftLossOp::getRelation(unsigned operand) {
  AffineExpr p = getAffineDimExpr(0, getContext()), q = getAffineDimExpr(1, getContext()),
             n = getAffineSymbolExpr(0, getContext());
  return operand == 0 ? IntegerSet::get(2, 1, {q - p}, {true})
                      : IntegerSet::get(2, 1, {q, n - 1 - q}, {false, false});
}
AffineExpr SoftLossOp::getLatest(unsigned operand) {
  return operand == 0 ? getAffineDimExpr(0, getContext()) : AffineExpr();
}

std::optional<SmallVector<RowRead>> SoftLossBackwardOp::getRowReads(unsigned) {
  return SmallVector<RowRead>{RowRead::itself(0, getContext()), RowRead::whole(1),
                              RowRead::itself(2, getContext())};
}

/// Per logit: a maximum, a difference, an exponential, a product and three sums.
Cost SoftLossOp::getCost() {
  return facts::cost(*this, 7 * facts::elements(*this, getLogits()), getLogits());
}
Cost SoftLossBackwardOp::getCost() {
  return facts::cost(*this, 9 * facts::elements(*this, getLogits()));
}

LogicalResult SoftLossOp::buildBackward(OpBuilder &b, ArrayRef<Value> results,
                                        MutableArrayRef<Value> operands) {
  operands[0] = SoftLossBackwardOp::create(b, getLoc(), getLogits().getType(), getLogits(),
                                           getTokens(), results[0], getTarget(), getFirst());
  return success();
}

//===----------------------------------------------------------------------===//
// Lowering
//===----------------------------------------------------------------------===//

/// Returns `x` from row `first`, zeros before.
static Value fromRow(BodyBuilder &body, int64_t first, Value x) {
  if (first == 0) {
    return x;
  }
  ImplicitLocOpBuilder &b = body.builder();
  Value start = arith::ConstantOp::create(b, b.getI32IntegerAttr(static_cast<int32_t>(first)));
  Value isScored = arith::CmpIOp::create(b, arith::CmpIPredicate::sge,
                                         dispatch::PositionOp::create(b, b.getI32Type()), start);
  return arith::SelectOp::create(b, isScored, x, body.constant(x.getType(), 0));
}

namespace {
/// z - max z, its exponentials, and their sum.
struct Softmax {
  Value below, weights, sum;
};
} // namespace

static Softmax buildSoftmax(BodyBuilder &body, Value row) {
  ImplicitLocOpBuilder &b = body.builder();
  Value greatest = dispatch::ReduceOp::create(b, b.getF32Type(), dispatch::ReduceKind::Max, row);
  Value below = arith::SubFOp::create(b, row, body.splat(greatest, row.getType()));
  Value weights = math::ExpOp::create(b, below);
  return {below, weights, body.sum(weights)};
}

/// Computes the sum over v of t[v] (log Z - d[v]) with d = z - max z and Z = sum e^d: no term is
/// below 0.
LogicalResult SoftLossOp::emitBody(BodyBuilder &body) {
  ImplicitLocOpBuilder &b = body.builder();
  Value row = body.get(getLogits());
  if (!row) {
    return failure();
  }
  Value targets = body.getInput((numbersInput + getTarget()).str(), getLogits());
  Softmax of = buildSoftmax(body, row);
  Value nats =
      arith::SubFOp::create(b, body.splat(math::LogOp::create(b, of.sum), row.getType()), of.below);
  Value loss = body.sum(arith::MulFOp::create(b, targets, nats));
  body.set(getLosses(), fromRow(body, static_cast<int64_t>(getFirst()), loss));
  return success();
}

LogicalResult SoftLossBackwardOp::emitBody(BodyBuilder &body) {
  ImplicitLocOpBuilder &b = body.builder();
  Value row = body.get(getLogits()), gradient = body.get(getGradient());
  if (!row || !gradient) {
    return failure();
  }
  Value targets = body.getInput((numbersInput + getTarget()).str(), getLogits());
  Softmax of = buildSoftmax(body, row);
  Value share = arith::DivFOp::create(b, body.sum(targets), of.sum);
  Value chances = arith::MulFOp::create(b, of.weights, body.splat(share, row.getType()));
  Value scale = fromRow(body, static_cast<int64_t>(getFirst()), gradient);
  body.set(getResult(), arith::MulFOp::create(b, arith::SubFOp::create(b, chances, targets),
                                              body.splat(scale, row.getType())));
  return success();
}

//===----------------------------------------------------------------------===//
// Reference
//===----------------------------------------------------------------------===//

/// Logarithms of the chances of row (b, p), and its targets.
template <typename T, typename Op>
static std::pair<std::vector<T>, std::vector<T>> computeRow(Op op, Evaluator<T> &evaluator,
                                                            int64_t b, int64_t p) {
  std::vector<T> row = evaluator.rowAt(op.getLogits(), b, p);
  T greatest = *std::max_element(row.begin(), row.end()), sum = 0;
  for (T x : row) {
    sum += std::exp(x - greatest);
  }
  for (T &x : row) {
    x -= greatest + std::log(sum);
  }
  return {row, getTargetToken<T>(evaluator, op.getTokens(), b, p, row.size())};
}

template <typename T> static void evaluate(SoftLossOp op, Evaluator<T> &evaluator) {
  evaluator.define(op.getLosses(), [&](int64_t b, int64_t p) {
    auto [logs, targets] = computeRow<T>(op, evaluator, b, p);
    T loss = 0;
    for (size_t v = 0; p >= static_cast<int64_t>(op.getFirst()) && v < logs.size(); ++v) {
      loss -= targets[v] * logs[v];
    }
    return std::vector<T>{loss};
  });
}

template <typename T> static void evaluate(SoftLossBackwardOp op, Evaluator<T> &evaluator) {
  evaluator.define(op.getResult(), [&](int64_t b, int64_t p) {
    auto [logs, targets] = computeRow<T>(op, evaluator, b, p);
    T incoming =
        p >= static_cast<int64_t>(op.getFirst()) ? evaluator.at(op.getGradient(), b, p, 0) : T(0);
    T sum = 0;
    for (T target : targets) {
      sum += target;
    }
    for (size_t v = 0; v < logs.size(); ++v) {
      logs[v] = incoming * (std::exp(logs[v]) * sum - targets[v]);
    }
    return logs;
  });
}

SLUICE_REFERENCE(SoftLossOp)
SLUICE_REFERENCE(SoftLossBackwardOp)
