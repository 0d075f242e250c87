// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Implements the attention of rows to their neighbours: of an edge list, or of a range that holds
// the row. Scores are functions of one number per row and one per neighbour, so that sums over
// neighbours are row passes whose weights are recomputed from these numbers, in both directions.
#include "../Cost.h"
#include "../Fusion/RowPass.h"
#include "../Reference/Reference.h"
#include "../Scales/Windows.h"
#include "Edges.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include <cmath>

using namespace mlir;
using namespace sluice;
using namespace sluice::edges;
using namespace sluice::lowering;
using namespace sluice::reference;

//===----------------------------------------------------------------------===//
// Verifier, positions, operations, backward
//===----------------------------------------------------------------------===//

LogicalResult GraphAttentionOp::verify() {
  SequenceType type = getResult().getType(), value = getValue().getType();
  auto isOnRows = [&](Value numbers, bool isInteger) {
    auto each = cast<SequenceType>(numbers.getType());
    return each.getScale() == type.getScale() && each.getWidth() == 0 &&
           (isInteger ? each.getElement().isInteger(32) : each.getElement().isF32());
  };
  bool fits = value.getScale() == type.getScale() && value.getWidth() == type.getWidth() &&
              type.getWidth() > 0 && dispatch::isStorageType(type.getElement()) &&
              dispatch::isStorageType(value.getElement()) && isOnRows(getSource(), false) &&
              isOnRows(getTarget(), false) && isOnRows(getLse(), false) &&
              (!getFirst() || (isOnRows(getFirst(), true) && isOnRows(getEnd(), true)));
  if (!fits) {
    return emitOpError("S-167: expected rows of one scale and number of columns, and per position "
                       "there one f32 of each score and one i32 of each end of a range, found ")
           << value << " and " << type;
  }
  if (bool(getFirst()) == bool(getEdges()) || bool(getEdges()) != bool(getCapacity())) {
    return emitOpError("S-168: expected edges with a capacity or a range, found ")
           << (getEdges() ? "both" : "none");
  }
  if (getEdges()) {
    return verifyEdges(*this);
  }
  return isGiven(*this, type)
             ? success()
             : emitOpError("S-160: expected rows of a given axis, as a range may hold later rows, "
                           "found ")
                   << type;
}

/// Any row may be a neighbour; source and range are the numbers of the row itself.
std::optional<IntegerSet> GraphAttentionOp::getRelation(unsigned operand) {
  AffineExpr p = getAffineDimExpr(0, getContext()), q = getAffineDimExpr(1, getContext()),
             n = getAffineSymbolExpr(0, getContext());
  return getLatest(operand) ? IntegerSet::get(2, 1, {q - p}, {true})
                            : IntegerSet::get(2, 1, {q, n - 1 - q}, {false, false});
}
AffineExpr GraphAttentionOp::getLatest(unsigned operand) {
  bool isOther = operand == getTargetMutable().getOperandNumber() ||
                 operand == getValueMutable().getOperandNumber();
  return isOther ? AffineExpr() : getAffineDimExpr(0, getContext());
}

/// Reads as attention within a range does.
std::string GraphAttentionOp::getNeutralName(unsigned) { return "range_attention"; }

std::optional<dispatch::RowReadList> GraphAttentionBackwardOp::getRowReads(unsigned) {
  return llvm::map_to_vector(llvm::seq<unsigned>(0, getOperation()->getNumOperands()),
                             dispatch::RowRead::whole);
}

/// Returns the columns of values that all rows read: of each entry of a list and the row itself, or
/// of a range, whose length is data, as much as the row itself.
template <typename Op> static double countValues(Op op) {
  Operation *operation = op;
  double elements = facts::elements(operation, op.getValue());
  double width = static_cast<double>(cast<SequenceType>(op.getValue().getType()).getWidth());
  return elements +
         (op.getEdges() ? static_cast<double>(getBatch(operation) * op.getEntries()) * width : 0);
}

/// A product and a sum per element.
Cost GraphAttentionOp::getCost() {
  return facts::cost(*this, 2 * countValues(*this), getOperation()->getOperands());
}
/// Three sums over neighbours.
Cost GraphAttentionBackwardOp::getCost() { return facts::cost(*this, 6 * countValues(*this)); }

LogicalResult GraphAttentionOp::buildBackward(OpBuilder &b, ArrayRef<Value> results,
                                              MutableArrayRef<Value> operands) {
  auto made = GraphAttentionBackwardOp::create(
      b, getLoc(), getSource().getType(), getTarget().getType(), getValue().getType(), getSource(),
      getTarget(), getValue(), getResult(), getLse(), facts::withinLength(b, getLoc(), results[0]),
      getFirst(), getEnd(), getEdgesAttr(), getBitsAttr(), getCapacityAttr(), getLeakAttr());
  for (unsigned i = 0; i < 3; ++i) {
    operands[i] = made->getResult(i);
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Lowering
//===----------------------------------------------------------------------===//

namespace {

/// A pass over the rows of an op. The numbers of the scores and their norm are its first arguments.
template <typename Op> class NeighbourPass : public RowPass {
public:
  NeighbourPass(Op op, DispatchEmitter &emitter, Value list, Value norm)
      : RowPass(emitter), op(op), factor(emitter.getScaleFactor(op.getValue())) {
    source = number(emitter.get(op.getSource()));
    target = number(emitter.get(op.getTarget()));
    this->norm = norm ? number(norm) : Value();
    range =
        list ? listed(list, cast<RankedTensorType>(list.getType()).getDimSize(1) - op.getEntries())
             : RowRange{number(emitter.get(op.getFirst())), number(emitter.get(op.getEnd())),
                        Value()};
  }

  /// Returns the score of the row itself.
  Value score() {
    Value sum = arith::AddFOp::create(b, source, target);
    return arith::SelectOp::create(b, isPositive(sum), sum, arith::MulFOp::create(b, sum, leak()));
  }
  /// Returns the weight of the row itself, times the slope of its score if it is `sloped`.
  Value weight(bool isSloped) {
    Value own = math::ExpOp::create(b, arith::SubFOp::create(b, score(), norm));
    Value sum = arith::AddFOp::create(b, source, target);
    return isSloped ? arith::SelectOp::create(b, isPositive(sum), own,
                                              arith::MulFOp::create(b, own, leak()))
                          .getResult()
                    : own;
  }
  /// Returns the maximum of the targets of the row and its neighbours.
  Value greatestTarget(DispatchEmitter &emitter) {
    Value most = over(emitter.get(op.getTarget()), {});
    return arith::MaximumFOp::create(b, most, target);
  }
  /// Returns the sum of rows, or of numbers, of the row and its neighbours, times their weights.
  Value sum(Value tensor, bool isTransposed, bool isSloped) {
    auto softmax = dispatch::SoftmaxAttr::get(b.getContext(), getArgumentNumber(source),
                                              getArgumentNumber(target), getArgumentNumber(norm),
                                              op.getLeakAttr(), isTransposed, isSloped);
    Value others = over(tensor, softmax);
    if (!range.list) { // the range holds the row
      return others;
    }
    bool isRow = isa<RankedTensorType>(others.getType());
    Value own = isRow ? row(tensor, factor) : number(tensor);
    return arith::AddFOp::create(b, others, scaleRow(b, own, weight(isSloped)));
  }

  /// Returns element p of a tensor [B, T] of rows of the scale.
  Value number(Value tensor) { return load(tensor, {AccessKind::Row, p, factor}, 0); }

  Op op;
  int64_t factor;
  Value source, target, norm;

private:
  /// The rows that row p is joined with: the rows of a range, or of entries of a list.
  struct RowRange {
    Value first, last;
    Value list;             ///< i32 [B, ends and entries]; null for a range of rows
    int64_t firstEntry = 0; ///< column of the first entry
  };
  /// Returns the rows that a list names for row p: ends and entries as `sluice.degrees` has them.
  RowRange listed(Value list, int64_t ends) {
    Value first = load(list, {AccessKind::Row, p - 1, 0}, 0),
          last = load(list, {AccessKind::Row, p, 0}, 0);
    return {first, last, first, ends};
  }
  /// Returns the sum of the rows of the range, times entries of a softmax map, or their maxima.
  Value over(Value tensor, dispatch::SoftmaxAttr softmax) {
    bool isRow = cast<RankedTensorType>(tensor.getType()).getRank() == 3;
    return load(tensor,
                {.kind = AccessKind::Range,
                 .at = p + range.firstEntry,
                 .factor = factor,
                 .index = getArgumentNumber(range.first),
                 .last = getArgumentNumber(range.last),
                 .isGreatest = !softmax,
                 .list = range.list ? getArgumentNumber(range.list) : -1,
                 .softmax = softmax},
                isRow ? getTensorColumns(tensor) : 0);
  }
  Value leak() { return arith::ConstantOp::create(b, op.getLeakAttr()); }
  Value isPositive(Value x) {
    Value zero = arith::ConstantOp::create(b, b.getF32FloatAttr(0));
    return arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, x, zero);
  }

  RowRange range;
};

} // namespace

static Value createOne(RowPass &pass) {
  return arith::ConstantOp::create(pass.b, pass.b.getF32FloatAttr(1));
}
static Value createProduct(RowPass &pass, Value x, Value y) {
  return dispatch::ReduceOp::create(pass.b, pass.b.getF32Type(), dispatch::ReduceKind::Add,
                                    arith::MulFOp::create(pass.b, x, y));
}

/// Returns the lists of an op; null for a range.
template <typename Op> static Value bindLists(Op op, Value rows, DispatchEmitter &emitter) {
  if (!op.getEdges()) {
    return {};
  }
  Operation *scope = emitter.getScope();
  int64_t columns = getPositions(scope, cast<SequenceType>(rows.getType())) + op.getEntries();
  return emitter.bind(givenPlace(scope, getPlace(op)),
                      RankedTensorType::get({getBatch(scope), columns}, emitter.b.getI32Type()));
}

/// The first pass finds the greatest score of a row, which is of its greatest target, as scores
/// rise with them. The second one divides by the sum of exponentials. A row past the end of its
/// sequence has no neighbours, and is zero.
LogicalResult GraphAttentionOp::emitDispatches(DispatchEmitter &emitter) {
  Value lists = bindLists(*this, getResult(), emitter);
  RankedTensorType numbers = emitter.getTensorType(getLse());
  dispatch::DomainAttr domain = emitter.getRowDomain(getResult());
  NeighbourPass<GraphAttentionOp> most(*this, emitter, lists, {});
  most.target = most.greatestTarget(emitter);
  SmallVector<Value> made =
      most.finish({most.score(), createOne(most)}, {numbers, numbers}, domain);
  NeighbourPass<GraphAttentionOp> mix(*this, emitter, lists, made[0]);
  ImplicitLocOpBuilder &b = mix.b;
  Value total = mix.sum(made[1], false, false), one = createOne(mix);
  Value isThere = arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, total,
                                        arith::ConstantOp::create(b, b.getF32FloatAttr(0)));
  Value divisor = arith::SelectOp::create(b, isThere, total, one);
  Value share = arith::DivFOp::create(b, one, divisor);
  Value lse = arith::AddFOp::create(b, mix.norm, math::LogOp::create(b, divisor));
  Value rows = mix.sum(emitter.get(getValue()), false, false);
  made = mix.finish({scaleRow(b, rows, share), lse}, {emitter.getTensorType(getResult()), numbers},
                    domain);
  emitter.set(getResult(), made[0]);
  emitter.set(getLse(), made[1]);
  return success();
}

/// With weights a[p, q], slopes f'[p, q], the gradient g of y and m[p] = g[p] y[p]:
///   dz[q] = sum over p of a g[p],
///   ds[p] = sum over q of a f' (g[p] z[q] - m[p]) = g[p] (sum of a f' z[q]) - m[p] sum of a f',
///   dt[q] = sum over p of a f' (g[p] z[q] - m[p]) = z[q] (sum of a f' g[p]) - sum of a f' m[p].
LogicalResult GraphAttentionBackwardOp::emitDispatches(DispatchEmitter &emitter) {
  Value lists = bindLists(*this, getValue(), emitter);
  RankedTensorType numbers = emitter.getTensorType(getSourceGradient());
  dispatch::DomainAttr domain = emitter.getRowDomain(getValue());
  Value gradients = emitter.get(getGradient()), values = emitter.get(getValue());
  int64_t factor = emitter.getScaleFactor(getValue());
  RowPass mean(emitter);
  Value product =
      createProduct(mean, mean.row(gradients, factor), mean.row(emitter.get(getOutput()), factor));
  SmallVector<Value> made = mean.finish({product, createOne(mean)}, {numbers, numbers}, domain);
  NeighbourPass<GraphAttentionBackwardOp> pass(*this, emitter, lists, emitter.get(getLse()));
  ImplicitLocOpBuilder &b = pass.b;
  Value ofValues = pass.sum(gradients, true, false);
  Value ofSource = arith::SubFOp::create(
      b, createProduct(pass, pass.row(gradients, factor), pass.sum(values, false, true)),
      arith::MulFOp::create(b, pass.number(made[0]), pass.sum(made[1], false, true)));
  Value ofTarget = arith::SubFOp::create(
      b, createProduct(pass, pass.row(values, factor), pass.sum(gradients, true, true)),
      pass.sum(made[0], true, true));
  made = pass.finish({ofSource, ofTarget, ofValues},
                     {numbers, numbers, emitter.getTensorType(getValueGradient())}, domain);
  for (unsigned i = 0; i < 3; ++i) {
    emitter.set(getOperation()->getResult(i), made[i]);
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Reference
//===----------------------------------------------------------------------===//

namespace {
/// The row of the softmax map of row p: its neighbours and itself, weights, and slopes of scores.
template <typename T> struct MapRow {
  template <typename Op> MapRow(Op op, const Evaluator<T> &evaluator, int64_t b, int64_t p) {
    if (op.getEdges()) {
      rows = getNeighbours<Op, T>(op, evaluator, b, p);
      rows.push_back(p);
    } else {
      auto end = static_cast<int64_t>(evaluator.at(op.getEnd(), b, p, 0));
      end = std::min(end, evaluator.getCount(op.getValue(), b));
      for (auto q = static_cast<int64_t>(evaluator.at(op.getFirst(), b, p, 0)); q < end; ++q) {
        rows.push_back(q);
      }
    }
    T leak = static_cast<T>(op.getLeak().convertToFloat()), most = -INFINITY, total = 0;
    for (int64_t q : rows) {
      T sum = evaluator.at(op.getSource(), b, p, 0) + evaluator.at(op.getTarget(), b, q, 0);
      slopes.push_back(sum > 0 ? T(1) : leak);
      weights.push_back(sum * slopes.back());
      most = std::max(most, weights.back());
    }
    for (T &weight : weights) {
      weight = std::exp(weight - most);
      total += weight;
    }
    for (T &weight : weights) {
      weight /= total;
    }
    lse = most + std::log(total);
  }
  std::vector<int64_t> rows;
  std::vector<T> weights, slopes;
  T lse;
};
} // namespace

template <typename T> static void evaluate(GraphAttentionOp op, Evaluator<T> &evaluator) {
  evaluator.define(op.getResult(), [&](int64_t b, int64_t p) {
    MapRow<T> map(op, evaluator, b, p);
    std::vector<T> y(static_cast<size_t>(reference::getColumns(op.getResult())));
    for (auto [q, weight] : llvm::zip_equal(map.rows, map.weights)) {
      for (size_t c = 0; c < y.size(); ++c) {
        y[c] += weight * evaluator.at(op.getValue(), b, q, static_cast<int64_t>(c));
      }
    }
    return y;
  });
  evaluator.define(op.getLse(), [&](int64_t b, int64_t p) {
    return std::vector<T>{MapRow<T>(op, evaluator, b, p).lse};
  });
}

/// Adds the parts of row p of the map to the gradients of p and of its neighbours.
template <typename T> static void evaluate(GraphAttentionBackwardOp op, Evaluator<T> &evaluator) {
  int64_t positions = evaluator.getPositions(op.getValue()),
          columns = reference::getColumns(op.getValue());
  auto batch = static_cast<size_t>(evaluator.getSetting().rows);
  std::vector<std::vector<std::vector<T>>> source(batch), target(batch), values(batch);
  for (size_t b = 0; b < batch; ++b) {
    source[b].resize(positions, std::vector<T>(1));
    target[b] = source[b];
    values[b].resize(positions, std::vector<T>(columns));
    for (int64_t p = 0; p < std::min(positions, evaluator.getCount(op.getValue(), b)); ++p) {
      MapRow<T> map(op, evaluator, b, p);
      std::vector<T> gradient = evaluator.rowAt(op.getGradient(), b, p);
      T mean = 0;
      for (bool isMean : {true, false}) {
        for (auto [q, weight, slope] : llvm::zip_equal(map.rows, map.weights, map.slopes)) {
          std::vector<T> value = evaluator.rowAt(op.getValue(), b, q);
          T product = 0;
          for (size_t c = 0; c < value.size(); ++c) {
            product += gradient[c] * value[c];
            values[b][q][c] += isMean ? T(0) : weight * gradient[c];
          }
          mean += isMean ? weight * product : T(0);
          T score = isMean ? T(0) : weight * slope * (product - mean);
          source[b][p][0] += score;
          target[b][q][0] += score;
        }
      }
    }
  }
  evaluator.define(op.getSourceGradient(), [&](int64_t b, int64_t p) { return source[b][p]; });
  evaluator.define(op.getTargetGradient(), [&](int64_t b, int64_t p) { return target[b][p]; });
  evaluator.define(op.getValueGradient(), [&](int64_t b, int64_t p) { return values[b][p]; });
}

SLUICE_REFERENCE(GraphAttentionOp)
SLUICE_REFERENCE(GraphAttentionBackwardOp)
