// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// Loops of a row kernel over columns, reductions, and stores.
#include "../../Common/Storage.h"
#include "Rows.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cpu;
using namespace sluice::cpu::rows;
using dispatch::AccessKind;

static AccessKind resultKind(dispatch::RowsOp op, unsigned i) {
  return cast<dispatch::AccessAttr>(op.getResultAccesses()[i]).getKind();
}

static dispatch::YieldOp getYield(dispatch::RowsOp op) {
  return cast<dispatch::YieldOp>(op.getBody().front().getTerminator());
}

VectorRowEmitter::VectorRowEmitter(Frame &frame, dispatch::RowsOp op, const Schedule &schedule)
    : RowBody(frame.builder(), frame.target().lanes, /*contract=*/true), frame(frame), op(op),
      schedule(schedule), addresses(frame, op) {
  if (!op.getBody().getOps<dispatch::RandomOp>().empty()) {
    step = frame.step();
    seed = frame.seed();
    firstStream = frame.firstStream();
    firstRow = frame.firstRow();
  }
  auto row = [&](int64_t width, Type element) {
    return frame.scratch(MemRefType::get({int64_t(llvm::alignTo(width, 16))}, element));
  };
  for (const RowStage &stage : schedule.stages()) {
    for (Value value : stage.keeps) {
      kept[value] = row(stage.width, getElementTypeOrSelf(value.getType()));
    }
  }
  for (auto [i, value] : llvm::enumerate(getYield(op).getValues())) {
    if (resultKind(op, i) == AccessKind::Columns) {
      sumRows[i] = row(getRowWidth(value), getElementTypeOrSelf(value.getType()));
    }
  }
}

//===----------------------------------------------------------------------===//
// One row
//===----------------------------------------------------------------------===//

void VectorRowEmitter::emitRow(const RowPosition &position) {
  at = position;
  scalars.clear();
  bases.clear();
  Block &body = op.getBody().front();
  emitElements();
  for (BlockArgument argument : body.getArguments()) {
    int64_t members = std::max<int64_t>(getGroupSize(argument), 1);
    bool isRange = getTensorAccess(op, argument.getArgNumber()).getKind() == AccessKind::Range;
    if (isRow(argument) && members <= unrolledGroup && !isRange) {
      for (int64_t i = 0; i < members; ++i) {
        bases[argument.getArgNumber()].push_back(
            memberRow(argument.getArgNumber(), frame.index(i)));
      }
    }
  }
  for (unsigned i = 0; i < schedule.stages().size(); ++i) {
    emitScalars(schedule.stages()[i].depth);
    emitStage(i);
  }
  emitScalars(std::numeric_limits<int64_t>::max());
  for (auto [i, value] : llvm::enumerate(getYield(op).getValues())) {
    if (!isRow(value)) {
      addresses.storeElement(i, at, known(value));
    }
  }
}

/// Emits the elements that the body or other arguments use, an index before the elements it
/// selects.
void VectorRowEmitter::emitElements() {
  Block &body = op.getBody().front();
  for (BlockArgument argument : body.getArguments()) {
    bool isFound = getTensorAccess(op, argument.getArgNumber()).getLevel() > 0;
    if (!isRow(argument) && !isFound && !argument.use_empty()) {
      scalars[argument] = getElementIndex(argument);
    }
  }
  // Elements that only serve as indices: their arguments have no use in the body.
  for (unsigned i = 0; i < op.getInputs().size(); ++i) {
    for (unsigned index : getTensorAccess(op, i).getIndices()) {
      BlockArgument argument = body.getArgument(index);
      if (getTensorAccess(op, index).getLevel() == 0 && !scalars.count(argument)) {
        scalars[argument] = getElementIndex(argument);
      }
    }
  }
  for (unsigned level : {1, 2}) {
    for (BlockArgument argument : body.getArguments()) {
      if (!isRow(argument) && getTensorAccess(op, argument.getArgNumber()).getLevel() == level) {
        scalars[argument] = getElementIndex(argument);
      }
    }
  }
}

/// Emits the scalars (and broadcasts of scalars to rows) that are available after `depth`
/// reductions.
void VectorRowEmitter::emitScalars(int64_t depth) {
  for (Operation &operation : op.getBody().front().without_terminator()) {
    Value result = operation.getResult(0);
    if (scalars.count(result) || schedule.depth(result) > depth ||
        isa<dispatch::ReduceOp>(operation)) {
      continue;
    }
    if (auto splat = dyn_cast<tensor::SplatOp>(operation)) {
      VectorType type = getVectorType(splat.getInput().getType());
      scalars[result] = vector::BroadcastOp::create(b, type, known(splat.getInput()));
    } else if (isa<dispatch::PositionOp>(operation)) {
      scalars[result] = arith::IndexCastOp::create(b, b.getI32Type(), at.position);
    } else if (auto random = dyn_cast<dispatch::RandomOp>(operation); random && !isRow(result)) {
      Columns columns(frame.index(0), 1, 0);
      scalars[result] = vector::ExtractOp::create(b, leaf(random, columns, nullptr).front(), 0);
    } else if (!isRow(result)) {
      Operation *copy = operation.clone();
      for (OpOperand &operand : copy->getOpOperands()) {
        operand.set(known(operand.get()));
      }
      b.insert(copy);
      scalars[result] = copy->getResult(0);
    }
  }
}

/// Loop-carried sums are dependent chains (4 cycles per add, 2 adds per cycle), so eight chains
/// hide the latency. Stages that only map columns carry nothing; four vectors per iteration are
/// enough to amortize the loop overhead.
int64_t VectorRowEmitter::vectorsTogether(const RowStage &stage) const {
  int64_t reductions = std::max<int64_t>(stage.reductions.size(), 1);
  int64_t together = std::clamp<int64_t>(8 / reductions, 2, 4);
  return std::min<int64_t>(together, llvm::divideCeil(stage.width, lanes));
}

void VectorRowEmitter::emitStage(unsigned number) {
  current = number;
  const RowStage &stage = schedule.stages()[number];
  int64_t together = vectorsTogether(stage);
  int64_t step = together * lanes;
  int64_t full = stage.width / step * step;
  Values sums;
  for (dispatch::ReduceOp reduce : stage.reductions) {
    sums.append(together,
                emitIdentity(b, reduce.getKind(),
                             getVectorType(getElementTypeOrSelf(reduce.getRow().getType()))));
  }
  if (full > 0) {
    auto loop = scf::ForOp::create(b, frame.index(0), frame.index(full), frame.index(step), sums);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    Columns columns(loop.getInductionVar(), together, 0);
    Values next = emitColumns(stage, columns, loop.getRegionIterArgs());
    if (!next.empty()) {
      scf::YieldOp::create(b, next);
    }
    sums = Values(loop.getResults());
  }
  if (int64_t rest = stage.width - full) {
    Columns columns(frame.index(full), int64_t(llvm::divideCeil(rest, lanes)), rest % lanes);
    sums = emitColumns(stage, columns, sums);
  }
  for (auto [i, reduction] : llvm::enumerate(stage.reductions)) {
    dispatch::ReduceOp reduce = reduction;
    scalars[reduce.getResult()] =
        finishReduction(reduce, ValueRange(sums).slice(i * together, together));
  }
}

/// One iteration of a stage's loop. All loads precede the stores, because a result may alias an
/// operand.
BodyValues VectorRowEmitter::emitColumns(const RowStage &stage, Columns &columns, ValueRange sums) {
  int64_t together = vectorsTogether(stage);
  for (Value value : stage.keeps) {
    storeAll(kept.lookup(value), columns, rowValues(value, columns), true);
  }
  Values next(sums);
  for (auto [r, reduction] : llvm::enumerate(stage.reductions)) {
    dispatch::ReduceOp reduce = reduction;
    Value row = reduce.getRow();
    Values values = getGroupSize(row) ? reducedGroup({}, row, columns) : rowValues(row, columns);
    for (auto [i, value] : llvm::enumerate(values)) {
      if (Value lanesUsed = mask(columns, i)) {
        value = arith::SelectOp::create(b, lanesUsed, value,
                                        emitIdentity(b, reduce.getKind(), value.getType()));
      }
      Value &sum = next[r * together + i];
      sum = combine(reduce, sum, value);
    }
  }
  storeResults(stage, columns);
  return next;
}

void VectorRowEmitter::storeResults(const RowStage &stage, Columns &columns) {
  auto yield = getYield(op);
  for (unsigned i : stage.stores) {
    Value value = yield.getValues()[i];
    if (!getGroupSize(value)) {
      rowValues(value, columns);
    } else if (getGroupSize(value) <= unrolledGroup) {
      forEachMember(getGroupSize(value), columns,
                    [&](Member &member) { memberValues(value, columns, member); });
    }
  }
  for (unsigned i : stage.stores) {
    Value value = yield.getValues()[i];
    if (resultKind(op, i) == AccessKind::Columns) {
      Values sums = loadAll(sumRows.lookup(i), columns, true);
      for (auto [sum, added] : llvm::zip(sums, rowValues(value, columns))) {
        sum = arith::AddFOp::create(b, sum, added);
      }
      storeAll(sumRows.lookup(i), columns, sums, true);
    } else if (getGroupSize(value)) {
      storeGroup(i, value, columns);
    } else {
      storeAll(addresses.resultRow(i, at), columns, rowValues(value, columns), false);
    }
  }
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

/// Sum or maximum. The maximum of floats is one compare and select, a single instruction; NaN is
/// left to the sums.
Value VectorRowEmitter::combine(dispatch::ReduceOp reduce, Value left, Value right) {
  bool floats = isa<FloatType>(getElementTypeOrSelf(left.getType()));
  if (reduce.getKind() == dispatch::ReduceKind::Add) {
    if (!floats) {
      return arith::AddIOp::create(b, left, right);
    }
    return arith::AddFOp::create(b, left, right, arith::FastMathFlags::contract);
  }
  if (!floats) {
    return arith::MaxSIOp::create(b, left, right);
  }
  Value greater = arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, right, left);
  return arith::SelectOp::create(b, greater, right, left);
}

/// Halves the vectors until one number is left: log2(lanes) steps, where an ordered chain would
/// take one step per lane.
Value VectorRowEmitter::finishReduction(dispatch::ReduceOp reduce, ValueRange sums) {
  Values left(sums);
  while (left.size() > 1) {
    Values half;
    for (size_t i = 0; i + 1 < left.size(); i += 2) {
      half.push_back(combine(reduce, left[i], left[i + 1]));
    }
    if (left.size() % 2) {
      half.push_back(left.back());
    }
    left = half;
  }
  Value vector = left.front();
  for (int64_t width = lanes / 2; width >= 1; width /= 2) {
    SmallVector<int64_t> low, high;
    for (int64_t i = 0; i < width; ++i) {
      low.push_back(i);
      high.push_back(width + i);
    }
    Value front = vector::ShuffleOp::create(b, vector, vector, low);
    Value back = vector::ShuffleOp::create(b, vector, vector, high);
    vector = combine(reduce, front, back);
  }
  return vector::ExtractOp::create(b, vector, 0);
}

//===----------------------------------------------------------------------===//
// Invalid rows, and sums over rows
//===----------------------------------------------------------------------===//

void VectorRowEmitter::emitZeros(const RowPosition &position) {
  at = position;
  for (auto [i, value] : llvm::enumerate(getYield(op).getValues())) {
    if (resultKind(op, i) == AccessKind::Columns) {
      continue;
    }
    if (!isRow(value)) {
      addresses.storeElement(i, at, zero(value.getType()));
      continue;
    }
    int64_t width = getRowWidth(value) * std::max<int64_t>(getGroupSize(value), 1);
    Value memory = addresses.resultRow(i, at);
    Value zeros = zero(getVectorType(getElementTypeOrSelf(value.getType())));
    int64_t full = width / lanes * lanes;
    if (full > 0) {
      auto loop = scf::ForOp::create(b, frame.index(0), frame.index(full), frame.index(lanes));
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(loop.getBody());
      storeVector(b, zeros, memory, loop.getInductionVar());
    }
    if (full < width) {
      Columns columns(frame.index(full), 1, width - full);
      storeAll(memory, columns, zeros, false);
    }
  }
}

void VectorRowEmitter::clearSums() {
  for (auto [i, value] : llvm::enumerate(getYield(op).getValues())) {
    if (Value memory = sumRows.lookup(i)) {
      auto type = cast<MemRefType>(memory.getType());
      auto loop = scf::ForOp::create(b, frame.index(0), frame.index(type.getDimSize(0)),
                                     frame.index(lanes));
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(loop.getBody());
      vector::StoreOp::create(b, zero(getVectorType(type.getElementType())), memory,
                              loop.getInductionVar());
    }
  }
}

void VectorRowEmitter::storeSums() {
  RowPosition part{frame.item(), frame.index(0), frame.item()};
  for (auto [i, value] : llvm::enumerate(getYield(op).getValues())) {
    Value sums = sumRows.lookup(i);
    if (!sums) {
      continue;
    }
    Value memory = addresses.resultRow(i, part);
    int64_t width = getRowWidth(value), full = width / lanes * lanes;
    if (full > 0) {
      auto loop = scf::ForOp::create(b, frame.index(0), frame.index(full), frame.index(lanes));
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(loop.getBody());
      Columns columns(loop.getInductionVar(), 1, 0);
      storeAll(memory, columns, loadAll(sums, columns, true), false);
    }
    if (full < width) {
      Columns columns(frame.index(full), 1, width - full);
      storeAll(memory, columns, loadAll(sums, columns, true), false);
    }
  }
}
