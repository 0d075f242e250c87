// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Implements ops that move the columns of a row: sluice.fit, sluice.place and its adjoint.
#include "../Cost.h"
#include "../Fusion/RowPass.h"
#include "../Reference/Reference.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::lowering;
using namespace sluice::reference;

//===----------------------------------------------------------------------===//
// Verifiers, positions, costs, backward
//===----------------------------------------------------------------------===//

LogicalResult FitOp::verify() {
  SequenceType from = getInput().getType(), to = getResult().getType();
  int64_t at = static_cast<int64_t>(getAt());
  bool hasColumns = from.getWidth() > 0 && at < to.getWidth() && -at < from.getWidth();
  if (from.getScale() != to.getScale() || !hasColumns) {
    return emitOpError("S-170: expected sequences of one scale that share a column, found ")
           << from << " and, from column " << at << " on, " << to;
  }
  return success();
}

/// Verifies rows of `wide` that have the columns of several rows of `narrow`, one for each place.
static LogicalResult verifyPlaces(Operation *op, SequenceType narrow, SequenceType wide,
                                  SequenceType places) {
  int64_t columns = narrow.getWidth();
  bool fits = columns > 0 && wide.getWidth() % columns == 0 && wide.getWidth() >= 2 * columns;
  if (!fits || narrow.getScale() != wide.getScale() || places.getScale() != wide.getScale() ||
      places.getWidth() != 0 || !places.getElement().isF32()) {
    return op->emitOpError("S-171: expected rows of at least two places and one f32 a position, of "
                           "one scale, found ")
           << wide << " of " << narrow << " at " << places;
  }
  return success();
}

LogicalResult PlaceOp::verify() {
  return verifyPlaces(*this, getInput().getType(), getResult().getType(), getPlaces().getType());
}
LogicalResult PlaceBackwardOp::verify() {
  return verifyPlaces(*this, getResult().getType(), getGradient().getType(), getPlaces().getType());
}

/// Each row depends only on itself, as for a map.
static IntegerSet getOwnRow(MLIRContext *context) {
  return IntegerSet::get(2, 1, {getAffineDimExpr(1, context) - getAffineDimExpr(0, context)},
                         {true});
}
std::optional<IntegerSet> FitOp::getRelation(unsigned) { return getOwnRow(getContext()); }
std::optional<IntegerSet> PlaceOp::getRelation(unsigned) { return getOwnRow(getContext()); }
AffineExpr FitOp::getLatest(unsigned) { return getAffineDimExpr(0, getContext()); }
AffineExpr PlaceOp::getLatest(unsigned) { return getAffineDimExpr(0, getContext()); }
std::string FitOp::getNeutralName(unsigned) { return "map"; }
std::string PlaceOp::getNeutralName(unsigned) { return "map"; }

std::optional<SmallVector<dispatch::RowRead>> PlaceBackwardOp::getRowReads(unsigned) {
  return SmallVector<dispatch::RowRead>{dispatch::RowRead::itself(0, getContext()),
                                        dispatch::RowRead::itself(1, getContext())};
}

Cost FitOp::getCost() { return facts::cost(*this, 0); }
Cost PlaceOp::getCost() { return facts::cost(*this, 0, {getPlaces()}); }
Cost PlaceBackwardOp::getCost() { return facts::cost(*this, 0); }

LogicalResult FitOp::buildBackward(OpBuilder &b, ArrayRef<Value> results,
                                   MutableArrayRef<Value> operands) {
  operands[0] =
      FitOp::create(b, getLoc(), getInput().getType(), results[0], -static_cast<int64_t>(getAt()));
  return success();
}

LogicalResult PlaceOp::buildBackward(OpBuilder &b, ArrayRef<Value> results,
                                     MutableArrayRef<Value> operands) {
  operands[0] = PlaceBackwardOp::create(b, getLoc(), getInput().getType(), results[0], getPlaces());
  return success();
}

//===----------------------------------------------------------------------===//
// Reference
//===----------------------------------------------------------------------===//

/// y[p, c] = x[p, c - at]
template <typename T> static void evaluate(FitOp op, Evaluator<T> &evaluator) {
  auto at = static_cast<int64_t>(op.getAt());
  int64_t width = reference::getColumns(op.getInput());
  evaluator.define(op.getResult(), [&](int64_t b, int64_t p) {
    std::vector<T> y(reference::getColumns(op.getResult()));
    for (int64_t c = 0; c < int64_t(y.size()); ++c) {
      y[c] = c < at || c - at >= width ? T(0) : evaluator.at(op.getInput(), b, p, c - at);
    }
    return y;
  });
}

/// Returns the first of the `width` columns of the place of row p; the columns may not exist.
template <typename T>
static int64_t findFirstColumn(Evaluator<T> &evaluator, Value places, int64_t b, int64_t p,
                               int64_t width) {
  return static_cast<int64_t>(evaluator.at(places, b, p, 0)) * width;
}

/// y[p, i d + c] = x[p, c], i = the place of row p
template <typename T> static void evaluate(PlaceOp op, Evaluator<T> &evaluator) {
  int64_t width = reference::getColumns(op.getInput());
  evaluator.define(op.getResult(), [&](int64_t b, int64_t p) {
    std::vector<T> y(reference::getColumns(op.getResult()));
    int64_t first = findFirstColumn(evaluator, op.getPlaces(), b, p, width);
    for (int64_t c = 0; first >= 0 && first < int64_t(y.size()) && c < width; ++c) {
      y[first + c] = evaluator.at(op.getInput(), b, p, c);
    }
    return y;
  });
}

/// dx[p, c] = dy[p, i d + c]
template <typename T> static void evaluate(PlaceBackwardOp op, Evaluator<T> &evaluator) {
  int64_t width = reference::getColumns(op.getResult());
  int64_t columns = reference::getColumns(op.getGradient());
  evaluator.define(op.getResult(), [&](int64_t b, int64_t p) {
    std::vector<T> dx(width);
    int64_t first = findFirstColumn(evaluator, op.getPlaces(), b, p, width);
    for (int64_t c = 0; first >= 0 && first < columns && c < width; ++c) {
      dx[c] = evaluator.at(op.getGradient(), b, p, first + c);
    }
    return dx;
  });
}

SLUICE_REFERENCE(FitOp)
SLUICE_REFERENCE(PlaceOp)
SLUICE_REFERENCE(PlaceBackwardOp)

//===----------------------------------------------------------------------===//
// Lowering
//===----------------------------------------------------------------------===//

namespace {
/// A row pass that reads columns outside a row as zeros.
struct ColumnPass : RowPass {
  using RowPass::RowPass;
  /// Returns `width` columns of row p of a sequence from column `first` on.
  Value columns(Value sequence, int64_t first, int64_t width) {
    RowPassAccess access = {.kind = AccessKind::Row,
                            .at = p,
                            .factor = emitter.getScaleFactor(sequence),
                            .column = first,
                            .isPadded = first < 0 || first + width > getSequenceWidth(sequence)};
    return load(emitter.get(sequence), access, width);
  }
};
} // namespace

LogicalResult FitOp::emitDispatches(DispatchEmitter &emitter) {
  ColumnPass pass(emitter);
  Value row =
      pass.columns(getInput(), -static_cast<int64_t>(getAt()), getSequenceWidth(getResult()));
  return pass.finish(row, getResult());
}

/// Returns the members of `rows`, tensor<n x d>, whose number is `place`, and zeros in the others.
static Value selectPlace(RowPass &pass, Value rows, Value place) {
  ImplicitLocOpBuilder &b = pass.b;
  auto type = cast<RankedTensorType>(rows.getType());
  auto columns = double(type.getDimSize(1));
  auto constant = [&](Type of, double value) -> Value {
    auto number = b.getF32FloatAttr(static_cast<float>(value));
    auto shaped = dyn_cast<ShapedType>(of);
    return arith::ConstantOp::create(b, shaped ? TypedAttr(DenseElementsAttr::get(shaped, number))
                                               : TypedAttr(number));
  };
  Value first = arith::MulFOp::create(b, place, constant(b.getF32Type(), columns));
  Value column = dispatch::ColumnOp::create(b, type.clone(b.getI32Type()));
  Value offset = arith::SubFOp::create(b, arith::SIToFPOp::create(b, type, column),
                                       tensor::SplatOp::create(b, type, first));
  Value zeros = constant(type, 0);
  auto keep = [&](arith::CmpFPredicate is, double limit, Value members) -> Value {
    Value isKept = arith::CmpFOp::create(b, is, offset, constant(type, limit));
    return arith::SelectOp::create(b, isKept, members, zeros);
  };
  Value begun = keep(arith::CmpFPredicate::OGT, -0.5, rows);
  return keep(arith::CmpFPredicate::OLT, columns - 0.5, begun);
}

LogicalResult PlaceOp::emitDispatches(DispatchEmitter &emitter) {
  RowPass pass(emitter);
  Value row = pass.row(getInput()), place = pass.row(getPlaces());
  auto type = cast<RankedTensorType>(row.getType());
  int64_t width = type.getDimSize(0);
  auto group =
      RankedTensorType::get({getSequenceWidth(getResult()) / width, width}, type.getElementType());
  Value rows = dispatch::SpreadOp::create(pass.b, group, row);
  return pass.finish(selectPlace(pass, rows, place), getResult());
}

LogicalResult PlaceBackwardOp::emitDispatches(DispatchEmitter &emitter) {
  RowPass pass(emitter);
  int64_t width = getSequenceWidth(getResult());
  Value rows = pass.heads(emitter.get(getGradient()), emitter.getScaleFactor(getGradient()), width);
  Value own = selectPlace(pass, rows, pass.row(getPlaces()));
  auto type =
      RankedTensorType::get({width}, cast<RankedTensorType>(rows.getType()).getElementType());
  return pass.finish(dispatch::ReduceGroupOp::create(pass.b, type, dispatch::ReduceKind::Add, own),
                     getResult());
}
