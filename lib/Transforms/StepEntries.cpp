// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Entry points of generation. Schedules are computed on the device, from the number of tokens that
// each row of the batch has seen.
#include "StepEntries.h"
#include "RowsBuilder.h"
#include "StepCounts.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace sluice;
using dispatch::AccessAttr;
using dispatch::AccessKind;

//===----------------------------------------------------------------------===//
// The model's functions
//===----------------------------------------------------------------------===//

/// Moves the schedules and states of @step out of the function body, from `sluice.due` and
/// `sluice.keep` to the values of ops. The tokens of the function need none, because all of them
/// are present.
void StepEntries::moveRows(func::FuncOp step) {
  SymbolTableCollection symbols;
  for (auto due : llvm::to_vector(step.getOps<DueOp>())) {
    auto schedule = symbols.lookupNearestSymbolFrom<ScheduleOp>(due, due.getScheduleAttr());
    if (due.getValue().getDefiningOp()) {
      StepValues::Rows &rows = context.values[due.getValue()];
      rows.schedule = due.getScheduleAttr();
      rows.count = static_cast<int64_t>(schedule.getBurst());
    }
    due.erase();
  }
  for (auto keep : llvm::to_vector(step.getOps<KeepOp>())) {
    auto state = symbols.lookupNearestSymbolFrom<StateOp>(keep, keep.getStateAttr());
    keep.getResult().replaceAllUsesWith(keep.getValue());
    if (keep.getValue().getDefiningOp()) {
      StepValues::Rows &rows = context.values[keep.getValue()];
      rows.state = keep.getStateAttr();
      rows.count = static_cast<int64_t>(state.getRing());
    } else {
      state.erase(); // a state of tokens: the input holds all of them
    }
    keep.erase();
  }
}

static void eraseDead(
    Block &body, llvm::function_ref<bool(Operation *)> stays = [](Operation *) { return false; }) {
  SmallVector<Operation *> all(llvm::make_pointer_range(body));
  for (Operation *op : llvm::reverse(all)) {
    if (!op->hasTrait<OpTrait::IsTerminator>() && isOpTriviallyDead(op) && !stays(op)) {
      op->erase();
    }
  }
}

/// Returns true if the rows that are due once c segments are closed are among the first c + `more`
/// rows, i.e. if some due(m) is at least factor (m + 1) - more.
static bool isWithin(ScheduleOp schedule, int64_t factor, int64_t more) {
  AffineExpr row = getAffineDimExpr(0, schedule.getContext());
  return llvm::any_of(schedule.getDue().getResults(), [&](AffineExpr due) {
    auto left = dyn_cast<AffineConstantExpr>(
        simplifyAffineExpr(due - (row + 1) * factor + more, /*numDims=*/1, /*numSymbols=*/0));
    return left && left.getValue() >= 0;
  });
}

void StepEntries::findAxesAhead(func::FuncOp prefill) {
  for (auto cut : prefill.getOps<SegmentOp>()) {
    FlatSymbolRefAttr axis = findSegmentAxis(cut);
    int64_t more = std::max<int64_t>(1, static_cast<int64_t>(cut.getSpare()));
    bool isAhead = llvm::any_of(commits, [&](const std::pair<StateOp, ScheduleOp> &commit) {
      ScheduleOp schedule = commit.second; // null for values of a given axis
      auto type = cast<SequenceType>(StateOp(commit.first).getType());
      return schedule && schedule.getSegmentsAttr() == axis &&
             !isWithin(schedule, getFactor(context.module, type), more);
    });
    if (isAhead) {
      ahead.push_back(axis);
    }
  }
}

/// @prefill computes the values on the axes of named inputs; @step reads their states, as arguments
/// after the tokens.
void StepEntries::readGiven(func::FuncOp step) {
  for (auto keep : llvm::to_vector(step.getOps<KeepOp>())) {
    if (!isGiven(step, cast<SequenceType>(keep.getType()))) {
      continue;
    }
    auto added = step.insertArgument(step.getNumArguments(), keep.getType(), DictionaryAttr(),
                                     keep.getLoc());
    assert(succeeded(added) && "an argument at the end");
    (void)added;
    keep.getResult().replaceAllUsesWith(step.getArguments().back());
    givenStates.push_back(("state:" + keep.getState()).str());
    keep.erase();
  }
  if (givenStates.empty()) {
    return;
  }
  eraseDead(step.getBody().front());
  for (unsigned i = step.getNumArguments() - givenStates.size(); i-- > 1;) {
    auto erased = step.eraseArgument(i); // tokens that @prefill embeds
    assert(succeeded(erased) && "an argument without a reader");
    (void)erased;
  }
}

void StepEntries::split() {
  auto step = context.module.lookupSymbol<func::FuncOp>("step");
  if (!step) {
    return;
  }
  dropBits(step);
  context.b.setInsertionPointToEnd(context.module.getBody());
  auto prefill = cast<func::FuncOp>(context.b.clone(*step));
  prefill.setSymName("prefill");
  setFact<SluiceDialect::BatchAttrHelper>(step, context.b.getI64IntegerAttr(context.rows));
  setFact<SluiceDialect::BatchAttrHelper>(prefill, context.b.getI64IntegerAttr(1));
  DenseMap<Value, ScheduleOp> due;
  SymbolTableCollection symbols;
  for (auto op : llvm::to_vector(prefill.getOps<DueOp>())) {
    auto schedule = symbols.lookupNearestSymbolFrom<ScheduleOp>(op, op.getScheduleAttr());
    int64_t &factor = context.factors[schedule];
    factor =
        std::max(factor, getFactor(context.module, cast<SequenceType>(op.getValue().getType())));
    due[op.getValue()] = schedule;
    op.erase();
  }
  SmallVector<Value> kept;
  for (auto keep : llvm::to_vector(prefill.getOps<KeepOp>())) {
    Value value = keep.getValue();
    keep.getResult().replaceAllUsesWith(value);
    if (value.getDefiningOp()) {
      auto state = symbols.lookupNearestSymbolFrom<StateOp>(keep, keep.getStateAttr());
      commits.push_back({state, due.lookup(value)});
      kept.push_back(value);
    }
    keep.erase();
  }
  addCuts(context, prefill, due);
  for (auto cut : prefill.getOps<SegmentOp>()) {
    kept.push_back(cut.getCounts());
  }
  findAxesAhead(prefill);
  Block &body = prefill.getBody().front();
  readGiven(step);
  body.getTerminator()->setOperands(kept);
  prefill.setType(
      context.b.getFunctionType(prefill.getArgumentTypes(), ValueRange(kept).getTypes()));
  // An attention whose result is unused still determines how cached keys are rotated.
  eraseDead(body, [&](Operation *op) {
    auto attention = dyn_cast<AttentionOp>(op);
    return attention && attention.getRotary() && llvm::is_contained(kept, attention.getKey());
  });
  moveRows(step);
}

//===----------------------------------------------------------------------===//
// Schedules
//===----------------------------------------------------------------------===//

/// Emits one launch for all schedules; `next` is the new value of `done`. The segment counts of a
/// prompt are kept for the row that takes it.
SmallVector<Value>
StepEntries::buildSchedules(ArrayRef<MakeRun> runs,
                            llvm::function_ref<Value(ImplicitLocOpBuilder &, Value, Value)> next,
                            StringRef label, ValueRange counts) {
  Location loc = context.module.getLoc();
  RowsBuilder each(context.b, loc,
                   dispatch::DomainAttr::get(context.b.getContext(), 1, context.rows, 0));
  Value done = each.operand(plan::BindOp::create(context.b, loc, context.perRow(), "state:done"),
                            AccessKind::Flat, context.b.getI64Type());
  Value take = each.operand(plan::BindOp::create(context.b, loc, context.perRow(), "input:take"),
                            AccessKind::Flat, context.b.getI64Type());
  auto type = RankedTensorType::get({context.rows, 3}, context.b.getI64Type());
  for (size_t i = 0; i < counts.size(); ++i) {
    clocks[context.cuts[i].axis] = countClosed(context, each, counts, i, take);
  }
  for (const MakeRun &make : runs) {
    RowRun run = make(each, take, done);
    each.result(packRow(each, run.start, run.count, run.length), AccessKind::Flat, type);
  }
  each.result(next(each.body, take, done), AccessKind::Flat, context.perRow(), /*alias=*/0);
  dispatch::RowsOp op = each.finish(label);
  context.doneNow = op.getResults().back();
  plan::StoreOp::create(context.b, loc, "state:done", context.doneNow);
  return llvm::to_vector_of<Value>(op.getResults().drop_back());
}

/// Stores the i32 scalars `due.N`: 1 if some row of the batch computes rows by schedule N. Launches
/// without due rows are skipped.
void sluice::buildGuards(StepContext &context, ArrayRef<size_t> numbered) {
  Location loc = context.module.getLoc();
  Type i64 = context.b.getI64Type(), i32 = context.b.getI32Type();
  RowsBuilder all(context.b, loc, dispatch::DomainAttr::get(context.b.getContext(), 1, 1, 0));
  ImplicitLocOpBuilder &body = all.body;
  auto row = RankedTensorType::get({3 * context.rows}, i64);
  auto columns = row.clone(i32);
  for (size_t number : numbered) {
    Value view = plan::ViewOp::create(context.b, loc, row, context.schedules[number]);
    Value numbers = all.operand(view, AccessKind::Vector, row);
    auto dense = [&](RankedTensorType type, Attribute number) -> Value {
      return arith::ConstantOp::create(body, DenseElementsAttr::get(type, number));
    };
    Value column = dispatch::ColumnOp::create(body, columns);
    Value member =
        arith::RemSIOp::create(body, column, dense(columns, context.b.getI32IntegerAttr(3)));
    Value isCount = arith::CmpIOp::create(body, arith::CmpIPredicate::eq, member,
                                          dense(columns, context.b.getI32IntegerAttr(1)));
    Value counts =
        arith::SelectOp::create(body, isCount, numbers, dense(row, context.b.getI64IntegerAttr(0)));
    Value most = dispatch::ReduceOp::create(body, i64, dispatch::ReduceKind::Max, counts);
    Value some = arith::CmpIOp::create(body, arith::CmpIPredicate::sgt, most, constant(body, 0));
    all.result(arith::ExtUIOp::create(body, i32, some), AccessKind::Scalar,
               RankedTensorType::get({}, i32));
  }
  dispatch::RowsOp op = all.finish("due");
  for (auto [number, guard] : llvm::zip_equal(numbered, op.getResults())) {
    plan::StoreOp::create(context.b, loc, "scalar:" + getGuardName(context, number), guard);
  }
}

//===----------------------------------------------------------------------===//
// Step
//===----------------------------------------------------------------------===//

void StepEntries::beginStep(func::FuncOp step) {
  SmallVector<MakeRun> runs;
  auto append = [](ImplicitLocOpBuilder &b, Value take, Value done) -> Value {
    return arith::AddIOp::create(b, done, take);
  };
  SmallVector<size_t> known;
  for (auto op : context.module.getOps<ScheduleOp>()) {
    context.numbers[FlatSymbolRefAttr::get(op.getSymNameAttr())] = context.bursts.size();
    context.bursts.push_back(op.getBurst());
    if (op.getSegments()) { // known once the bits of this step are known
      continue;
    }
    known.push_back(context.bursts.size() - 1);
    runs.push_back([op, append](RowsBuilder &each, Value take, Value done) {
      ImplicitLocOpBuilder &b = each.body;
      Value before = arith::SubIOp::create(b, done, constant(b, 1));
      Value start = emitRowCount(b, op, before);
      Value count = arith::SubIOp::create(b, emitRowCount(b, op, done), start);
      return RowRun{start, arith::MulIOp::create(b, count, take), append(b, take, done)};
    });
  }
  numberMembers(context, step);
  // Values with a single position, such as the prediction, are computed at every step.
  known.append({context.bursts.size(), context.bursts.size() + 1});
  context.bursts.push_back(1);
  runs.push_back([append](RowsBuilder &each, Value take, Value done) {
    return RowRun{constant(each.body, 0), take, append(each.body, take, done)};
  });
  // A lazy value that is stored for the prediction is scheduled for the last row only, because the
  // prediction reads only that row.
  context.bursts.push_back(1);
  runs.push_back([append](RowsBuilder &each, Value take, Value done) {
    return RowRun{done, take, append(each.body, take, done)};
  });
  context.b.setInsertionPoint(step.getBody().front().getTerminator());
  context.schedules.resize(context.bursts.size());
  for (auto [number, made] :
       llvm::zip_equal(known, buildSchedules(runs, append, "step schedules"))) {
    context.schedules[number] = made;
  }
  buildGuards(context, known);
}

/// Returns true if an op computes rows of segments from rows of the scale that is segmented.
static bool readsCutScale(Operation *op) {
  auto findScale = [](Value value) { return cast<SequenceType>(value.getType()).getScale(); };
  auto segments = dyn_cast<SegmentsInterface>(op);
  return segments && findScale(op->getResult(0)) != findScale(segments.getCounts());
}

void StepEntries::schedule(dispatch::KernelInterface dispatch, ArrayRef<Operation *> ops) {
  StepValues::DispatchExtent extent = context.values.getExtent(dispatch);
  if (extent == StepValues::DispatchExtent::Whole) {
    return;
  }
  auto isLast = [](Operation *user) { return isa<LastOp>(user); };
  bool isStoredForLast = llvm::all_of(
      ops, [&](Operation *op) { return !op->use_empty() && llvm::all_of(op->getUsers(), isLast); });
  size_t number = context.schedules.size() - (isStoredForLast ? 1 : 2);
  for (Operation *op : ops) {
    if (context.values.isScheduled(op)) {
      number = context.numbers.lookup(context.values.getSchedule(op));
    }
  }
  bool isOfMembers = extent == StepValues::DispatchExtent::Members;
  number = isOfMembers ? context.members.lookup(number) : number;
  dispatch::DomainAttr domain = dispatch.getDomain();
  // Lengths of an axis of segments are counted in its rows.
  auto inRows = [](dispatch::DomainAttr rows) { return std::max<int64_t>(1, rows.getFactor()); };
  bool isOfSegments = context.byTokens.contains(number);
  int64_t factor = isOfSegments ? inRows(domain) : domain.getFactor();
  dispatch.setDomainAttr(dispatch::DomainAttr::get(context.b.getContext(), domain.getBatch(),
                                                   context.bursts[number], factor, true));
  auto attention = dyn_cast<dispatch::AttentionOp>(dispatch.getOperation());
  if (auto keys = attention ? attention.getKeyDomainAttr() : dispatch::DomainAttr();
      keys && isOfSegments) {
    attention.setKeyDomainAttr(dispatch::DomainAttr::get(context.b.getContext(), keys.getBatch(),
                                                         keys.getPositions(), inRows(keys)));
  }
  bool isByTokens = !isOfMembers && readsCutScale(ops.front());
  dispatch->insertOperands(dispatch->getNumOperands(), isByTokens ? context.byTokens.lookup(number)
                                                                  : context.schedules[number]);
  dispatch.setGuardAttr(context.b.getStringAttr(getGuardName(context, number)));
}

/// Returns the access of a row to its own position, from column `first`.
static AccessAttr ownColumns(OpBuilder &b, int64_t factor, int64_t first) {
  AffineMap own = AffineMap::get(2, 1, b.getAffineDimExpr(0));
  AffineMap column = AffineMap::get(1, 0, b.getAffineConstantExpr(first));
  return AccessAttr::get(b.getContext(), AccessKind::Row, AffineMapAttr::get(own), 1, factor,
                         AffineMapAttr::get(column), -1, /*outside=*/FloatAttr());
}

/// Returns the parts of a value that a state stores: all columns in one place, or the entries of
/// `apart`.
SmallVector<StepEntries::Kept> StepEntries::getKeptStates(StateOp state) {
  if (auto kept = apart.find(state); kept != apart.end()) {
    return kept->second;
  }
  auto type = cast<SequenceType>(state.getType());
  RankedTensorType whole = getStoredType(context.module, type);
  return {{"", 0, whole.getRank() == 3 ? whole.getDimSize(2) : 0}};
}

RankedTensorType StepEntries::getKeptType(StateOp state, const Kept &kept) {
  auto type = cast<SequenceType>(state.getType());
  SmallVector<int64_t> shape(getStoredType(context.module, type).getShape());
  shape[0] = context.rows;
  shape[1] = state.getRing();
  if (shape.size() == 3) {
    shape[2] = kept.count;
  }
  return RankedTensorType::get(shape, type.getElement());
}

/// Stores `tensors` to the places of `getKeptStates`.
void StepEntries::store(ValueRange tensors, StateOp state) {
  for (auto [tensor, kept] : llvm::zip_equal(tensors, getKeptStates(state))) {
    plan::StoreOp::create(context.b, state.getLoc(),
                          ("state:" + state.getSymName() + kept.suffix).str(), tensor);
  }
}

/// Stores the keys of this step to one ring and the values to another, in a separate launch, so
/// that the attention reads both contiguously. Queries, keys and values are adjacent in `packed`,
/// and later steps only read keys and values. Returns the tensors to store, or `packed` itself if
/// it has other readers.
SmallVector<Value> StepEntries::keepKeys(Value packed, StateOp state) {
  dispatch::AttentionOp attention;
  for (Operation *user : packed.getUsers()) {
    auto reader = dyn_cast<dispatch::AttentionOp>(user);
    if (!reader || (attention && attention != reader) || reader.getQuery() != packed ||
        reader.getKey() != packed || reader.getValue() != packed) {
      return {packed};
    }
    attention = reader;
  }
  if (!keysApart || !attention) {
    return {packed};
  }
  auto type = cast<RankedTensorType>(packed.getType());
  auto width = static_cast<int64_t>(attention.getKvHeads() * attention.getHeadSize());
  apart[state] = {{".keys", static_cast<int64_t>(attention.getKeyColumn()), width},
                  {".values", static_cast<int64_t>(attention.getValueColumn()), width}};
  dispatch::DomainAttr domain = attention.getDomain();
  OpBuilder::InsertionGuard guard(context.b);
  context.b.setInsertionPoint(attention);
  RowsBuilder rowsKept(context.b, state.getLoc(), domain);
  auto row = RankedTensorType::get({width}, dispatch::getBodyType(type.getElementType()));
  for (const Kept &kept : apart[state]) {
    Value held =
        rowsKept.operand(packed, ownColumns(context.b, domain.getFactor(), kept.first), row);
    rowsKept.result(held, AccessKind::Row, getKeptType(state, kept));
  }
  dispatch::RowsOp op = rowsKept.finish("keys", attention.getSchedule());
  op.setGuardAttr(attention.getGuardAttr());
  packed.setType(RankedTensorType::get(
      {type.getDimSize(0), domain.getPositions(), type.getDimSize(2)}, type.getElementType()));
  attention.getKeyMutable().assign(op.getResult(0));
  attention.getValueMutable().assign(op.getResult(1));
  attention.setKeyColumn(0);
  attention.setValueColumn(0);
  return llvm::to_vector_of<Value>(op.getResults());
}

void StepEntries::endStep(func::FuncOp step, const DenseMap<Value, Value> &tensors) {
  context.b.setInsertionPoint(step.getBody().front().getTerminator());
  for (Operation &op : step.getBody().front()) {
    for (OpResult result : op.getResults()) {
      if (FlatSymbolRefAttr name = context.values.lookup(result).state) {
        auto state = SymbolTable::lookupNearestSymbolFrom<StateOp>(&op, name);
        store(keepKeys(tensors.lookup(result), state), state);
      }
    }
  }
}

//===----------------------------------------------------------------------===//
// Prefill and reset
//===----------------------------------------------------------------------===//

/// Copies the schedule's rows of a whole sequence, the prompt, to a state; clears them if there is
/// no sequence.
void StepEntries::commit(Value full, StateOp state, Value schedule) {
  int64_t factor = full ? getFactor(context.module, cast<SequenceType>(state.getType())) : 0;
  RowsBuilder rowsKept(context.b, state.getLoc(),
                       dispatch::DomainAttr::get(context.b.getContext(), context.rows,
                                                 static_cast<int64_t>(state.getRing()), factor,
                                                 true));
  for (const Kept &kept : getKeptStates(state)) {
    RankedTensorType ring = getKeptType(state, kept);
    Type element = dispatch::getBodyType(ring.getElementType());
    Type row = ring.getRank() == 3 ? RankedTensorType::get({kept.count}, element) : element;
    Value held =
        full ? rowsKept.operand(full, ownColumns(context.b, factor, kept.first), row)
             : Value(arith::ConstantOp::create(rowsKept.body, rowsKept.body.getZeroAttr(row)));
    rowsKept.result(held, AccessKind::Row, ring);
  }
  dispatch::RowsOp op = rowsKept.finish(full ? "commit" : "clear", schedule);
  store(op.getResults(), state);
}

void StepEntries::endPrefill(func::FuncOp prefill) {
  Operation *terminator = prefill.getBody().front().getTerminator();
  context.b.setInsertionPoint(terminator);
  llvm::SmallSetVector<std::pair<Operation *, int64_t>, 8> kinds;
  for (auto [state, schedule] : commits) {
    kinds.insert({schedule, static_cast<int64_t>(state.getRing())});
  }
  SmallVector<MakeRun> runs;
  for (auto [op, ring] : kinds) {
    auto schedule = cast_if_present<ScheduleOp>(op);
    if (!schedule) { // a named input commits all rows to its line, and none to another line
      runs.push_back([this, ring](RowsBuilder &each, Value, Value) {
        ImplicitLocOpBuilder &b = each.body;
        isLineTaken = isLineTaken ? isLineTaken : isTakenLine(context, each);
        Value zero = constant(b, 0), all = constant(b, ring);
        Value some = arith::CmpIOp::create(b, arith::CmpIPredicate::ne, isLineTaken, zero);
        return RowRun{zero, arith::SelectOp::create(b, some, all, zero), all};
      });
      continue;
    }
    runs.push_back([this, schedule, ring](RowsBuilder &each, Value take, Value) {
      ImplicitLocOpBuilder &b = each.body;
      Value clock = clocks.lookup(ScheduleOp(schedule).getSegmentsAttr());
      Value last = clock ? clock : Value(arith::SubIOp::create(b, take, constant(b, 1)));
      Value computed = emitRowCount(b, schedule, last), most = constant(b, ring);
      computed = clock ? clampToAxis(context, b, schedule, computed) : computed;
      Value count = arith::MinSIOp::create(b, computed, most);
      // Rows of segments may be ahead of the tokens.
      Value length =
          clock ? arith::MulIOp::create(b, computed, constant(b, context.factors.lookup(schedule)))
                : take;
      return RowRun{arith::SubIOp::create(b, computed, count), count, length};
    });
  }
  auto next = [](ImplicitLocOpBuilder &b, Value take, Value done) -> Value {
    Value some = arith::CmpIOp::create(b, arith::CmpIPredicate::sgt, take, constant(b, 0));
    return arith::SelectOp::create(b, some, take, done);
  };
  SmallVector<Value> full(terminator->getOperands());
  ValueRange counts = ArrayRef(full).take_back(context.cuts.size());
  SmallVector<Value> made = buildSchedules(runs, next, "prefill schedules", counts);
  commitClosed(context, counts);
  full.resize(commits.size());
  for (auto [tensor, commitOf] : llvm::zip_equal(full, commits)) {
    auto [state, schedule] = commitOf;
    const auto *kind =
        llvm::find(kinds, std::pair<Operation *, int64_t>(schedule, state.getRing()));
    commit(tensor, state, made[kind - kinds.begin()]);
  }
  terminator->setOperands({});
  // The host writes the prompt, even if the model has no state for it.
  eraseDead(prefill.getBody().front(), [](Operation *op) {
    auto bind = dyn_cast<plan::BindOp>(op);
    return bind && bind.getPlace().starts_with("input:");
  });
  prefill.setType(context.b.getFunctionType({}, {}));
}

void StepEntries::buildReset() {
  if (!context.module.lookupSymbol<func::FuncOp>("step")) {
    return;
  }
  context.b.setInsertionPointToEnd(context.module.getBody());
  auto func = func::FuncOp::create(context.b, context.module.getLoc(), "reset",
                                   context.b.getFunctionType({}, {}));
  context.b.setInsertionPointToStart(func.addEntryBlock());
  context.b.setInsertionPoint(func::ReturnOp::create(context.b, context.module.getLoc()));
  llvm::SmallSetVector<int64_t, 8> rings;
  SmallVector<StateOp> states;
  for (auto state : context.module.getOps<StateOp>()) {
    if (!isGiven(state, cast<SequenceType>(state.getType()))) { // of a line, which rows share
      states.push_back(state);
      rings.insert(state.getRing());
    }
  }
  SmallVector<MakeRun> runs;
  for (int64_t ring : rings) {
    runs.push_back([ring](RowsBuilder &each, Value take, Value) {
      ImplicitLocOpBuilder &b = each.body;
      Value zero = constant(b, 0);
      return RowRun{zero, arith::MulIOp::create(b, take, constant(b, ring)), zero};
    });
  }
  auto next = [](ImplicitLocOpBuilder &b, Value take, Value done) -> Value {
    Value zero = constant(b, 0);
    Value some = arith::CmpIOp::create(b, arith::CmpIPredicate::sgt, take, zero);
    return arith::SelectOp::create(b, some, zero, done);
  };
  SmallVector<Value> made = buildSchedules(runs, next, "reset schedules");
  for (StateOp state : states) {
    const auto *ring = llvm::find(rings, static_cast<int64_t>(state.getRing()));
    commit(Value(), state, made[ring - rings.begin()]);
  }
  commitClosed(context, {});
}
