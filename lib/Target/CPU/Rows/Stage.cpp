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

/// Emits the elements that the body or other arguments use, an index before the elements it
/// selects.
static void emitAllElements(VectorRowEmitter &emitter) {
  dispatch::RowsOp op = emitter.op;
  Block &body = op.getBody().front();
  for (BlockArgument argument : body.getArguments()) {
    bool isFound = getTensorAccess(op, argument.getArgNumber()).getLevel() > 0;
    if (!isRow(argument) && !isFound && !argument.use_empty()) {
      emitter.scalars[argument] = loadBodyElement(emitter, argument);
    }
  }
  // Elements that only serve as indices: their arguments have no use in the body.
  for (unsigned i = 0; i < op.getInputs().size(); ++i) {
    for (unsigned index : getTensorAccess(op, i).getIndices()) {
      BlockArgument argument = body.getArgument(index);
      if (getTensorAccess(op, index).getLevel() == 0 && !emitter.scalars.count(argument)) {
        emitter.scalars[argument] = loadBodyElement(emitter, argument);
      }
    }
  }
  for (unsigned level : {1, 2}) {
    target::emitElements(op, level, emitter.scalars, [&](BlockArgument argument) {
      return loadBodyElement(emitter, argument);
    });
  }
}

/// Emits the scalars that are available after `depth` reductions.
static void emitScalarsAfter(VectorRowEmitter &emitter, int64_t depth) {
  ImplicitLocOpBuilder &b = emitter.b;
  auto drawElement = [&](dispatch::RandomOp random) -> Value {
    Columns columns(emitter.frame.index(0), 1, 0);
    return vector::ExtractOp::create(b, emitter.leaf(random, columns, nullptr).front(), 0);
  };
  target::emitScalars(b, emitter.op, emitter.schedule, depth,
                      {emitter.lanes, emitter.at.position, drawElement}, emitter.scalars);
}

/// Loop-carried sums are dependent chains (4 cycles per add, 2 adds per cycle), so eight chains
/// hide the latency. Stages that only map columns carry nothing; four vectors per iteration are
/// enough to amortize the loop overhead.
static int64_t vectorsTogether(VectorRowEmitter &emitter, const RowStage &stage) {
  int64_t reductions = std::max<int64_t>(stage.reductions.size(), 1);
  int64_t together = std::clamp<int64_t>(8 / reductions, 2, 4);
  return std::min<int64_t>(together, llvm::divideCeil(stage.width, emitter.lanes));
}

static void storeResults(VectorRowEmitter &emitter, const RowStage &stage, Columns &columns) {
  dispatch::RowsOp op = emitter.op;
  auto yield = getYield(op);
  for (unsigned i : stage.stores) {
    Value value = yield.getValues()[i];
    if (!getGroupSize(value)) {
      emitter.rowValues(value, columns);
    } else if (getGroupSize(value) <= unrolledGroup) {
      emitter.forEachMember(getGroupSize(value), columns, [&](BodyMember &member) {
        emitter.memberValues(value, columns, member);
      });
    }
  }
  for (unsigned i : stage.stores) {
    Value value = yield.getValues()[i];
    if (getResultKind(op, i) == AccessKind::Columns) {
      Values sums = loadAll(emitter, emitter.sumRows.lookup(i), columns, true);
      for (auto [sum, added] : llvm::zip(sums, emitter.rowValues(value, columns))) {
        sum = arith::AddFOp::create(emitter.b, sum, added);
      }
      storeAll(emitter, emitter.sumRows.lookup(i), columns, sums, true);
    } else if (getGroupSize(value)) {
      storeGroup(emitter, i, value, columns);
    } else {
      storeAll(emitter, emitter.addresses.resultRow(i, emitter.at), columns,
               emitter.rowValues(value, columns), false);
    }
  }
}

/// Sum or maximum. The maximum of floats is one compare and select, a single instruction; NaN is
/// left to the sums.
static Value combine(VectorRowEmitter &emitter, dispatch::ReduceOp reduce, Value left,
                     Value right) {
  ImplicitLocOpBuilder &b = emitter.b;
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

/// One iteration of a stage's loop. All loads precede the stores, because a result may alias an
/// operand.
static Values emitColumns(VectorRowEmitter &emitter, const RowStage &stage, Columns &columns,
                          ValueRange sums) {
  ImplicitLocOpBuilder &b = emitter.b;
  int64_t together = vectorsTogether(emitter, stage);
  for (Value value : stage.keeps) {
    storeAll(emitter, emitter.kept.lookup(value), columns, emitter.rowValues(value, columns), true);
  }
  Values next(sums);
  for (auto [r, reduction] : llvm::enumerate(stage.reductions)) {
    dispatch::ReduceOp reduce = reduction;
    Value row = reduce.getRow();
    Values values = getGroupSize(row) ? emitter.reducedGroup({}, row, columns)
                                      : emitter.rowValues(row, columns);
    for (auto [i, value] : llvm::enumerate(values)) {
      if (Value lanesUsed = computeMask(emitter, columns, i)) {
        value = arith::SelectOp::create(b, lanesUsed, value,
                                        emitIdentity(b, reduce.getKind(), value.getType()));
      }
      Value &sum = next[r * together + i];
      sum = combine(emitter, reduce, sum, value);
    }
  }
  storeResults(emitter, stage, columns);
  return next;
}

/// Halves the vectors until one number is left: log2(lanes) steps, where an ordered chain would
/// take one step per lane.
static Value finishReduction(VectorRowEmitter &emitter, dispatch::ReduceOp reduce,
                             ValueRange sums) {
  ImplicitLocOpBuilder &b = emitter.b;
  Values left(sums);
  while (left.size() > 1) {
    Values half;
    for (size_t i = 0; i + 1 < left.size(); i += 2) {
      half.push_back(combine(emitter, reduce, left[i], left[i + 1]));
    }
    if (left.size() % 2) {
      half.push_back(left.back());
    }
    left = half;
  }
  Value vector = left.front();
  for (int64_t width = emitter.lanes / 2; width >= 1; width /= 2) {
    SmallVector<int64_t> low, high;
    for (int64_t i = 0; i < width; ++i) {
      low.push_back(i);
      high.push_back(width + i);
    }
    Value front = vector::ShuffleOp::create(b, vector, vector, low);
    Value back = vector::ShuffleOp::create(b, vector, vector, high);
    vector = combine(emitter, reduce, front, back);
  }
  return vector::ExtractOp::create(b, vector, 0);
}

static void emitStage(VectorRowEmitter &emitter, unsigned number) {
  ImplicitLocOpBuilder &b = emitter.b;
  Frame &frame = emitter.frame;
  emitter.current = number;
  const RowStage &stage = emitter.schedule.stages()[number];
  int64_t together = vectorsTogether(emitter, stage);
  int64_t step = together * emitter.lanes;
  int64_t full = stage.width / step * step;
  Values sums;
  for (dispatch::ReduceOp reduce : stage.reductions) {
    sums.append(together, emitIdentity(b, reduce.getKind(),
                                       emitter.getVectorType(
                                           getElementTypeOrSelf(reduce.getRow().getType()))));
  }
  if (full > 0) {
    auto loop = scf::ForOp::create(b, frame.index(0), frame.index(full), frame.index(step), sums);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    Columns columns(loop.getInductionVar(), together, 0);
    Values next = emitColumns(emitter, stage, columns, loop.getRegionIterArgs());
    if (!next.empty()) {
      scf::YieldOp::create(b, next);
    }
    sums = Values(loop.getResults());
  }
  if (int64_t rest = stage.width - full) {
    Columns columns(frame.index(full), int64_t(llvm::divideCeil(rest, emitter.lanes)),
                    rest % emitter.lanes);
    sums = emitColumns(emitter, stage, columns, sums);
  }
  for (auto [i, reduction] : llvm::enumerate(stage.reductions)) {
    dispatch::ReduceOp reduce = reduction;
    emitter.scalars[reduce.getResult()] =
        finishReduction(emitter, reduce, ValueRange(sums).slice(i * together, together));
  }
}

void rows::emitRow(VectorRowEmitter &emitter, const RowPosition &position) {
  dispatch::RowsOp op = emitter.op;
  emitter.at = position;
  emitter.scalars.clear();
  emitter.bases.clear();
  Block &body = op.getBody().front();
  emitAllElements(emitter);
  for (BlockArgument argument : body.getArguments()) {
    int64_t members = std::max<int64_t>(getGroupSize(argument), 1);
    bool isRange = getTensorAccess(op, argument.getArgNumber()).getKind() == AccessKind::Range;
    if (isRow(argument) && members <= unrolledGroup && !isRange) {
      for (int64_t i = 0; i < members; ++i) {
        emitter.bases[argument.getArgNumber()].push_back(
            getMemberRow(emitter, argument.getArgNumber(), emitter.frame.index(i)));
      }
    }
  }
  for (unsigned i = 0; i < emitter.schedule.stages().size(); ++i) {
    emitScalarsAfter(emitter, emitter.schedule.stages()[i].depth);
    emitStage(emitter, i);
  }
  emitScalarsAfter(emitter, std::numeric_limits<int64_t>::max());
  for (auto [i, value] : llvm::enumerate(getYield(op).getValues())) {
    if (!isRow(value)) {
      emitter.addresses.storeElement(i, emitter.at, emitter.known(value));
    }
  }
}

/// Runs `body` for each vector of the columns of a row: a loop over whole vectors, then the rest.
static void forColumns(VectorRowEmitter &emitter, int64_t width,
                       llvm::function_ref<void(Columns &)> body) {
  ImplicitLocOpBuilder &b = emitter.b;
  Frame &frame = emitter.frame;
  int64_t full = width / emitter.lanes * emitter.lanes;
  if (full > 0) {
    auto loop =
        scf::ForOp::create(b, frame.index(0), frame.index(full), frame.index(emitter.lanes));
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    Columns columns(loop.getInductionVar(), 1, 0);
    body(columns);
  }
  if (full < width) {
    Columns columns(frame.index(full), 1, width - full);
    body(columns);
  }
}

void rows::emitZeros(VectorRowEmitter &emitter, const RowPosition &position) {
  dispatch::RowsOp op = emitter.op;
  emitter.at = position;
  for (auto [i, value] : llvm::enumerate(getYield(op).getValues())) {
    if (getResultKind(op, i) == AccessKind::Columns) {
      continue;
    }
    if (!isRow(value)) {
      emitter.addresses.storeElement(i, emitter.at, makeZero(emitter, value.getType()));
      continue;
    }
    int64_t width = getRowWidth(value) * std::max<int64_t>(getGroupSize(value), 1);
    Value memory = emitter.addresses.resultRow(i, emitter.at);
    Value zeros = makeZero(emitter, emitter.getVectorType(getElementTypeOrSelf(value.getType())));
    forColumns(emitter, width, [&](Columns &columns) {
      storeAll(emitter, memory, columns, zeros, /*padded=*/false);
    });
  }
}

void rows::clearSums(VectorRowEmitter &emitter) {
  ImplicitLocOpBuilder &b = emitter.b;
  Frame &frame = emitter.frame;
  for (auto [i, value] : llvm::enumerate(getYield(emitter.op).getValues())) {
    if (Value memory = emitter.sumRows.lookup(i)) {
      auto type = cast<MemRefType>(memory.getType());
      auto loop = scf::ForOp::create(b, frame.index(0), frame.index(type.getDimSize(0)),
                                     frame.index(emitter.lanes));
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(loop.getBody());
      vector::StoreOp::create(b, makeZero(emitter, emitter.getVectorType(type.getElementType())),
                              memory, loop.getInductionVar());
    }
  }
}

void rows::storeSums(VectorRowEmitter &emitter) {
  Frame &frame = emitter.frame;
  RowPosition part{frame.item(), frame.index(0), frame.item()};
  for (auto [i, value] : llvm::enumerate(getYield(emitter.op).getValues())) {
    Value sums = emitter.sumRows.lookup(i);
    if (!sums) {
      continue;
    }
    Value memory = emitter.addresses.resultRow(i, part);
    forColumns(emitter, getRowWidth(value), [&](Columns &columns) {
      storeAll(emitter, memory, columns, loadAll(emitter, sums, columns, true), /*padded=*/false);
    });
  }
}
