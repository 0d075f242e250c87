// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Lowers the ops of Segments.cpp to one row pass each: a row finds its segment by the counts, a
// segment finds its rows by the ends, and both read rows of the other scale by an index or sum a
// range.
#include "../Fusion/RowPass.h"
#include "sluice/Dialect/Plan/Names.h"
#include "sluice/Dialect/Plan/Plan.h"

#include <numeric>

using namespace mlir;
using namespace sluice;
using namespace sluice::lowering;

namespace {

/// The segment of row t of the finer scale, in terms of ends: it is between e(v - 1) and e(v) with
/// v = c(t - 1), or c(t) if bits begin segments. Its row on the segments' scale is m = v, or v - 1.
template <typename Op> struct Within {
  Within(Op op, RowPass &pass, DispatchEmitter &emitter)
      : index(pass.count(op.getCounts(), op.getStarts() ? 0 : -1)), offset(op.getStarts() ? -1 : 0),
        before(pass.end(op.getEnds(), index, -1)), last(pass.end(op.getEnds(), index, 0)),
        isClosed(isClosedSegment(pass.b, last, countPositions(op.getCounts(), emitter))) {}
  Value index;
  int64_t offset;
  Value before, last, isClosed;
};

} // namespace

//===----------------------------------------------------------------------===//
// Given axes
//===----------------------------------------------------------------------===//

/// The host passes the counts of a given axis. The scan computes the numbers of its segments, and
/// @prefill stores them for @step.
Value DispatchEmitter::getCounts(SequenceType given) {
  int64_t batch = getBatch(scope), factor = getFactor(scope, given);
  std::string name = getAxisName(scope, given);
  auto i64 = RankedTensorType::get({batch}, b.getI64Type());
  auto column = RankedTensorType::get({batch, 1}, b.getI64Type());
  Value numbers;
  if (!isSegmented(scope, given)) {
    numbers = bind(givenPlace(scope, countsName(name)), i64);
    if (factor == 1) {
      return numbers;
    }
    numbers = plan::ViewOp::create(b, column, numbers);
  }
  for (auto cut : scope->getParentOfType<func::FuncOp>().getOps<SegmentOp>()) {
    if (getAxisName(scope, cut.getEnds().getType()) == name) {
      numbers = get(cut.getEnds()).getDefiningOp<dispatch::SegmentScanOp>().getTotals();
    }
  }
  if (!numbers) {
    Value closed = bind("state:" + plan::closedName(name), i64.clone(b.getI32Type()));
    numbers = plan::ViewOp::create(b, column.clone(b.getI32Type()), closed);
  }
  RowPass pass(*this);
  Value number = pass.first(numbers, 0);
  if (number.getType().isInteger(32)) {
    number = arith::ExtSIOp::create(pass.b, pass.b.getI64Type(), number);
  }
  if (factor > 1) { // the last group may lack rows
    auto constant = [&](int64_t value) -> Value {
      return arith::ConstantOp::create(pass.b, pass.b.getI64IntegerAttr(value));
    };
    number = arith::AddIOp::create(pass.b, number, constant(factor - 1));
    number = arith::DivSIOp::create(pass.b, number, constant(factor));
  }
  Value counts =
      pass.finish(number, column, dispatch::DomainAttr::get(b.getContext(), batch, 1, 0));
  if (step) { // counts change only when a line is taken
    setExtent(counts.getDefiningOp(), StepValues::DispatchExtent::Whole);
  }
  return plan::ViewOp::create(b, i64, counts);
}

//===----------------------------------------------------------------------===//
// Boundaries
//===----------------------------------------------------------------------===//

/// Adds the spare rows that a segmentation must leave to the totals, which the host compares.
static Value withSpare(Value totals, int64_t spare, DispatchEmitter &emitter) {
  auto type = cast<RankedTensorType>(totals.getType());
  RowPass pass(emitter);
  Value number = pass.element(totals, AccessKind::Row),
        place = dispatch::PositionOp::create(pass.b, pass.b.getI32Type());
  Value isCount =
      arith::CmpIOp::create(pass.b, arith::CmpIPredicate::eq, place, createI32(pass.b, 0));
  Value more =
      arith::AddIOp::create(pass.b, number, createI32(pass.b, static_cast<int32_t>(spare)));
  Value yielded = arith::SelectOp::create(pass.b, isCount, more, number);
  return pass.finish(yielded, type,
                     dispatch::DomainAttr::get(pass.b.getContext(), type.getDimSize(0), 2, 0));
}

/// Returns the least common multiple of the groups of all scales of an axis.
static int64_t rowsOfAllGroups(Operation *scope, StringRef axis) {
  int64_t rows = 1;
  for (auto scale : scope->getParentOfType<ModuleOp>().getOps<ScaleOp>()) {
    rows = scale.getAxis() == axis ? std::lcm(rows, static_cast<int64_t>(scale.getFactor())) : rows;
  }
  return rows;
}

/// Stores the number of rows of the segments' axis for each batch row: its segments, `open` for a
/// segment that is still open, and padding to complete groups, because groups on the axis are
/// loaded whole. The number is limited to the rows of the axis. `needed`, [B, 2], has numbers of
/// segments. With `isHosted` it is also limited to the host's capacity, if the host passes one (not
/// 0): the host then detects that more are needed.
static void storeLengths(Value needed, int64_t rows, StringRef axis, int64_t open, bool isHosted,
                         DispatchEmitter &emitter) {
  RowPass pass(emitter);
  ImplicitLocOpBuilder &b = pass.b;
  auto number = [&](int64_t number) { return createI32(b, static_cast<int32_t>(number)); };
  Value segments = pass.first(needed, 0);
  int64_t group = rowsOfAllGroups(emitter.getScope(), axis);
  Value begun = arith::AddIOp::create(b, segments, number(open + group - 1));
  Value whole = arith::SubIOp::create(b, begun, arith::RemSIOp::create(b, begun, number(group)));
  Value length =
      arith::ExtSIOp::create(b, b.getI64Type(), arith::MinSIOp::create(b, whole, number(rows)));
  if (isHosted) {
    Value room = pass.element(
        emitter.bind("scalar:room", RankedTensorType::get({}, b.getI64Type())), AccessKind::Scalar);
    Value none = arith::ConstantOp::create(b, b.getI64IntegerAttr(0));
    Value isBounded = arith::CmpIOp::create(b, arith::CmpIPredicate::sgt, room, none);
    length = arith::SelectOp::create(b, isBounded, arith::MinSIOp::create(b, length, room), length);
  }
  int64_t batch = cast<RankedTensorType>(needed.getType()).getDimSize(0);
  Value stored = pass.finish(length, RankedTensorType::get({batch, 1}, b.getI64Type()),
                             dispatch::DomainAttr::get(b.getContext(), batch, 1, 0));
  stored.getDefiningOp<dispatch::RowsOp>().setLabel("segments");
  plan::StoreOp::create(emitter.b, "scalar:" + plan::lengthName(axis), stored);
}

/// Selects by the position p after the current one and the row's count n: `number` where the
/// predicate holds, else `other`.
static Value selectByCount(RowPass &pass, arith::CmpIPredicate isIt, Value counts, float number,
                           Value other) {
  ImplicitLocOpBuilder &b = pass.b;
  Value next =
      arith::AddIOp::create(b, dispatch::PositionOp::create(b, b.getI32Type()), createI32(b, 1));
  Value constant = arith::ConstantOp::create(b, b.getF32FloatAttr(number));
  if (auto row = dyn_cast<RankedTensorType>(other.getType())) {
    constant = tensor::SplatOp::create(b, row, constant);
  }
  return arith::SelectOp::create(b, arith::CmpIOp::create(b, isIt, next, counts), constant, other);
}

/// Loads the row's count on a given axis, as an i32.
static Value loadCount(RowPass &pass, Value sequence, DispatchEmitter &emitter) {
  Value counts = emitter.getCounts(cast<SequenceType>(sequence.getType()));
  auto column = RankedTensorType::get({cast<RankedTensorType>(counts.getType()).getDimSize(0), 1},
                                      emitter.b.getI64Type());
  Value count = pass.first(plan::ViewOp::create(emitter.b, column, counts), 0);
  return arith::TruncIOp::create(pass.b, pass.b.getI32Type(), count);
}

LogicalResult ClearPaddingOp::emitDispatches(DispatchEmitter &emitter) {
  RowPass pass(emitter);
  Value row = pass.row(getInput()), count = loadCount(pass, getInput(), emitter);
  return pass.finish(
      selectByCount(pass, arith::CmpIPredicate::sgt, count, getFill().convertToFloat(), row),
      getResult());
}

/// Returns the bits of a given axis up to each text's own count: its last position has a bit, and
/// the positions after it have none.
static Value closeByCount(SegmentOp op, RankedTensorType type, DispatchEmitter &emitter) {
  RowPass pass(emitter);
  ImplicitLocOpBuilder &b = pass.b;
  Value bit = pass.row(op.getBits()), count = loadCount(pass, op.getBits(), emitter);
  if (isa<RankedTensorType>(bit.getType())) {
    bit = dispatch::ReduceOp::create(b, b.getF32Type(), dispatch::ReduceKind::Add, bit);
  }
  Value closed = selectByCount(pass, arith::CmpIPredicate::eq, count, 1, bit);
  return pass.finish(selectByCount(pass, arith::CmpIPredicate::sgt, count, 0, closed), type,
                     emitter.getRowDomain(op.getCounts()));
}

LogicalResult SegmentOp::emitDispatches(DispatchEmitter &emitter) {
  RankedTensorType counts = emitter.getTensorType(getCounts());
  auto totals = RankedTensorType::get({counts.getDimSize(0), 2}, emitter.b.getI32Type());
  bool given = isGiven(*this, getBits().getType());
  Value bits = given ? closeByCount(*this, counts.clone(emitter.b.getF32Type()), emitter)
                     : emitter.get(getBits());
  auto scan = dispatch::SegmentScanOp::create(emitter.b, counts, emitter.getTensorType(getEnds()),
                                              totals, bits, emitter.getRowDomain(getCounts()),
                                              StringAttr(), StringAttr());
  emitter.set(getCounts(), scan.getCounts());
  emitter.set(getEnds(), scan.getEnds());
  auto scale = SymbolTable::lookupNearestSymbolFrom<ScaleOp>(
      emitter.getScope(), cast<SequenceType>(getEnds().getType()).getScale());
  int64_t rows = emitter.getTensorType(getEnds()).getDimSize(1);
  if (given) { // it has a row for each position, so that the host has nothing to compare
    if (scan.getDomain().getAxis()) {
      storeLengths(scan.getTotals(), rows, scale.getAxis(), /*open=*/0, /*isHosted=*/false,
                   emitter);
    }
    return success();
  }
  auto spare = static_cast<int64_t>(getSpare());
  Value needed = spare > 0 ? withSpare(scan.getTotals(), spare, emitter) : scan.getTotals();
  plan::StoreOp::create(emitter.b, "scalar:" + plan::countsName(scale.getAxis()), needed);
  storeLengths(needed, rows, scale.getAxis(), /*open=*/spare > 0 ? 0 : 1, /*isHosted=*/true,
               emitter);
  return success();
}

//===----------------------------------------------------------------------===//
// Rows of segments
//===----------------------------------------------------------------------===//

/// A segment that is not closed has an arbitrary range or none; its value is unused.
LogicalResult PoolSegmentsOp::emitDispatches(DispatchEmitter &emitter) {
  RowPass pass(emitter);
  int64_t behind = getStarts() ? 0 : 1;
  Value before = pass.end(getEnds(), -behind), last = pass.end(getEnds(), 1 - behind);
  Value sum = pass.sum(getInput(), before, last, behind);
  Value mean = getSum() ? sum : scaleRow(pass.b, sum, computeShare(pass.b, before, last));
  Value isClosed = isClosedSegment(pass.b, last, countPositions(getCounts(), emitter));
  return pass.finish(selectRow(pass.b, isClosed, mean), getResult());
}

LogicalResult SelectSegmentsOp::emitDispatches(DispatchEmitter &emitter) {
  RowPass pass(emitter);
  Value end = pass.end(getEnds(), 0);
  return pass.finish(pass.gather(getInput(), end, 0, /*whole=*/false), getResult());
}

/// c(t) - by = m exactly if e(m + by - 1) <= t < e(m + by), and c(t - 1) - by = m one row later.
LogicalResult SpreadSegmentsBackwardOp::emitDispatches(DispatchEmitter &emitter) {
  RowPass pass(emitter);
  auto by = static_cast<int64_t>(getBy());
  Value first = pass.end(getEnds(), by - 1), last = pass.end(getEnds(), by);
  Value sum = pass.sum(getGradient(), first, last, getOwn() ? 1 : 0);
  if (getOwn()) { // an open segment's range has rows past the last valid one
    Value isClosed = isClosedSegment(pass.b, last, countPositions(getCounts(), emitter));
    sum = selectRow(pass.b, isClosed, sum);
  }
  return pass.finish(sum, getResult());
}

//===----------------------------------------------------------------------===//
// Rows of the finer scale
//===----------------------------------------------------------------------===//

LogicalResult SpreadSegmentsOp::emitDispatches(DispatchEmitter &emitter) {
  RowPass pass(emitter);
  Value count = pass.count(getCounts(), getOwn() ? -1 : 0);
  return pass.finish(pass.gather(getInput(), count, -static_cast<int64_t>(getBy()), /*whole=*/true),
                     getResult());
}

LogicalResult PoolSegmentsBackwardOp::emitDispatches(DispatchEmitter &emitter) {
  RowPass pass(emitter);
  Within of(*this, pass, emitter);
  Value row = pass.gather(getGradient(), of.index, of.offset, /*whole=*/true);
  Value share = getSum() ? row : scaleRow(pass.b, row, computeShare(pass.b, of.before, of.last));
  return pass.finish(selectRow(pass.b, of.isClosed, share), getResult());
}

/// Computes h[t], f32: zeros if t's segment is not closed.
static Value movedBy(PoolSegmentsBitsBackwardOp op, RankedTensorType type,
                     DispatchEmitter &emitter) {
  RowPass pass(emitter);
  Within of(op, pass, emitter);
  Value gradient = pass.gather(op.getGradient(), of.index, of.offset, /*whole=*/true);
  Value mean = pass.gather(op.getPooled(), of.index, of.offset, /*whole=*/true);
  Value distance = arith::SubFOp::create(pass.b, pass.row(op.getInput()), mean);
  Value product = arith::MulFOp::create(pass.b, gradient, distance);
  Value moved = isa<RankedTensorType>(product.getType())
                    ? Value(dispatch::ReduceOp::create(pass.b, pass.b.getF32Type(),
                                                       dispatch::ReduceKind::Add, product))
                    : product;
  Value share = arith::MulFOp::create(pass.b, moved, computeShare(pass.b, of.before, of.last));
  return pass.finish(selectRow(pass.b, of.isClosed, share), type,
                     emitter.getRowDomain(op.getResult()));
}

LogicalResult PoolSegmentsBitsBackwardOp::emitDispatches(DispatchEmitter &emitter) {
  RankedTensorType counts = emitter.getTensorType(getCounts());
  Value moved = movedBy(*this, counts.clone(emitter.b.getF32Type()), emitter);
  RowPass pass(emitter);
  Value index = pass.count(getCounts(), getStarts() ? 0 : -1);
  Value last = pass.end(getEnds(), index, 0);
  Value sum = pass.sumFromHere(moved, emitter.getRowDomain(getResult()).getFactor(), last,
                               getStarts() ? 0 : 1);
  if (int64_t width = getSequenceWidth(getResult())) {
    sum = tensor::SplatOp::create(pass.b, RankedTensorType::get({width}, sum.getType()), sum);
  }
  return pass.finish(sum, getResult());
}

LogicalResult SelectSegmentsBackwardOp::emitDispatches(DispatchEmitter &emitter) {
  RowPass pass(emitter);
  Value count = pass.count(getCounts(), 0);
  Value end = pass.end(getEnds(), count, -1);
  Value row = pass.gather(getGradient(), count, -1, /*whole=*/true);
  Value place = dispatch::PositionOp::create(pass.b, pass.b.getI32Type());
  Value isEnd = arith::CmpIOp::create(pass.b, arith::CmpIPredicate::eq, end, place);
  return pass.finish(selectRow(pass.b, isEnd, row), getResult());
}

/// Computes the total once per batch row, and copies it to every row.
LogicalResult TotalOp::emitDispatches(DispatchEmitter &emitter) {
  RankedTensorType type = emitter.getTensorType(getResult());
  SmallVector<int64_t> shape(type.getShape());
  shape[1] = 1;
  RowPass sum(emitter);
  Value totals =
      sum.finish(sum.total(getInput()), RankedTensorType::get(shape, emitter.b.getF32Type()),
                 emitter.wholeDomain(shape[0], 1));
  RowPass every(emitter);
  return every.finish(every.first(totals, getSequenceWidth(getResult())), getResult());
}

//===----------------------------------------------------------------------===//
// Columns of one row
//===----------------------------------------------------------------------===//

LogicalResult SumColumnsOp::emitBody(BodyBuilder &body) {
  Value row = body.get(getInput());
  if (!row) {
    return failure();
  }
  body.set(getResult(), isa<RankedTensorType>(row.getType()) ? body.sum(row) : row);
  return success();
}

LogicalResult RepeatColumnsOp::emitBody(BodyBuilder &body) {
  Value number = body.get(getInput());
  if (!number) {
    return failure();
  }
  Type f32 = body.builder().getF32Type();
  int64_t width = getResult().getType().getWidth();
  body.set(getResult(),
           width == 0 ? number : body.splat(number, RankedTensorType::get({width}, f32)));
  return success();
}
