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

Value rows::sharedMemory(Frame &frame, const Twine &name, int64_t elements, Type element) {
  ImplicitLocOpBuilder &b = frame.b;
  auto type =
      MemRefType::get({elements}, element, MemRefLayoutAttrInterface(), b.getI64IntegerAttr(3));
  std::string symbol = (frame.function.getName() + "_" + name.str()).str();
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(frame.function);
    memref::GlobalOp::create(b, symbol, b.getStringAttr("private"), type, b.getUnitAttr(), false,
                             b.getI64IntegerAttr(16));
  }
  return memref::GetGlobalOp::create(b, type, symbol);
}

TeamRowEmitter::TeamRowEmitter(Frame &frame, dispatch::RowsOp op, const Plan &plan,
                               const Schedule &schedule)
    : RowBody(frame.b, plan.vector, /*contract=*/false), frame(frame), op(op), plan(plan),
      schedule(schedule), e(frame.e), addresses(frame, op, plan) {
  thread = e.add(e.mul(frame.warp, threadsPerWarp), frame.lane);
  Value team = e.index(plan.team);
  teamOfBlock = arith::DivUIOp::create(b, thread, team);
  laneOfTeam = arith::RemUIOp::create(b, thread, team);
  int64_t warps = plan.team / threadsPerWarp;
  for (auto reduce : op.getBody().front().getOps<dispatch::ReduceOp>()) {
    if (warps > 1) {
      std::string name = "reduction" + std::to_string(slots.size());
      Type element = getElementTypeOrSelf(reduce.getRow().getType());
      slots[reduce] = sharedMemory(frame, name, warps, element);
    }
  }
}

/// Returns `count` vectors from column `base` (null: 0).
Columns TeamRowEmitter::columnsFrom(int64_t width, Value base, int64_t count, bool ragged) {
  Columns columns;
  columns.width = width;
  Value first = e.mul(laneOfTeam, plan.vector);
  first = base ? e.add(base, first) : first;
  for (int64_t j = 0; j < count; ++j) {
    int64_t offset = j * plan.team * plan.vector;
    columns.first.push_back(offset ? e.add(first, offset) : first);
    columns.ragged.push_back(ragged || (!base && offset + plan.team * plan.vector > width));
  }
  return columns;
}

/// Stages rows that all teams share in shared memory, so that they are read from global memory once
/// per block.
void TeamRowEmitter::emitShared() {
  if (!plan.whole || plan.slices > 1) {
    return;
  }
  for (const RowStage &stage : schedule.stages()) {
    inHand[stage.width] = columnsFrom(stage.width, nullptr, plan.countChunks(stage.width), false);
  }
  SmallVector<std::pair<unsigned, Source>> sources;
  for (BlockArgument argument : op.getBody().getArguments()) {
    unsigned number = argument.getArgNumber();
    if (isShared(op, number) && inHand.count(getRowWidth(argument))) {
      Source source = addresses.operandRow(number, at, e.index(0), nullptr);
      sources.emplace_back(number, plan.teams() > 1 ? staged(number, source) : source);
    }
  }
  if (plan.teams() > 1 && !sources.empty()) {
    NVVM::BarrierOp::create(b);
  }
  for (auto &[number, source] : sources) {
    shared[number] = loadArgument(number, source, inHand[source.width]);
  }
}

/// Copies a row to shared memory, with all threads of the block.
Source TeamRowEmitter::staged(unsigned number, const Source &source) {
  Source copy = source;
  copy.readable = llvm::alignTo(uint64_t(source.width), uint64_t(plan.vector));
  copy.aligned = true;
  copy.memory = sharedMemory(frame, "operand" + std::to_string(number), copy.readable,
                             cast<MemRefType>(source.memory.getType()).getElementType());
  int64_t perTurn = plan.threads * plan.vector;
  for (int64_t base = 0; base < source.width; base += perTurn) {
    Columns columns;
    columns.width = source.width;
    columns.first = {e.add(e.mul(thread, plan.vector), base)};
    columns.ragged = {base + perTurn > source.width};
    store(load(source, columns, 0), copy, columns, 0, nullptr);
  }
  return copy;
}

//===----------------------------------------------------------------------===//
// One row
//===----------------------------------------------------------------------===//

Values TeamRowEmitter::emitRow(const Row &read, const Row &row, Value storesRow, Value sliceOfRow,
                               ValueRange carried) {
  at = read;
  to = row;
  stores = storesRow;
  slice = sliceOfRow;
  scalars.clear();
  bases.clear();
  met = false;
  for (auto &[width, columns] : inHand) {
    columns.values.clear();
    columns.groups.clear();
  }
  Block &body = op.getBody().front();
  emitElements();
  for (BlockArgument argument : body.getArguments()) {
    unsigned number = argument.getArgNumber();
    int64_t members = std::max<int64_t>(getGroupSize(argument), 1);
    bool isRange = getTensorAccess(op, number).getKind() == AccessKind::Range;
    if (isRow(argument) && members <= unrolledGroup && !shared.count(number) && !isRange) {
      for (int64_t i = 0; i < members; ++i) {
        bases[number].push_back(memberRow(number, e.index(i)));
      }
    }
  }
  ValueRange rest = carried;
  sums.clear();
  for (auto [i, value] : llvm::enumerate(getYield(op).getValues())) {
    bool summed = getTensorAccess(op, op.getInputs().size() + i).getKind() == AccessKind::Columns;
    if (summed && plan.whole) {
      size_t count = plan.countChunks(getRowWidth(value));
      sums[i] = Values(rest.take_front(count));
      rest = rest.drop_front(count);
    }
  }
  for (const RowStage &stage : schedule.stages()) {
    emitScalars(stage.depth);
    emitStage(stage);
  }
  emitScalars(std::numeric_limits<int64_t>::max());
  bool elements = !llvm::all_of(getYield(op).getValues(), isRow);
  // A block that sums rows reuses the reduction slots for the next row.
  bool again = plan.parts > 0 && !slots.empty() && !met;
  if (again || takesPlace([](Value value) { return !isRow(value); })) {
    meet();
  }
  if (elements) {
    Value first = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, laneOfTeam, e.index(0));
    e.when(stores ? e.both(stores, first) : first, [&] {
      for (auto [i, value] : llvm::enumerate(getYield(op).getValues())) {
        if (!isRow(value)) {
          Value stored = known(value);
          stored = op.getZeroInvalid() ? e.select(at.valid, stored, zero(value.getType())) : stored;
          addresses.storeElement(i, to, stored);
        }
      }
    });
  }
  Values after;
  for (auto [i, value] : llvm::enumerate(getYield(op).getValues())) {
    llvm::append_range(after, sums.lookup(i));
  }
  return after;
}

/// Emits the scalars (and broadcasts of scalars to rows) that are available after `depth`
/// reductions.
void TeamRowEmitter::emitScalars(int64_t depth) {
  for (Operation &operation : op.getBody().front().without_terminator()) {
    Value result = operation.getResult(0);
    bool due = !scalars.count(result) && schedule.depth(result) <= depth &&
               !isa<dispatch::ReduceOp>(operation);
    if (due) {
      emitScalar(operation);
    }
  }
}

void TeamRowEmitter::emitScalar(Operation &operation) {
  Value result = operation.getResult(0);
  if (auto splat = dyn_cast<tensor::SplatOp>(operation)) {
    VectorType type = getVectorType(splat.getInput().getType());
    scalars[result] = vector::BroadcastOp::create(b, type, known(splat.getInput()));
  } else if (isRow(result)) {
    return;
  } else if (isa<dispatch::PositionOp>(operation)) {
    scalars[result] = e.toInteger(at.position);
  } else if (auto random = dyn_cast<dispatch::RandomOp>(operation)) {
    scalars[result] = uniformElement(random);
  } else {
    Operation *copy = operation.clone();
    for (OpOperand &operand : copy->getOpOperands()) {
      operand.set(known(operand.get()));
    }
    b.insert(copy);
    scalars[result] = copy->getResult(0);
  }
}

void TeamRowEmitter::emitStage(const RowStage &stage) {
  Values start;
  for (dispatch::ReduceOp reduce : stage.reductions) {
    start.push_back(emitIdentity(b, reduce.getKind(),
                                 getVectorType(getElementTypeOrSelf(reduce.getRow().getType()))));
  }
  if (plan.whole) {
    if (plan.slices > 1) {
      bool ragged = stage.width % plan.step() != 0;
      inHand[stage.width] =
          columnsFrom(stage.width, e.mul(slice, plan.step()), plan.chunks, ragged);
    }
    Columns &columns = inHand[stage.width];
    finishReductions(stage, accumulate(stage, columns, start));
    met &= stage.reductions.empty();
    storeStage(stage, columns);
    return;
  }
  int64_t step = plan.step(), full = stage.width / step * step;
  Values carried = start;
  if (full > 0) {
    carried = e.loop(e.index(0), e.index(full), step, start, [&](Value base, ValueRange so) {
      Columns columns = columnsFrom(stage.width, base, plan.chunks, false);
      Values next = accumulate(stage, columns, so);
      storeStage(stage, columns);
      return next;
    });
  }
  if (int64_t rest = stage.width - full) {
    int64_t count = llvm::divideCeil(rest, plan.vector * plan.team);
    Columns columns = columnsFrom(stage.width, e.index(full), count, true);
    carried = accumulate(stage, columns, carried);
    storeStage(stage, columns);
  }
  finishReductions(stage, carried);
  met &= stage.reductions.empty();
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

/// Returns true if one of these results may alias an operand, which is the case for an operand of
/// the same storage.
bool TeamRowEmitter::takesPlace(llvm::function_ref<bool(Value)> which) {
  auto yielded = getYield(op).getValues();
  return llvm::any_of(llvm::enumerate(op.getOutputs()), [&](auto output) {
    return which(yielded[output.index()]) &&
           llvm::is_contained(op.getInputs().getTypes(), output.value().getType());
  });
}

/// All loads precede the stores, because a result may alias an operand.
void TeamRowEmitter::storeStage(const RowStage &stage, Columns &columns) {
  auto yielded = getYield(op).getValues();
  bool any = false;
  for (unsigned i : stage.stores) {
    int64_t members = getGroupSize(yielded[i]);
    if (members == 0) {
      rowValues(yielded[i], columns);
    } else if (members <= unrolledGroup) {
      forEachMember(members, columns,
                    [&](Member &member) { memberValues(yielded[i], columns, member); });
    } else {
      prepareSpreads(yielded[i], columns);
    }
    bool summed = getTensorAccess(op, op.getInputs().size() + i).getKind() == AccessKind::Columns;
    summed ? addToSums(i, columns) : void(any = true);
  }
  if (!any) {
    return;
  }
  if (llvm::is_contained(columns.ragged, true) &&
      takesPlace([](Value value) { return isRow(value); })) {
    meet(); // threads past the last column read what another thread writes
    met = true;
  }
  auto storeAll = [&] {
    for (unsigned i : stage.stores) {
      if (getTensorAccess(op, op.getInputs().size() + i).getKind() != AccessKind::Columns) {
        storeResult(i, columns);
      }
    }
  };
  stores ? e.when(stores, storeAll) : storeAll();
}

void TeamRowEmitter::storeResult(unsigned result, Columns &columns) {
  Value value = getYield(op).getValues()[result];
  int64_t members = getGroupSize(value);
  auto storeRow = [&](const Source &row, const Values &values) {
    for (auto [j, vector] : llvm::enumerate(values)) {
      Value stored = vector;
      if (op.getZeroInvalid()) {
        stored = e.select(at.valid, stored, zero(stored.getType()));
      }
      store(stored, row, columns, j, nullptr);
    }
  };
  if (members == 0) {
    storeRow(addresses.resultRow(result, to, getRowWidth(value), nullptr),
             rowValues(value, columns));
    return;
  }
  // tensor<k x d> is one row of k d columns.
  auto storeMember = [&](Member &member) {
    storeRow(addresses.resultRow(result, to, getRowWidth(value), member.index),
             memberValues(value, columns, member));
  };
  if (members <= unrolledGroup) {
    forEachMember(members, columns, storeMember);
    return;
  }
  e.loop(e.index(0), e.index(members), 1, [&](Value index) {
    Memo memo;
    Member member{-1, index, &memo};
    storeMember(member);
  });
}
