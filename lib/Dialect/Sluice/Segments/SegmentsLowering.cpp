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

/// Stores the number of rows of the segments' axis for each batch row: its segments, one for a
/// segment that is still open, and padding to complete groups, because groups on the axis are
/// loaded whole. The number is limited to the rows of the axis and to the host's capacity, if it
/// passes one (not 0): the host then detects that more are needed. `needed`, [B, 2], has numbers of
/// segments.
static void storeLengths(Value needed, int64_t rows, StringRef axis, bool hasSpare,
                         DispatchEmitter &emitter) {
  RowPass pass(emitter);
  ImplicitLocOpBuilder &b = pass.b;
  auto number = [&](int64_t number) { return createI32(b, static_cast<int32_t>(number)); };
  Value segments = pass.first(needed, 0);
  Value room = pass.element(emitter.bind("scalar:room", RankedTensorType::get({}, b.getI64Type())),
                            AccessKind::Scalar);
  int64_t open = hasSpare ? 0 : 1, group = rowsOfAllGroups(emitter.getScope(), axis);
  Value begun = arith::AddIOp::create(b, segments, number(open + group - 1));
  Value whole = arith::SubIOp::create(b, begun, arith::RemSIOp::create(b, begun, number(group)));
  Value length =
      arith::ExtSIOp::create(b, b.getI64Type(), arith::MinSIOp::create(b, whole, number(rows)));
  Value none = arith::ConstantOp::create(b, b.getI64IntegerAttr(0));
  Value isBounded = arith::CmpIOp::create(b, arith::CmpIPredicate::sgt, room, none);
  Value bounded = arith::MinSIOp::create(b, length, room);
  int64_t batch = cast<RankedTensorType>(needed.getType()).getDimSize(0);
  Value stored = pass.finish(arith::SelectOp::create(b, isBounded, bounded, length),
                             RankedTensorType::get({batch, 1}, b.getI64Type()),
                             dispatch::DomainAttr::get(b.getContext(), batch, 1, 0));
  stored.getDefiningOp<dispatch::RowsOp>().setLabel("segments");
  plan::StoreOp::create(emitter.b, "scalar:" + plan::lengthName(axis), stored);
}

LogicalResult SegmentOp::emitDispatches(DispatchEmitter &emitter) {
  RankedTensorType counts = emitter.getTensorType(getCounts());
  auto totals = RankedTensorType::get({counts.getDimSize(0), 2}, emitter.b.getI32Type());
  auto scan = dispatch::SegmentScanOp::create(
      emitter.b, counts, emitter.getTensorType(getEnds()), totals, emitter.get(getBits()),
      emitter.getRowDomain(getCounts()), StringAttr(), StringAttr());
  emitter.set(getCounts(), scan.getCounts());
  emitter.set(getEnds(), scan.getEnds());
  auto spare = static_cast<int64_t>(getSpare());
  Value needed = spare > 0 ? withSpare(scan.getTotals(), spare, emitter) : scan.getTotals();
  auto scale = SymbolTable::lookupNearestSymbolFrom<ScaleOp>(
      emitter.getScope(), cast<SequenceType>(getEnds().getType()).getScale());
  plan::StoreOp::create(emitter.b, "scalar:" + plan::countsName(scale.getAxis()), needed);
  storeLengths(needed, emitter.getTensorType(getEnds()).getDimSize(1), scale.getAxis(), spare > 0,
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
  Value mean = scaleRow(pass.b, sum, computeShare(pass.b, before, last));
  Value isClosed = isClosedSegment(pass.b, last, countPositions(getCounts(), emitter));
  return pass.finish(selectRow(pass.b, isClosed, mean), getResult());
}

LogicalResult SelectSegmentsOp::emitDispatches(DispatchEmitter &emitter) {
  RowPass pass(emitter);
  Value end = pass.end(getEnds(), 0);
  return pass.finish(pass.gather(getInput(), end, 0, /*whole=*/false), getResult());
}

/// c(t) - by = m exactly if e(m + by - 1) <= t < e(m + by).
LogicalResult SpreadSegmentsBackwardOp::emitDispatches(DispatchEmitter &emitter) {
  RowPass pass(emitter);
  auto by = static_cast<int64_t>(getBy());
  Value first = pass.end(getEnds(), by - 1), last = pass.end(getEnds(), by);
  return pass.finish(pass.sum(getGradient(), first, last, 0), getResult());
}

//===----------------------------------------------------------------------===//
// Rows of the finer scale
//===----------------------------------------------------------------------===//

LogicalResult SpreadSegmentsOp::emitDispatches(DispatchEmitter &emitter) {
  RowPass pass(emitter);
  Value count = pass.count(getCounts(), 0);
  return pass.finish(pass.gather(getInput(), count, -static_cast<int64_t>(getBy()), /*whole=*/true),
                     getResult());
}

LogicalResult PoolSegmentsBackwardOp::emitDispatches(DispatchEmitter &emitter) {
  RowPass pass(emitter);
  Within of(*this, pass, emitter);
  Value row = pass.gather(getGradient(), of.index, of.offset, /*whole=*/true);
  Value share = scaleRow(pass.b, row, computeShare(pass.b, of.before, of.last));
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
