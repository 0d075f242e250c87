// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Shortening: every fact of sluice.shorten, and of the op that its maximum's gradient needs.
#include "OpFacts.h"
#include "Reference/Reference.h"
#include "sluice/Dialect/Sluice/Fusion.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include <cmath>
#include <limits>

using namespace mlir;
using namespace sluice;
using namespace sluice::reference;
using dispatch::ReduceKind;
using dispatch::RowRead;

//===----------------------------------------------------------------------===//
// Positions, state, cost
//===----------------------------------------------------------------------===//

LogicalResult ShortenOp::verify() {
  if (failed(facts::verifyWindow(*this, getRowGroup()))) {
    return failure();
  }
  return facts::verifyScales(*this, getInput().getType(), getResult().getType(), getFactor());
}

std::optional<IntegerSet> ShortenOp::getRelation(unsigned) {
  return facts::relationOf(getContext(), getRowGroup());
}

AffineExpr ShortenOp::getLatest(unsigned) {
  auto k = static_cast<int64_t>(getFactor());
  return getAffineDimExpr(0, getContext()) * k + (k - 1);
}

/// An element: w - 1 additions or comparisons, and an average's division. A maximum's backward
/// compares again.
Cost ShortenOp::getCost() {
  auto window = static_cast<double>(getRowGroup().window);
  double each = window - (getKind() == ShortenKind::Average ? 0 : 1);
  bool keeps = getKind() == ShortenKind::Max;
  return facts::cost(*this, each * facts::elements(*this, getResult()),
                     keeps ? ValueRange(getInput()) : ValueRange());
}

LogicalResult ShortenMaxBackwardOp::verify() {
  SequenceType fine = getInput().getType(), coarse = getResult().getType();
  if (failed(facts::verifyWindow(*this, getRowGroup())) ||
      failed(facts::verifyScales(*this, fine, coarse, getFactor(), getRowGroup().window))) {
    return failure();
  }
  SequenceType gradient = getGradient().getType();
  if (gradient.getScale() != coarse.getScale() || gradient.getWidth() != fine.getWidth()) {
    return emitOpError("S-038: expected a gradient of ")
           << fine.getWidth() << " columns on scale " << coarse.getScale() << ", found "
           << gradient;
  }
  return success();
}

std::optional<SmallVector<RowRead>> ShortenMaxBackwardOp::getRowReads(unsigned) {
  AffineExpr p = getAffineDimExpr(0, getContext()), i = getAffineDimExpr(1, getContext());
  RowGroup rows = getRowGroup();
  RowRead group = RowRead::through(0, AffineMap::get(2, 1, p * rows.factor + rows.first + i));
  group.group = rows.window;
  return SmallVector<RowRead>{group, RowRead::itself(1, getContext())};
}

/// An element of a group: a comparison for the greatest, one for the first, one for each column.
Cost ShortenMaxBackwardOp::getCost() {
  return facts::cost(*this, 3 * facts::elements(*this, getResult()));
}

//===----------------------------------------------------------------------===//
// Backward
//===----------------------------------------------------------------------===//

/// g / w. The division stands on the coarse side: a map is defined on valid positions alone, and
/// the adjoint of a shift reads the upsampled gradient past the end of the fine scale.
static Value shareOf(ShortenOp op, OpBuilder &b, Value gradient) {
  OpBuilder::InsertionGuard guard(b);
  Location loc = op.getLoc();
  auto scaled = MapOp::create(b, loc, gradient.getType(), ValueRange{gradient});
  Block &block = scaled.getBody().emplaceBlock();
  Value g = block.addArgument(b.getF32Type(), loc);
  b.setInsertionPointToStart(&block);
  Value share = arith::ConstantOp::create(
      b, loc, b.getF32FloatAttr(1.0f / static_cast<float>(op.getRowGroup().window)));
  YieldOp::create(b, loc, ValueRange{arith::MulFOp::create(b, loc, g, share)});
  return scaled.getResult();
}

/// Where windows are whole numbers of groups, all rows of a group stand in the same ones, from its
/// own on: one sum for all of them.
static Value sumOverWindows(ShortenOp op, OpBuilder &b, Value gradient) {
  RowGroup group = op.getRowGroup();
  int64_t count = group.window / group.factor;
  gradient = facts::withinLength(b, op.getLoc(), gradient);
  Value ahead = ShiftOp::create(b, op.getLoc(), gradient.getType(), gradient, 1 - count);
  Type type = group.factor == 1 ? op.getInput().getType() : gradient.getType();
  return ShortenOp::create(b, op.getLoc(), type, ahead, 1, ShortenKind::Sum, count);
}

/// A sum's adjoint is `upsample`, a choice's `unfold` of the groups with the gradient in its place:
/// both lazy, so that the adjoint of a shift may read past the end.
LogicalResult ShortenOp::buildBackward(OpBuilder &b, ArrayRef<Value> results,
                                       MutableArrayRef<Value> operands) {
  SequenceType type = getInput().getType();
  RowGroup group = getRowGroup();
  if (getKind() == ShortenKind::Max) {
    auto groups = SequenceType::get(getContext(), getResult().getType().getScale(),
                                    group.window * type.getWidth(), type.getElement());
    Value chosen = ShortenMaxBackwardOp::create(b, getLoc(), groups, getInput(), results[0],
                                                group.factor, getWindow());
    operands[0] = facts::unfoldWindows(b, getLoc(), type, chosen, group);
    return success();
  }
  bool isApart = group.window != group.factor;
  Value coarse = getKind() == ShortenKind::Average ? shareOf(*this, b, results[0]) : results[0];
  if (group.window % group.factor != 0) {
    operands[0] = facts::unfoldWindows(b, getLoc(), type, coarse, group);
    return success();
  }
  coarse = isApart ? sumOverWindows(*this, b, coarse) : coarse;
  operands[0] = isApart && group.factor == 1
                    ? coarse
                    : UpsampleOp::create(b, getLoc(), type, coarse, group.factor).getResult();
  return success();
}

//===----------------------------------------------------------------------===//
// Reference
//===----------------------------------------------------------------------===//

template <typename T> constexpr T leastNumber = -std::numeric_limits<T>::infinity();

/// The first row i of window m whose number in column c is the greatest, and that number: minus
/// infinity where there is none, NaN where one of them is.
template <typename T>
static std::pair<int64_t, T> greatest(const Evaluator<T> &evaluator, Value x, RowGroup group,
                                      int64_t b, int64_t m, int64_t c) {
  int64_t first = group.factor * m + group.first;
  std::pair<int64_t, T> found{0, evaluator.at(x, b, first, c, leastNumber<T>)};
  for (int64_t i = 1; i < group.window; ++i) {
    T number = evaluator.at(x, b, first + i, c, leastNumber<T>);
    if (number > found.second || std::isnan(number)) {
      found = {i, number};
    }
  }
  return found;
}

/// y[m] = sum of x[k m + k - w + i], 0 <= i < w, divided by w where it is an average; or the
/// greatest
template <typename T> static void evaluate(ShortenOp op, Evaluator<T> &evaluator) {
  RowGroup group = op.getRowGroup();
  evaluator.define(op.getResult(), [&](int64_t b, int64_t m) {
    std::vector<T> y(evaluator.getColumns(op.getResult()));
    for (size_t c = 0; op.getKind() == ShortenKind::Max && c < y.size(); ++c) {
      T number = greatest(evaluator, op.getInput(), group, b, m, c).second;
      y[c] = number == leastNumber<T> ? 0 : number;
    }
    for (int64_t i = 0; op.getKind() != ShortenKind::Max && i < group.window; ++i) {
      for (size_t c = 0; c < y.size(); ++c) {
        y[c] += evaluator.at(op.getInput(), b, group.factor * m + group.first + i, c);
      }
    }
    for (T &value : y) {
      value = op.getKind() == ShortenKind::Average ? value / static_cast<T>(group.window) : value;
    }
    return y;
  });
}

/// z[m, i d + c] = dy[m, c] where row i of window m has its first greatest
template <typename T> static void evaluate(ShortenMaxBackwardOp op, Evaluator<T> &evaluator) {
  int64_t width = evaluator.getColumns(op.getInput());
  evaluator.define(op.getResult(), [&](int64_t b, int64_t m) {
    std::vector<T> z(evaluator.getColumns(op.getResult()));
    for (int64_t c = 0; c < width; ++c) {
      auto [i, number] = greatest(evaluator, op.getInput(), op.getRowGroup(), b, m, c);
      if (!std::isnan(number)) {
        z[i * width + c] = evaluator.at(op.getGradient(), b, m, c);
      }
    }
    return z;
  });
}

SLUICE_REFERENCE(ShortenOp)
SLUICE_REFERENCE(ShortenMaxBackwardOp)

//===----------------------------------------------------------------------===//
// Lowering
//===----------------------------------------------------------------------===//

FusionRole ShortenOp::getFusionRole() { return FusionRole::Rows; }
FusionRole ShortenMaxBackwardOp::getFusionRole() { return FusionRole::Rows; }
bool ShortenMaxBackwardOp::yieldsGroup() { return true; }
RowGroup ShortenOp::getRowGroup() {
  return RowGroup::endingWithGroup(static_cast<int64_t>(getFactor()),
                                   static_cast<int64_t>(getWindow()));
}
RowGroup ShortenMaxBackwardOp::getRowGroup() {
  return RowGroup::endingWithGroup(static_cast<int64_t>(getFactor()),
                                   static_cast<int64_t>(getWindow()));
}

/// One row of a group tensor<k x d>.
static RankedTensorType rowOf(RankedTensorType group) {
  return RankedTensorType::get({group.getDimSize(1)}, group.getElementType());
}

/// The sum of a group's rows, in order; null with a diagnostic.
static Value sumOfGroup(ShortenOp op, BodyBuilder &body) {
  RowGroup group = op.getRowGroup();
  ImplicitLocOpBuilder &b = body.builder();
  if (readsWholeGroups(op.getInput(), group)) {
    Value rows = body.getGroup(op.getInput(), group);
    if (!rows) {
      return {};
    }
    return dispatch::ReduceGroupOp::create(b, rowOf(cast<RankedTensorType>(rows.getType())),
                                           ReduceKind::Add, rows);
  }
  Value sum = body.getMember(op.getInput(), group, 0);
  for (int64_t i = 1; sum && i < group.window; ++i) {
    Value row = body.getMember(op.getInput(), group, i);
    sum = row ? Value(arith::AddFOp::create(b, sum, row)) : Value();
  }
  return sum;
}

/// A group's rows, minus infinity where there is none; null with a diagnostic.
static Value groupForMax(Operation *op, Value input, RowGroup group, BodyBuilder &body) {
  if (!readsWholeGroups(input, group)) {
    op->emitOpError("S-048: expected a layer or a norm between an unfold and the maximum of its "
                    "groups, found none");
    return {};
  }
  return body.getGroup(input, group, /*least=*/true);
}

static Value maxOfGroup(ShortenOp op, BodyBuilder &body) {
  ImplicitLocOpBuilder &b = body.builder();
  Value rows = groupForMax(op, op.getInput(), op.getRowGroup(), body);
  if (!rows) {
    return {};
  }
  RankedTensorType row = rowOf(cast<RankedTensorType>(rows.getType()));
  Value found = dispatch::ReduceGroupOp::create(b, row, ReduceKind::Max, rows);
  Value least = body.constant(row, leastNumber<double>);
  Value isNone = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, found, least);
  return arith::SelectOp::create(b, isNone, body.constant(row, 0), found);
}

LogicalResult ShortenOp::emitBody(BodyBuilder &body) {
  if (getInput().getType().getWidth() == 0) {
    return emitOpError("S-053: expected rows of columns, found one number a row");
  }
  Value row = getKind() == ShortenKind::Max ? maxOfGroup(*this, body) : sumOfGroup(*this, body);
  if (!row) {
    return failure();
  }
  if (getKind() == ShortenKind::Average) {
    Value share = body.constant(row.getType(), 1.0 / static_cast<double>(getRowGroup().window));
    row = arith::MulFOp::create(body.builder(), row, share);
  }
  body.set(getResult(), row);
  return success();
}

/// Where `rows` first reaches its greatest: a boolean an element of the group. Numbers of columns,
/// i d + c, grow with the row i, so the first of the greatest has the greatest of their negatives.
static Value firstOfGreatest(ImplicitLocOpBuilder &b, Value rows) {
  auto group = cast<RankedTensorType>(rows.getType());
  auto places = group.clone(b.getI32Type());
  auto number = [&](int64_t value) {
    return arith::ConstantOp::create(b,
                                     DenseElementsAttr::get(places, static_cast<int32_t>(value)));
  };
  auto reachedBy = [&](Value values) {
    auto type = cast<RankedTensorType>(values.getType());
    Value found = dispatch::ReduceGroupOp::create(b, rowOf(type), ReduceKind::Max, values);
    return dispatch::SpreadOp::create(b, type, found);
  };
  Value isGreatest = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, rows, reachedBy(rows));
  Value column = dispatch::ColumnOp::create(b, places);
  Value place = arith::SubIOp::create(b, number(0), column);
  Value candidates = arith::SelectOp::create(b, isGreatest, place, number(-group.getNumElements()));
  return arith::CmpIOp::create(b, arith::CmpIPredicate::eq, place, reachedBy(candidates));
}

LogicalResult ShortenMaxBackwardOp::emitBody(BodyBuilder &body) {
  ImplicitLocOpBuilder &b = body.builder();
  Value rows = groupForMax(*this, getInput(), getRowGroup(), body);
  Value gradient = rows ? body.get(getGradient()) : Value();
  if (!gradient) {
    return failure();
  }
  Value everywhere = dispatch::SpreadOp::create(b, rows.getType(), gradient);
  body.set(getResult(), arith::SelectOp::create(b, firstOfGreatest(b, rows), everywhere,
                                                body.constant(rows.getType(), 0)));
  return success();
}
