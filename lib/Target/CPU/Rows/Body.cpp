// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// Values of a row body, for several vectors of columns at a time.
#include "../../Common/Storage.h"
#include "Rows.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "sluice/Target/Common/Random.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cpu;
using namespace sluice::cpu::rows;

VectorRowEmitter::VectorRowEmitter(Frame &frame, dispatch::RowsOp op, const Schedule &schedule)
    : RowBody(frame.builder(), frame.target().lanes, /*contract=*/true), frame(frame), op(op),
      schedule(schedule), addresses(frame, op) {
  if (!op.getBody().getOps<dispatch::RandomOp>().empty()) {
    step = frame.step();
    seed = frame.seed();
    firstStream = frame.firstStream();
    drawRows = frame.drawRows();
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
    if (getResultKind(op, i) == dispatch::AccessKind::Columns) {
      sumRows[i] = row(getRowWidth(value), getElementTypeOrSelf(value.getType()));
    }
  }
}

Value rows::makeZero(VectorRowEmitter &emitter, Type type) {
  ImplicitLocOpBuilder &b = emitter.b;
  return arith::ConstantOp::create(b, b.getZeroAttr(type));
}

/// Returns the first column of a vector, plus `shift` (the first column of a member of a folded
/// row).
Value VectorRowEmitter::getColumnValue(Columns &columns, size_t vector, Value shift) {
  Value first = columns.first;
  if (vector != 0) {
    first = arith::AddIOp::create(b, first, frame.index(int64_t(vector) * lanes));
  }
  return shift ? Value(arith::AddIOp::create(b, first, shift)) : first;
}

/// Returns the mask of the lanes of a vector that are columns; null if all are.
Value rows::computeMask(VectorRowEmitter &emitter, const Columns &columns, int64_t vector) {
  ImplicitLocOpBuilder &b = emitter.b;
  if (columns.tail == 0 || vector + 1 < columns.count) {
    return nullptr;
  }
  SmallVector<bool> bits(emitter.lanes, false);
  std::fill(bits.begin(), bits.begin() + columns.tail, true);
  auto attribute = DenseElementsAttr::get(emitter.getVectorType(b.getI1Type()), bits);
  return arith::ConstantOp::create(b, attribute);
}

/// Memory with padded rows (scratch) is accessed in whole vectors.
Values rows::loadAll(VectorRowEmitter &emitter, Value memory, Columns &columns, bool padded) {
  Values values;
  for (int64_t i = 0; i < columns.count; ++i) {
    Value lanesUsed = padded ? Value() : computeMask(emitter, columns, i);
    values.push_back(loadVector(emitter.b, emitter.lanes, memory,
                                emitter.getColumnValue(columns, i, nullptr), lanesUsed));
  }
  return values;
}

void rows::storeAll(VectorRowEmitter &emitter, Value memory, Columns &columns, ValueRange values,
                    bool padded, Value shift) {
  for (auto [i, value] : llvm::enumerate(values)) {
    Value lanesUsed = padded ? Value() : computeMask(emitter, columns, i);
    storeVector(emitter.b, value, memory, emitter.getColumnValue(columns, i, shift), lanesUsed);
  }
}

/// Returns the row of a group argument that a member reads.
Value rows::getMemberRow(VectorRowEmitter &emitter, unsigned argument, Value member) {
  dispatch::RowsOp op = emitter.op;
  auto access = cast<dispatch::AccessAttr>(op.getAccesses()[argument]);
  return emitter.addresses.operandRow(argument, emitter.at, member,
                                      getIndexValue(op, emitter.scalars, access.getIndex()));
}

Values VectorRowEmitter::uniform(dispatch::RandomOp random, Columns &columns, Value shift) {
  Type i64 = b.getI64Type();
  Value width = arith::ConstantIntOp::create(b, random.getWidth(), 64);
  Value first = arith::IndexCastOp::create(b, i64, getColumnValue(columns, 0, shift));
  Value row = emitDrawnRow(b, at.row, drawRows, op.getDomain().getPositions(), op.getDrawParts());
  Value before = arith::MulIOp::create(b, arith::IndexCastOp::create(b, i64, row), width);
  first = arith::AddIOp::create(b, before, first);
  Value drawn = random.getFixedStep() ? Value(arith::ConstantIntOp::create(b, 0, 64)) : step;
  // Four adjacent columns share a counter, if rows (and members of a folded row) start with a new
  // one.
  bool aligned = random.getWidth() % 4 == 0 && (!shift || getRowWidth(random.getResult()) % 4 == 0);
  Values results;
  if (aligned) {
    Value run =
        emitUniformRun(b, first, columns.count * lanes, random.getId(), firstStream, drawn, seed);
    for (int64_t i = 0; i < columns.count; ++i) {
      results.push_back(
          vector::ExtractStridedSliceOp::create(b, run, i * lanes, lanes, int64_t(1)));
    }
    return results;
  }
  for (int64_t i = 0; i < columns.count; ++i) {
    SmallVector<int64_t> numbers;
    for (int64_t lane = 0; lane < lanes; ++lane) {
      numbers.push_back(i * lanes + lane);
    }
    Value ramp = arith::ConstantOp::create(b, b.getI64VectorAttr(numbers));
    Value elements =
        arith::AddIOp::create(b, vector::BroadcastOp::create(b, ramp.getType(), first), ramp);
    results.push_back(emitUniform(b, elements, random.getId(), firstStream, drawn, seed));
  }
  return results;
}

Values VectorRowEmitter::argumentValues(unsigned argument, Columns &columns) {
  auto access = cast<dispatch::AccessAttr>(op.getAccesses()[argument]);
  return access.getKind() == dispatch::AccessKind::Range
             ? reduceRange(*this, argument, columns)
             : loadAll(*this, bases[argument].front(), columns, false);
}

Values VectorRowEmitter::argumentValues(unsigned argument, Columns &columns, BodyMember &member) {
  Value row = member.known >= 0 ? bases[argument][member.known]
                                : getMemberRow(*this, argument, member.index);
  return loadAll(*this, row, columns, false);
}

Values VectorRowEmitter::keptValues(Value value, Columns &columns) {
  std::optional<unsigned> keeper = schedule.keeper(value);
  return keeper && *keeper < current ? loadAll(*this, kept.lookup(value), columns, true) : Values();
}

Values VectorRowEmitter::reducedGroup(dispatch::ReduceGroupOp combiner, Value group,
                                      Columns &columns) {
  int64_t members = getGroupSize(group);
  VectorType type = getVectorType(getElementTypeOrSelf(group.getType()));
  if (members <= unrolledGroup) {
    Values sums;
    forEachMember(members, columns, [&](BodyMember &member) {
      Values values = memberValues(group, columns, member);
      for (auto [i, value] : llvm::enumerate(values)) {
        if (member.known == 0) {
          sums.push_back(value);
        } else {
          sums[i] = combineRows(b, combiner, sums[i], value);
        }
      }
    });
    return sums;
  }
  prepareSpreads(group, columns);
  Values start(columns.count, emitIdentity(b, combiner, type));
  auto loop = scf::ForOp::create(b, frame.index(0), frame.index(members), frame.index(1), start);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  BodyMemo memo;
  BodyMember member{-1, loop.getInductionVar(), &memo};
  Values values = memberValues(group, columns, member);
  Values sums;
  for (auto [i, value] : llvm::enumerate(values)) {
    sums.push_back(combineRows(b, combiner, loop.getRegionIterArg(i), value));
  }
  scf::YieldOp::create(b, sums);
  return Values(loop.getResults());
}

/// Stores tensor<k x d> as one row of k d columns.
void rows::storeGroup(VectorRowEmitter &emitter, unsigned result, Value value, Columns &columns) {
  Value memory = emitter.addresses.resultRow(result, emitter.at);
  int64_t members = getGroupSize(value);
  auto store = [&](BodyMember &member) {
    Value shift =
        arith::MulIOp::create(emitter.b, member.index, emitter.frame.index(getRowWidth(value)));
    storeAll(emitter, memory, columns, emitter.memberValues(value, columns, member), false, shift);
  };
  if (members > unrolledGroup) {
    emitter.prepareSpreads(value, columns);
  }
  emitter.forEveryMember(members, columns, store);
}
