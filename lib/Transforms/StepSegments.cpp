// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Segments in the entry points of generation. A decode step needs only the number of earlier bits,
// which is a state. The bit of the step is added to it and then determines which rows of segments
// are due.
#include "StepSegments.h"
#include "RowsBuilder.h"
#include "StepCounts.h"
#include "StepEntries.h"
#include "sluice/Dialect/Plan/Names.h"

using namespace mlir;
using namespace sluice;
using dispatch::AccessAttr;
using dispatch::AccessKind;

FlatSymbolRefAttr sluice::findSegmentAxis(SegmentOp cut) {
  return SymbolTable::lookupNearestSymbolFrom<ScaleOp>(cut, cut.getEnds().getType().getScale())
      .getAxisAttr();
}

/// Drops states of bits that only segmentations read, since their count is kept.
void sluice::dropBits(func::FuncOp step) {
  for (auto keep : llvm::to_vector(step.getOps<KeepOp>())) {
    bool areBits = llvm::all_of(keep->getUses(), [](OpOperand &use) {
      auto segments = dyn_cast<SegmentsInterface>(use.getOwner());
      return segments && segments.readsBits(use.getOperandNumber());
    });
    if (areBits && !keep.use_empty()) {
      SymbolTable::lookupNearestSymbolFrom<StateOp>(keep, keep.getStateAttr()).erase();
      keep.getResult().replaceAllUsesWith(keep.getValue());
      keep.erase();
    }
  }
}

static std::string placeOfClosed(FlatSymbolRefAttr axis) {
  return "state:" + plan::closedName(axis.getValue());
}

static Value bindClosed(StepContext &context, FlatSymbolRefAttr axis) {
  return plan::BindOp::create(context.b, context.module.getLoc(),
                              context.perRow().clone(context.b.getI32Type()), placeOfClosed(axis));
}

/// Returns the access to the only row of a tensor that has one row per row of the batch.
static AccessAttr onlyRow(OpBuilder &b) {
  AffineMap zero = AffineMap::get(2, 1, b.getAffineConstantExpr(0));
  AffineMap column = AffineMap::get(1, 0, b.getAffineConstantExpr(0));
  return AccessAttr::get(b.getContext(), AccessKind::Row, AffineMapAttr::get(zero), 1, 0,
                         AffineMapAttr::get(column), -1, /*outside=*/FloatAttr());
}

static Value toI64(RowsBuilder &rows, Value number) {
  return arith::ExtSIOp::create(rows.body, rows.body.getI64Type(), number);
}

static Value toI32(RowsBuilder &rows, Value number) {
  return arith::TruncIOp::create(rows.body, rows.body.getI32Type(), number);
}

static Value isAbove(RowsBuilder &rows, Value number, int64_t other) {
  return arith::CmpIOp::create(rows.body, arith::CmpIPredicate::sgt, number,
                               constant(rows.body, other));
}

/// Returns a nonnegative member of a row of three numbers (see `packRow`).
static Value selectMember(RowsBuilder &rows, Value three, int32_t member) {
  auto type = cast<RankedTensorType>(three.getType());
  Value column = dispatch::ColumnOp::create(rows.body, type.clone(rows.body.getI32Type()));
  auto dense = [&](RankedTensorType type, Attribute number) -> Value {
    return arith::ConstantOp::create(rows.body, DenseElementsAttr::get(type, number));
  };
  auto columns = cast<RankedTensorType>(column.getType());
  Value isIt = arith::CmpIOp::create(rows.body, arith::CmpIPredicate::eq, column,
                                     dense(columns, rows.body.getI32IntegerAttr(member)));
  Value it =
      arith::SelectOp::create(rows.body, isIt, three, dense(type, rows.body.getI64IntegerAttr(0)));
  return dispatch::ReduceOp::create(rows.body, type.getElementType(), dispatch::ReduceKind::Max,
                                    it);
}

/// Returns true if a segmentation segments the tokens themselves, of which each step has one.
static bool cutsTokens(SegmentOp op) {
  auto scale = SymbolTable::lookupNearestSymbolFrom<ScaleOp>(op, op.getBits().getType().getScale());
  return scale.getFactor() == 1 && !isSegmented(op, op.getBits().getType());
}

//===----------------------------------------------------------------------===//
// A step
//===----------------------------------------------------------------------===//

/// Returns the number of the schedule that makes an op's rows due.
static size_t getOpNumber(StepContext &context, Operation *op) {
  return context.numbers.lookup(context.values.getSchedule(op));
}

/// Computes, for each selected row, the number of segments closed before this step plus its own
/// bit.
static Value countSegments(StepContext &context, SegmentOp op, Value bits, RankedTensorType type) {
  Type i32 = context.b.getI32Type();
  size_t number = getOpNumber(context, op);
  RowsBuilder each(context.b, op.getLoc(),
                   dispatch::DomainAttr::get(context.b.getContext(), context.rows,
                                             context.bursts[number], 1, true));
  Value closed =
      plan::ViewOp::create(context.b, op.getLoc(), RankedTensorType::get({context.rows, 1}, i32),
                           bindClosed(context, findSegmentAxis(op)));
  Value before = each.operand(closed, onlyRow(context.b), i32);
  auto stored = cast<RankedTensorType>(bits.getType());
  Type number32 = context.b.getF32Type();
  AccessAttr own = AccessAttr::get(
      context.b.getContext(), AccessKind::Row,
      AffineMapAttr::get(AffineMap::get(2, 1, context.b.getAffineDimExpr(0))), 1, 1,
      AffineMapAttr::get(AffineMap::get(1, 0, context.b.getAffineConstantExpr(0))), -1,
      /*outside=*/FloatAttr());
  bool isRow = stored.getRank() == 3;
  Value bit = each.operand(bits, own, isRow ? RankedTensorType::get({1}, number32) : number32);
  bit =
      isRow ? dispatch::ReduceOp::create(each.body, number32, dispatch::ReduceKind::Add, bit) : bit;
  Value isSet = arith::CmpFOp::create(each.body, arith::CmpFPredicate::OGT, bit,
                                      each.constant(0.5, number32));
  Value count =
      arith::AddIOp::create(each.body, before, arith::ExtUIOp::create(each.body, i32, isSet));
  each.result(count, AccessKind::Row, type);
  dispatch::RowsOp made = each.finish("segments", context.schedules[number]);
  made.setGuardAttr(context.b.getStringAttr("due." + Twine(number)));
  return made.getResult(0);
}

/// Clamps to the number of rows of the schedule's scale: values that depend on no token, such as
/// rows by distance, are due ahead of the segments, and have no rows after the end of the scale.
Value sluice::clampToAxis(StepContext &context, ImplicitLocOpBuilder &b, ScheduleOp schedule,
                          Value rows) {
  auto axis = SymbolTable::lookupNearestSymbolFrom<AxisOp>(schedule, schedule.getSegmentsAttr());
  int64_t factor = std::max<int64_t>(1, context.factors.lookup(schedule));
  int64_t most = llvm::divideCeil(static_cast<int64_t>(*axis.getRows()), factor);
  return arith::MinSIOp::create(b, rows, constant(b, most));
}

/// Emits one launch for the schedules of the axis: rows for the segments closed before this step
/// (none before the first one), and after it. A step may have no row of the segmented scale.
static Value scheduleSegments(StepContext &context, SegmentOp op, Value counts) {
  Type i64 = context.b.getI64Type(), i32 = context.b.getI32Type();
  Location loc = op.getLoc();
  FlatSymbolRefAttr axis = findSegmentAxis(op);
  RowsBuilder each(context.b, loc,
                   dispatch::DomainAttr::get(context.b.getContext(), 1, context.rows, 0));
  ImplicitLocOpBuilder &body = each.body;
  Value closed = toI64(each, each.operand(bindClosed(context, axis), AccessKind::Flat, i32));
  Value done = each.operand(context.doneNow, AccessKind::Flat, i64);
  Value take = each.operand(plan::BindOp::create(context.b, loc, context.perRow(), "input:take"),
                            AccessKind::Flat, i64);
  Value view =
      plan::ViewOp::create(context.b, loc, RankedTensorType::get({context.rows}, i32), counts);
  Value count = toI64(each, each.operand(view, AccessKind::Flat, i32));
  Value bits = take, reach = done;
  if (!cutsTokens(op)) {
    size_t number = getOpNumber(context, op);
    Value three =
        each.operand(context.schedules[number], AccessKind::Flat, RankedTensorType::get({3}, i64));
    bits = selectMember(each, three, 1);
    reach = selectMember(each, three, 2);
  }
  Value now = arith::SelectOp::create(body, isAbove(each, bits, 0), count, closed);
  Value hasText = isAbove(each, arith::SubIOp::create(body, done, take), 0);
  Value before = arith::SelectOp::create(body, hasText, closed, constant(body, -1));

  auto type = RankedTensorType::get({context.rows, 3}, i64);
  SmallVector<std::pair<Value, Value>> runs;
  SmallVector<size_t> made;
  Value most = constant(body, 0);
  for (auto schedule : context.module.getOps<ScheduleOp>()) {
    if (schedule.getSegmentsAttr() == axis) {
      Value start = clampToAxis(context, body, schedule, emitRowCount(body, schedule, before));
      Value end = clampToAxis(context, body, schedule, emitRowCount(body, schedule, now));
      Value due = arith::MulIOp::create(body, arith::SubIOp::create(body, end, start), take);
      Value reached =
          arith::MulIOp::create(body, end, constant(body, context.factors.lookup(schedule)));
      most = arith::MaxSIOp::create(body, most, reached);
      runs.push_back({start, due});
      made.push_back(context.numbers.lookup(FlatSymbolRefAttr::get(schedule.getSymNameAttr())));
    }
  }
  for (auto [start, due] : runs) {
    each.result(packRow(each, start, due, most), AccessKind::Flat, type);
    each.result(packRow(each, start, due, reach), AccessKind::Flat, type);
  }
  each.result(toI32(each, now), AccessKind::Flat, context.perRow().clone(i32), /*alias=*/0);
  dispatch::RowsOp launch = each.finish("segment schedules");
  for (auto [i, number] : llvm::enumerate(made)) {
    context.schedules[number] = launch.getResult(2 * i);
    context.byTokens[number] = launch.getResult(2 * i + 1);
  }
  Value after = launch.getResults().back();
  plan::StoreOp::create(context.b, loc, placeOfClosed(axis), after);
  buildGuards(context, made);
  return after;
}

/// The end of the segment that this step closes is the position of the step, or of the only row
/// that the step has of the segmented scale.
static void storeEnds(StepContext &context, SegmentOp op, RankedTensorType type,
                      DenseMap<Value, Value> &tensors) {
  FlatSymbolRefAttr symbol = context.values.lookup(op.getEnds()).schedule;
  if (!symbol) { // unused
    return;
  }
  size_t number = context.numbers.lookup(symbol);
  Type i64 = context.b.getI64Type();
  RowsBuilder each(context.b, op.getLoc(),
                   dispatch::DomainAttr::get(context.b.getContext(), context.rows,
                                             context.bursts[number], 1, true));
  Value last;
  if (cutsTokens(op)) {
    Value view = plan::ViewOp::create(
        context.b, op.getLoc(), RankedTensorType::get({context.rows, 1}, i64), context.doneNow);
    Value length = each.operand(view, onlyRow(context.b), i64);
    last = arith::SubIOp::create(each.body, length, constant(each.body, 1));
  } else { // start of the schedule of its counts
    last = each.operand(context.schedules[getOpNumber(context, op)], onlyRow(context.b), i64);
  }
  each.result(toI32(each, last), AccessKind::Row, type);
  dispatch::RowsOp made = each.finish("ends", context.schedules[number]);
  made.setGuardAttr(context.b.getStringAttr("due." + Twine(number)));
  tensors[op.getEnds()] = made.getResult(0);
}

/// Numbers the schedules of the members: the rows of segments that attend to their rows, one row
/// per position.
void sluice::numberMembers(StepContext &context, func::FuncOp step) {
  for (auto attention : step.getOps<AttendSegmentsOp>()) {
    if (context.members.try_emplace(getOpNumber(context, attention), context.bursts.size())
            .second) {
      context.bursts.push_back(getPositions(step, attention.getCounts().getType()));
    }
  }
}

/// Returns the name of the scalar; the rows of segments have schedules with separate numbers.
std::string sluice::getGuardName(const StepContext &context, size_t number) {
  size_t before = 0;
  for (auto [ofSegments, ofRows] : context.members) {
    if (ofRows == number) {
      return getGuardName(context, ofSegments) + plan::rowsOfSegments.str();
    }
    before += ofRows < number ? 1 : 0;
  }
  return "due." + std::to_string(number - before);
}

/// Returns the number in a column of a row; -1 if there is no such column.
static Value numberIn(RowsBuilder &rows, Value row, Value place) {
  auto type = cast<RankedTensorType>(row.getType());
  Type i32 = rows.body.getI32Type();
  Value column = dispatch::ColumnOp::create(rows.body, type.clone(i32));
  Value isThere = arith::CmpIOp::create(rows.body, arith::CmpIPredicate::eq, column,
                                        rows.splat(place, type.clone(i32)));
  Value none = arith::ConstantOp::create(
      rows.body, DenseElementsAttr::get(type, rows.body.getIntegerAttr(type.getElementType(), -1)));
  return dispatch::ReduceOp::create(rows.body, type.getElementType(), dispatch::ReduceKind::Max,
                                    arith::SelectOp::create(rows.body, isThere, row, none));
}

/// Schedules, for each text, the rows of the segment that becomes due: from after the end of the
/// previous segment up to its own end. The ring has no entry for segment -1, whose end is -1.
static void scheduleMembers(StepContext &context, SegmentOp op, Value ends) {
  Type i64 = context.b.getI64Type(), i32 = context.b.getI32Type();
  auto type = RankedTensorType::get({context.rows, 3}, i64);
  auto ring = cast<RankedTensorType>(ends.getType());
  SmallVector<size_t> made;
  for (auto [number, ofRows] : context.members) {
    auto isIts = [&, number = number](AttendSegmentsOp attention) {
      return attention.getEnds() == op.getEnds() && getOpNumber(context, attention) == number;
    };
    if (llvm::none_of(op->getParentOfType<func::FuncOp>().getOps<AttendSegmentsOp>(), isIts)) {
      continue;
    }
    RowsBuilder each(context.b, op.getLoc(),
                     dispatch::DomainAttr::get(context.b.getContext(), 1, context.rows, 0));
    ImplicitLocOpBuilder &body = each.body;
    auto run = RankedTensorType::get({3}, i64);
    Value due = each.operand(context.schedules[number], AccessKind::Flat, run);
    Value all = each.operand(ends, AccessKind::Flat, ring.clone({ring.getDimSize(1)}, i32));
    Value length = each.operand(context.doneNow, AccessKind::Flat, i64);
    auto whole = [&](int32_t value) -> Value {
      return arith::ConstantOp::create(body, body.getI32IntegerAttr(value));
    };
    Value slots = whole(static_cast<int32_t>(ring.getDimSize(1)));
    Value segment = toI32(each, numberIn(each, due, whole(0)));
    Value earlier = arith::SubIOp::create(body, segment, whole(1));
    Value before = numberIn(each, all, arith::RemSIOp::create(body, earlier, slots));
    Value last = numberIn(each, all, arith::RemSIOp::create(body, segment, slots));
    Value count = toI64(each, arith::SubIOp::create(body, last, before));
    count = arith::SelectOp::create(body, isAbove(each, numberIn(each, due, whole(1)), 0), count,
                                    constant(body, 0));
    Value start = toI64(each, arith::AddIOp::create(body, before, whole(1)));
    each.result(packRow(each, start, count, length), AccessKind::Flat, type);
    dispatch::RowsOp launch = each.finish("segment rows");
    context.schedules[ofRows] = launch.getResult(0);
    made.push_back(ofRows);
  }
  if (!made.empty()) {
    buildGuards(context, made);
  }
}

/// Stores totals that the host compares after a run: the rows that the segments need, and the
/// capacity.
static void storeTotals(OpBuilder &b, SegmentOp op, Value closed, int64_t rows, StringRef axis) {
  Type i32 = b.getI32Type();
  RowsBuilder each(b, op.getLoc(), dispatch::DomainAttr::get(b.getContext(), 1, rows, 0));
  Value count = toI64(each, each.operand(closed, AccessKind::Flat, i32));
  Value needed = arith::AddIOp::create(each.body, count,
                                       constant(each.body, static_cast<int64_t>(op.getSpare())));
  auto row = RankedTensorType::get({2}, i32);
  Value column = dispatch::ColumnOp::create(each.body, row);
  auto dense = [&](int32_t number) -> Value {
    return arith::ConstantOp::create(each.body, DenseElementsAttr::get(row, number));
  };
  Value isNeeded = arith::CmpIOp::create(each.body, arith::CmpIPredicate::eq, column, dense(0));
  auto most = static_cast<int32_t>(getPositions(op, op.getEnds().getType()));
  Value both = arith::SelectOp::create(each.body, isNeeded, each.splat(toI32(each, needed), row),
                                       dense(most));
  each.result(both, AccessKind::Flat, RankedTensorType::get({rows, 2}, i32));
  dispatch::RowsOp made = each.finish("segment totals");
  plan::StoreOp::create(b, op.getLoc(), "scalar:" + plan::countsName(axis), made.getResult(0));
}

void sluice::replaceSegmentation(StepContext &context, SegmentOp op,
                                 DenseMap<Value, Value> &tensors) {
  context.b.setInsertionPoint(op->getBlock()->getTerminator());
  DispatchEmitter emitter(op, context.b, tensors, /*axis=*/{}, &context.values);
  Value counts = countSegments(context, op, tensors.lookup(op.getBits()),
                               emitter.getTensorType(op.getCounts()));
  tensors[op.getCounts()] = counts;
  Value closed = scheduleSegments(context, op, counts);
  storeEnds(context, op, emitter.getTensorType(op.getEnds()), tensors);
  scheduleMembers(context, op, tensors.lookup(op.getEnds()));
  storeTotals(context.b, op, closed, context.rows, findSegmentAxis(op).getValue());
}

//===----------------------------------------------------------------------===//
// A prompt
//===----------------------------------------------------------------------===//

/// Counts the closed segments in the rows of the prompt. Counts never decrease, so the result is
/// the maximum of the valid counts; -1, the count before any token, for a row that takes no prompt.
Value sluice::countClosed(StepContext &context, RowsBuilder &each, ValueRange counts, size_t i,
                          Value take) {
  const StepContext::Cut &cut = context.cuts[i];
  int64_t positions = cast<RankedTensorType>(counts[i].getType()).getDimSize(1);
  Value there = cut.isGiven ? constant(each.body, positions) : take;
  if (cut.counted) {
    Value clock = cut.outer ? countClosed(context, each, counts, *cut.outer, take)
                            : Value(arith::SubIOp::create(each.body, take, constant(each.body, 1)));
    there = emitRowCount(each.body, cut.counted, clock);
  }
  auto row = RankedTensorType::get({positions}, context.b.getI32Type());
  Value view = plan::ViewOp::create(context.b, context.module.getLoc(), row, counts[i]);
  Value numbers = each.operand(view, AccessKind::Vector, row);
  Value column = dispatch::ColumnOp::create(each.body, row);
  Value isThere = arith::CmpIOp::create(each.body, arith::CmpIPredicate::slt, column,
                                        each.splat(toI32(each, there), row));
  Value none = arith::ConstantOp::create(
      each.body, DenseElementsAttr::get(row, context.b.getI32IntegerAttr(0)));
  Value kept = arith::SelectOp::create(each.body, isThere, numbers, none);
  Value most = toI64(each, dispatch::ReduceOp::create(each.body, context.b.getI32Type(),
                                                      dispatch::ReduceKind::Max, kept));
  return cut.isGiven ? most
                     : arith::SelectOp::create(each.body, isAbove(each, take, 0), most,
                                               constant(each.body, -1));
}

/// Records the segmentations of @prefill, whose counts are its last results; `due` maps each count
/// to the schedule of its rows.
void sluice::addCuts(StepContext &context, func::FuncOp prefill,
                     const DenseMap<Value, ScheduleOp> &due) {
  for (auto cut : prefill.getOps<SegmentOp>()) {
    StepContext::Cut known{findSegmentAxis(cut), {}, {}};
    known.isGiven = isGiven(cut, cut.getBits().getType());
    if (!known.isGiven && !cutsTokens(cut)) {
      known.counted = due.lookup(cut.getCounts());
      auto isOuter = [&](const StepContext::Cut &other) {
        return other.axis == known.counted.getSegmentsAttr();
      };
      if (const auto *outer = llvm::find_if(context.cuts, isOuter); outer != context.cuts.end()) {
        known.outer = outer - context.cuts.begin();
      }
    }
    context.cuts.push_back(known);
  }
}

Value sluice::isTakenLine(StepContext &context, RowsBuilder &each) {
  Location loc = context.module.getLoc();
  Type i64 = context.b.getI64Type(), i32 = context.b.getI32Type();
  auto numbers = RankedTensorType::get({context.rows}, i64), columns = numbers.clone(i32);
  Value takes = each.operand(plan::BindOp::create(context.b, loc, numbers, "input:take"),
                             AccessKind::Vector, numbers);
  Value lines = each.operand(plan::BindOp::create(context.b, loc, columns, plan::lineOfRow),
                             AccessKind::Vector, columns);
  ImplicitLocOpBuilder &b = each.body;
  Value own = each.splat(dispatch::PositionOp::create(b, i32), columns);
  Value isOwn = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, lines, own);
  auto dense = [&](int64_t number) -> Value {
    return arith::ConstantOp::create(
        b, DenseElementsAttr::get(numbers, context.b.getI64IntegerAttr(number)));
  };
  Value ownTakes = arith::SelectOp::create(b, isOwn, takes, dense(0));
  Value isTaken = arith::CmpIOp::create(b, arith::CmpIPredicate::ne, ownTakes, dense(0));
  return dispatch::ReduceOp::create(b, i64, dispatch::ReduceKind::Max,
                                    arith::SelectOp::create(b, isTaken, dense(1), dense(0)));
}

void sluice::commitClosed(StepContext &context, ValueRange counts) {
  for (auto [i, cut] : llvm::enumerate(context.cuts)) {
    if (cut.isGiven && counts.empty()) {
      continue;
    }
    RowsBuilder each(context.b, context.module.getLoc(),
                     dispatch::DomainAttr::get(context.b.getContext(), 1, context.rows, 0));
    Type i32 = context.b.getI32Type();
    Value closed = toI64(each, each.operand(bindClosed(context, cut.axis), AccessKind::Flat, i32));
    Value take = cut.isGiven ? isTakenLine(context, each)
                             : each.operand(plan::BindOp::create(context.b, context.module.getLoc(),
                                                                 context.perRow(), "input:take"),
                                            AccessKind::Flat, context.b.getI64Type());
    Value now =
        counts.empty() ? constant(each.body, 0) : countClosed(context, each, counts, i, take);
    Value next = arith::SelectOp::create(each.body, isAbove(each, take, 0), now, closed);
    each.result(toI32(each, next), AccessKind::Flat, context.perRow().clone(i32), /*alias=*/0);
    dispatch::RowsOp made = each.finish("closed");
    plan::StoreOp::create(context.b, context.module.getLoc(), placeOfClosed(cut.axis),
                          made.getResult(0));
  }
}
