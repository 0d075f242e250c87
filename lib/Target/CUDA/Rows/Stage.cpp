// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Processing of one row, stage by stage: reductions over its columns, then stores.
#include "Rows.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include <limits>

using namespace mlir;
using namespace sluice;
using namespace sluice::cuda;
using namespace sluice::cuda::rows;
using dispatch::AccessKind;

/// Returns `count` vectors from column `base` (null: 0).
Columns rows::makeColumns(TeamRowEmitter &emitter, int64_t width, Value base, int64_t count,
                          bool ragged) {
  const Plan &plan = emitter.plan;
  Emitter &e = emitter.e;
  Columns columns;
  columns.width = width;
  Value first = e.mul(emitter.laneOfTeam, plan.vector);
  first = base ? e.add(base, first) : first;
  for (int64_t j = 0; j < count; ++j) {
    int64_t offset = j * plan.team * plan.vector;
    columns.first.push_back(offset ? e.add(first, offset) : first);
    columns.ragged.push_back(ragged || (!base && offset + plan.team * plan.vector > width));
  }
  return columns;
}

/// Copies a row to shared memory, with all threads of the block.
static Source stageOperand(TeamRowEmitter &emitter, unsigned number, const Source &source) {
  const Plan &plan = emitter.plan;
  Emitter &e = emitter.e;
  Source copy = source;
  copy.readable = llvm::alignTo(uint64_t(source.width), uint64_t(plan.vector));
  copy.aligned = true;
  copy.memory = sharedMemory(emitter.frame, "operand" + std::to_string(number), copy.readable,
                             cast<MemRefType>(source.memory.getType()).getElementType());
  int64_t perTurn = plan.threads * plan.vector;
  for (int64_t base = 0; base < source.width; base += perTurn) {
    Columns columns;
    columns.width = source.width;
    columns.first = {e.add(e.mul(emitter.thread, plan.vector), base)};
    columns.ragged = {base + perTurn > source.width};
    store(emitter, load(emitter, source, columns, 0), copy, columns, 0, nullptr);
  }
  return copy;
}

/// Stages rows that all teams share in shared memory, so that they are read from global memory once
/// per block.
void rows::emitShared(TeamRowEmitter &emitter) {
  dispatch::RowsOp op = emitter.op;
  const Plan &plan = emitter.plan;
  if (!plan.whole || plan.slices > 1) {
    return;
  }
  for (const RowStage &stage : emitter.schedule.stages()) {
    emitter.inHand[stage.width] =
        makeColumns(emitter, stage.width, nullptr, plan.countChunks(stage.width), false);
  }
  SmallVector<std::pair<unsigned, Source>> sources;
  for (BlockArgument argument : op.getBody().getArguments()) {
    unsigned number = argument.getArgNumber();
    if (isShared(op, number) && emitter.inHand.count(getRowWidth(argument))) {
      Source source = emitter.addresses.operandRow(number, emitter.at, emitter.e.index(0), nullptr);
      sources.emplace_back(number,
                           plan.teams() > 1 ? stageOperand(emitter, number, source) : source);
    }
  }
  if (plan.teams() > 1 && !sources.empty()) {
    NVVM::BarrierOp::create(emitter.b);
  }
  for (auto &[number, source] : sources) {
    emitter.shared[number] = loadArgument(emitter, number, source, emitter.inHand[source.width]);
  }
}

/// Emits the scalars that are available after `depth` reductions.
static void emitScalarsAfter(TeamRowEmitter &emitter, int64_t depth) {
  auto draw = [&](dispatch::RandomOp random) { return drawElement(emitter, random); };
  target::emitScalars(emitter.b, emitter.op, emitter.schedule, depth,
                      {emitter.plan.vector, emitter.at.position, draw}, emitter.scalars);
}

/// Returns true if one of these results may alias an operand, which is the case for an operand of
/// the same storage.
static bool takesPlace(TeamRowEmitter &emitter, llvm::function_ref<bool(Value)> which) {
  dispatch::RowsOp op = emitter.op;
  auto yielded = getYield(op).getValues();
  return llvm::any_of(llvm::enumerate(op.getOutputs()), [&](auto output) {
    return which(yielded[output.index()]) &&
           llvm::is_contained(op.getInputs().getTypes(), output.value().getType());
  });
}

static void storeResult(TeamRowEmitter &emitter, unsigned result, Columns &columns) {
  dispatch::RowsOp op = emitter.op;
  Value value = getYield(op).getValues()[result];
  int64_t members = getGroupSize(value);
  auto storeRow = [&](const Source &row, const Values &values) {
    for (auto [j, vector] : llvm::enumerate(values)) {
      Value stored = vector;
      if (op.getZeroInvalid()) {
        stored = emitter.e.select(emitter.at.valid, stored, makeZero(emitter, stored.getType()));
      }
      store(emitter, stored, row, columns, j, nullptr);
    }
  };
  if (members == 0) {
    storeRow(emitter.addresses.resultRow(result, emitter.to, getRowWidth(value), nullptr),
             emitter.rowValues(value, columns));
    return;
  }
  // tensor<k x d> is one row of k d columns.
  auto storeMember = [&](BodyMember &member) {
    storeRow(emitter.addresses.resultRow(result, emitter.to, getRowWidth(value), member.index),
             emitter.memberValues(value, columns, member));
  };
  emitter.forEveryMember(members, columns, storeMember);
}

/// All loads precede the stores, because a result may alias an operand.
static void storeStage(TeamRowEmitter &emitter, const RowStage &stage, Columns &columns) {
  dispatch::RowsOp op = emitter.op;
  auto yielded = getYield(op).getValues();
  bool any = false;
  for (unsigned i : stage.stores) {
    int64_t members = getGroupSize(yielded[i]);
    if (members == 0) {
      emitter.rowValues(yielded[i], columns);
    } else if (members <= unrolledGroup) {
      emitter.forEachMember(members, columns, [&](BodyMember &member) {
        emitter.memberValues(yielded[i], columns, member);
      });
    } else {
      emitter.prepareSpreads(yielded[i], columns);
    }
    bool summed = getResultKind(op, i) == AccessKind::Columns;
    summed ? addToSums(emitter, i, columns) : void(any = true);
  }
  if (!any) {
    return;
  }
  if (llvm::is_contained(columns.ragged, true) &&
      takesPlace(emitter, [](Value value) { return isRow(value); })) {
    synchronizeTeam(emitter); // threads past the last column read what another thread writes
    emitter.met = true;
  }
  auto storeAll = [&] {
    for (unsigned i : stage.stores) {
      if (getResultKind(op, i) != AccessKind::Columns) {
        storeResult(emitter, i, columns);
      }
    }
  };
  emitter.stores ? emitter.e.when(emitter.stores, storeAll) : storeAll();
}

static void emitStage(TeamRowEmitter &emitter, const RowStage &stage) {
  const Plan &plan = emitter.plan;
  Emitter &e = emitter.e;
  Values start;
  for (dispatch::ReduceOp reduce : stage.reductions) {
    start.push_back(
        emitIdentity(emitter.b, reduce.getKind(),
                     emitter.getVectorType(getElementTypeOrSelf(reduce.getRow().getType()))));
  }
  if (plan.whole) {
    if (plan.slices > 1) {
      bool ragged = stage.width % plan.step() != 0;
      emitter.inHand[stage.width] =
          makeColumns(emitter, stage.width, e.mul(emitter.slice, plan.step()), plan.chunks, ragged);
    }
    Columns &columns = emitter.inHand[stage.width];
    finishReductions(emitter, stage, accumulate(emitter, stage, columns, start));
    emitter.met &= stage.reductions.empty();
    storeStage(emitter, stage, columns);
    return;
  }
  int64_t step = plan.step(), full = stage.width / step * step;
  Values carried = start;
  if (full > 0) {
    carried = e.loop(e.index(0), e.index(full), step, start, [&](Value base, ValueRange so) {
      Columns columns = makeColumns(emitter, stage.width, base, plan.chunks, false);
      Values next = accumulate(emitter, stage, columns, so);
      storeStage(emitter, stage, columns);
      return next;
    });
  }
  if (int64_t rest = stage.width - full) {
    int64_t count = llvm::divideCeil(rest, plan.vector * plan.team);
    Columns columns = makeColumns(emitter, stage.width, e.index(full), count, true);
    carried = accumulate(emitter, stage, columns, carried);
    storeStage(emitter, stage, columns);
  }
  finishReductions(emitter, stage, carried);
  emitter.met &= stage.reductions.empty();
}

Values rows::emitRow(TeamRowEmitter &emitter, const Row &read, const Row &row, Value storesRow,
                     Value sliceOfRow, ValueRange carried) {
  dispatch::RowsOp op = emitter.op;
  const Plan &plan = emitter.plan;
  Emitter &e = emitter.e;
  emitter.at = read;
  emitter.to = row;
  emitter.stores = storesRow;
  emitter.slice = sliceOfRow;
  emitter.scalars.clear();
  emitter.bases.clear();
  emitter.met = false;
  for (auto &[width, columns] : emitter.inHand) {
    columns.values.clear();
    columns.groups.clear();
  }
  Block &body = op.getBody().front();
  for (unsigned level : {0, 1, 2}) {
    emitElements(op, level, emitter.scalars,
                 [&](BlockArgument argument) { return loadBodyElement(emitter, argument); });
  }
  for (BlockArgument argument : body.getArguments()) {
    unsigned number = argument.getArgNumber();
    int64_t members = std::max<int64_t>(getGroupSize(argument), 1);
    bool isRange = getTensorAccess(op, number).getKind() == AccessKind::Range;
    if (isRow(argument) && members <= unrolledGroup && !emitter.shared.count(number) && !isRange) {
      for (int64_t i = 0; i < members; ++i) {
        emitter.bases[number].push_back(getMemberRow(emitter, number, e.index(i)));
      }
    }
  }
  ValueRange rest = carried;
  emitter.sums.clear();
  for (auto [i, value] : llvm::enumerate(getYield(op).getValues())) {
    bool summed = getResultKind(op, i) == AccessKind::Columns;
    if (summed && plan.whole) {
      size_t count = plan.countChunks(getRowWidth(value));
      emitter.sums[i] = Values(rest.take_front(count));
      rest = rest.drop_front(count);
    }
  }
  for (const RowStage &stage : emitter.schedule.stages()) {
    emitScalarsAfter(emitter, stage.depth);
    emitStage(emitter, stage);
  }
  emitScalarsAfter(emitter, std::numeric_limits<int64_t>::max());
  bool elements = !llvm::all_of(getYield(op).getValues(), isRow);
  // A block that sums rows reuses the reduction slots for the next row.
  bool again = plan.parts > 0 && !emitter.slots.empty() && !emitter.met;
  if (again || takesPlace(emitter, [](Value value) { return !isRow(value); })) {
    synchronizeTeam(emitter);
  }
  if (elements) {
    Value first =
        arith::CmpIOp::create(emitter.b, arith::CmpIPredicate::eq, emitter.laneOfTeam, e.index(0));
    e.when(emitter.stores ? e.both(emitter.stores, first) : first, [&] {
      for (auto [i, value] : llvm::enumerate(getYield(op).getValues())) {
        if (!isRow(value)) {
          Value stored = emitter.known(value);
          stored = op.getZeroInvalid()
                       ? e.select(emitter.at.valid, stored, makeZero(emitter, value.getType()))
                       : stored;
          emitter.addresses.storeElement(i, emitter.to, stored);
        }
      }
    });
  }
  Values after;
  for (auto [i, value] : llvm::enumerate(getYield(op).getValues())) {
    llvm::append_range(after, emitter.sums.lookup(i));
  }
  return after;
}
