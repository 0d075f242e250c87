// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Windows of groups of rows: helpers of ops with windows, and the implementation of
// sluice.overlap_add, which their gradients need.
#include "Windows.h"
#include "../Cost.h"
#include "../Reference/Reference.h"
#include "sluice/Dialect/Sluice/Fusion.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::reference;
using dispatch::RowRead;

LogicalResult facts::verifyScales(Operation *op, SequenceType fine, SequenceType coarse,
                                  int64_t factor, int64_t rows) {
  auto fineScale = SymbolTable::lookupNearestSymbolFrom<ScaleOp>(op, fine.getScale());
  auto coarseScale = SymbolTable::lookupNearestSymbolFrom<ScaleOp>(op, coarse.getScale());
  if (!fineScale || !coarseScale) {
    return op->emitOpError("S-010: a scale is not defined");
  }
  if (coarseScale.getFactor() != fineScale.getFactor() * factor) {
    InFlightDiagnostic diagnostic = op->emitOpError("S-011: expected scales a factor of ")
                                    << factor << " apart, found factors " << fineScale.getFactor()
                                    << " and " << coarseScale.getFactor();
    diagnostic.attachNote(coarseScale.getLoc()) << "the coarse scale is defined here";
    return diagnostic;
  }
  int64_t columns = fine.getWidth() * rows;
  if (coarse.getWidth() != columns) {
    return op->emitOpError("S-012: expected coarse rows of ")
           << columns << " columns, found " << coarse.getWidth();
  }
  return success();
}

LogicalResult facts::verifyWindow(Operation *op, RowGroup group) {
  if (group.window < 1 || group.factor < 1) {
    return op->emitOpError("S-095: expected a window and a factor of at least 1, found ")
           << group.window << " and " << group.factor;
  }
  return success();
}

/// Returns factor p + first <= q <= factor p + first + window - 1.
IntegerSet facts::buildRelation(MLIRContext *context, RowGroup group) {
  AffineExpr p = getAffineDimExpr(0, context), q = getAffineDimExpr(1, context);
  AffineExpr first = p * group.factor + group.first;
  return IntegerSet::get(2, 1, {q - first, first + (group.window - 1) - q}, {false, false});
}

Value facts::withinLength(OpBuilder &b, Location loc, Value sequence) {
  if (!isLazy(sequence.getDefiningOp())) {
    return sequence;
  }
  OpBuilder::InsertionGuard guard(b);
  auto repeat = MapOp::create(b, loc, sequence.getType(), ValueRange{sequence});
  Block &block = repeat.getBody().emplaceBlock();
  Value number = block.addArgument(b.getF32Type(), loc);
  b.setInsertionPointToStart(&block);
  YieldOp::create(b, loc, ValueRange{number});
  return repeat.getResult();
}

Value facts::unfoldWindows(OpBuilder &b, Location loc, SequenceType type, Value windows,
                           RowGroup group) {
  if (group.window == group.factor) {
    return UnfoldOp::create(b, loc, type, windows, group.factor);
  }
  windows = withinLength(b, loc, windows);
  auto coarse = cast<SequenceType>(windows.getType());
  auto groups = SequenceType::get(b.getContext(), coarse.getScale(), group.factor * type.getWidth(),
                                  type.getElement());
  Value sums = OverlapAddOp::create(b, loc, groups, windows, group.factor, group.window);
  return group.factor == 1 ? sums : UnfoldOp::create(b, loc, type, sums, group.factor).getResult();
}

//===----------------------------------------------------------------------===//
// overlap_add: positions, state, cost
//===----------------------------------------------------------------------===//

/// Returns the maximum number of windows that contain a position.
static int64_t countWindows(OverlapAddOp op) {
  return static_cast<int64_t>(llvm::divideCeil(op.getWindow(), op.getFactor()));
}

/// Returns the number of columns of one position.
static int64_t countColumns(OverlapAddOp op) {
  return op.getResult().getType().getWidth() / static_cast<int64_t>(op.getFactor());
}

LogicalResult OverlapAddOp::verify() {
  auto factor = static_cast<int64_t>(getFactor()), window = static_cast<int64_t>(getWindow());
  if (factor < 1 || window < 1) {
    return emitOpError("S-096: expected a factor and a window of at least 1, found ")
           << factor << " and " << window;
  }
  SequenceType from = getInput().getType(), to = getResult().getType();
  int64_t columns = to.getWidth() / factor;
  bool fits = columns > 0 && to.getWidth() % factor == 0 && from.getScale() == to.getScale() &&
              (from.getWidth() == columns ||
               (from.getWidth() % window == 0 && from.getWidth() / window == columns));
  if (!fits) {
    return emitOpError("S-097: expected rows of ")
           << window << " times as many columns as a position has, or as many, found " << from
           << " for groups of " << factor << " in " << to;
  }
  if (sluice::isLazy(getInput().getDefiningOp())) {
    return emitOpError("S-098: expected rows that are stored, found those of a map of positions");
  }
  return success();
}

std::optional<SmallVector<RowRead>> OverlapAddOp::getRowReads(unsigned) {
  AffineExpr p = getAffineDimExpr(0, getContext()), j = getAffineDimExpr(1, getContext());
  RowRead windows = RowRead::through(0, AffineMap::get(2, 1, p + j));
  windows.group = countWindows(*this);
  return SmallVector<RowRead>{windows};
}

/// Windows q that contain position p: k q + k - w <= p <= k q + k - 1.
std::optional<RowRead> OverlapAddOp::getMemberRead() {
  auto k = static_cast<int64_t>(getFactor()), w = static_cast<int64_t>(getWindow());
  AffineExpr p = getAffineDimExpr(0, getContext()), q = getAffineDimExpr(1, getContext());
  AffineExpr last = q * k + (k - 1);
  return RowRead::related(0, IntegerSet::get(2, 1, {p - last + (w - 1), last - p}, {false, false}));
}

Cost OverlapAddOp::getCost() {
  double windows = static_cast<double>(getWindow()) / static_cast<double>(getFactor());
  return facts::cost(*this, windows * facts::elements(*this, getResult()));
}

//===----------------------------------------------------------------------===//
// overlap_add: reference and lowering
//===----------------------------------------------------------------------===//

/// z[m, r d + c] = sum of x[m + j, i d + c], i = r + w - k (j + 1) >= 0
template <typename T> static void evaluate(OverlapAddOp op, Evaluator<T> &evaluator) {
  int64_t k = op.getFactor(), w = op.getWindow(), width = countColumns(op);
  bool isOneRow = reference::getColumns(op.getInput()) == width;
  evaluator.define(op.getResult(), [&](int64_t b, int64_t m) {
    std::vector<T> z(reference::getColumns(op.getResult()));
    for (int64_t column = 0; column < k * width; ++column) {
      for (int64_t j = 0; j < countWindows(op); ++j) {
        int64_t i = column / width + w - k * (j + 1);
        if (i >= 0) {
          z[column] +=
              evaluator.at(op.getInput(), b, m + j, (isOneRow ? 0 : i * width) + column % width);
        }
      }
    }
    return z;
  });
}

SLUICE_REFERENCE(OverlapAddOp)

RowGroup OverlapAddOp::getRowGroup() { return {1, countWindows(*this), 0}; }
bool OverlapAddOp::yieldsGroup() { return getFactor() > 1; }

/// Adds two values, the first of which may be null.
static Value addTo(ImplicitLocOpBuilder &b, Value sum, Value value) {
  return sum ? arith::AddFOp::create(b, sum, value).getResult() : value;
}

/// Sums the rows of a group tensor<n x d> in order, or returns its only row.
static Value sumOfGroup(ImplicitLocOpBuilder &b, Value rows) {
  auto type = cast<RankedTensorType>(rows.getType());
  if (type.getRank() == 1) {
    return rows;
  }
  auto row = RankedTensorType::get({type.getDimSize(1)}, type.getElementType());
  return dispatch::ReduceGroupOp::create(b, row, dispatch::ReduceKind::Add, rows);
}

/// Handles windows with concatenated rows: group m uses the columns of window m + j from (w - k (j
/// + 1)) d.
static Value sumOfPieces(OverlapAddOp op, BodyBuilder &body) {
  ImplicitLocOpBuilder &b = body.builder();
  int64_t k = op.getFactor(), w = op.getWindow(), width = countColumns(op);
  AffineExpr p = b.getAffineDimExpr(0), i = b.getAffineDimExpr(1);
  if (k == 1) {
    AffineExpr column = w > 1 ? ((w - 1) - i) * width : b.getAffineConstantExpr(0);
    Value rows = body.getStored(op.getInput(), w > 1 ? p + i : p, column, w, width);
    return rows ? sumOfGroup(b, rows) : Value();
  }
  Value sum;
  for (int64_t j = 0; j < countWindows(op); ++j) {
    AffineExpr column = (i + (w - k * (j + 1))) * width;
    Value rows = body.getStored(op.getInput(), p + j, column, k, width);
    if (!rows) {
      return {};
    }
    sum = addTo(b, sum, rows);
  }
  return sum;
}

/// Handles windows with one row each. Every row of the group is in windows m + j, j < w div k; the
/// last w mod k rows are also in the next window.
static Value sumOfRows(OverlapAddOp op, BodyBuilder &body) {
  ImplicitLocOpBuilder &b = body.builder();
  int64_t k = op.getFactor(), w = op.getWindow(), width = countColumns(op), whole = w / k;
  AffineExpr p = b.getAffineDimExpr(0), i = b.getAffineDimExpr(1);
  auto load = [&](AffineExpr position, int64_t count) {
    return body.getStored(op.getInput(), position, b.getAffineConstantExpr(0), count, width);
  };
  Value all;
  if (whole > 0) {
    Value rows = load(whole > 1 ? p + i : p, whole);
    all = rows ? sumOfGroup(b, rows) : Value();
    if (!all || k == 1) {
      return all;
    }
  }
  auto group = RankedTensorType::get({k, width}, b.getF32Type());
  all = all ? dispatch::SpreadOp::create(b, group, all).getResult() : Value();
  if (w % k == 0) {
    return all;
  }
  Value row = load(p + whole, 1);
  if (!row) {
    return {};
  }
  auto places = group.clone(b.getI32Type());
  Value begin = arith::ConstantOp::create(
      b, DenseElementsAttr::get(places, static_cast<int32_t>((k - w % k) * width)));
  Value column = dispatch::ColumnOp::create(b, places);
  Value stands = arith::CmpIOp::create(b, arith::CmpIPredicate::sge, column, begin);
  Value last = dispatch::SpreadOp::create(b, group, row);
  return addTo(b, all, arith::SelectOp::create(b, stands, last, body.constant(group, 0)));
}

LogicalResult OverlapAddOp::emitBody(BodyBuilder &body) {
  bool isOneRow = getInput().getType().getWidth() == countColumns(*this);
  Value sum = isOneRow ? sumOfRows(*this, body) : sumOfPieces(*this, body);
  body.set(getResult(), sum);
  return success(sum != nullptr);
}
