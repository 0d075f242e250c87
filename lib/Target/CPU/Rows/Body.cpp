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

Value VectorRowEmitter::zero(Type type) {
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
Value VectorRowEmitter::mask(const Columns &columns, int64_t vector) {
  if (columns.tail == 0 || vector + 1 < columns.count) {
    return nullptr;
  }
  SmallVector<bool> bits(lanes, false);
  std::fill(bits.begin(), bits.begin() + columns.tail, true);
  auto attribute = DenseElementsAttr::get(getVectorType(b.getI1Type()), bits);
  return arith::ConstantOp::create(b, attribute);
}

/// Memory with padded rows (scratch) is accessed in whole vectors.
BodyValues VectorRowEmitter::loadAll(Value memory, Columns &columns, bool padded) {
  Values values;
  for (int64_t i = 0; i < columns.count; ++i) {
    Value lanesUsed = padded ? Value() : mask(columns, i);
    values.push_back(loadVector(b, lanes, memory, getColumnValue(columns, i, nullptr), lanesUsed));
  }
  return values;
}

void VectorRowEmitter::storeAll(Value memory, Columns &columns, ValueRange values, bool padded,
                                Value shift) {
  for (auto [i, value] : llvm::enumerate(values)) {
    Value lanesUsed = padded ? Value() : mask(columns, i);
    storeVector(b, value, memory, getColumnValue(columns, i, shift), lanesUsed);
  }
}

/// Returns the row of a group argument that a member reads.
Value VectorRowEmitter::memberRow(unsigned argument, Value member) {
  auto access = cast<dispatch::AccessAttr>(op.getAccesses()[argument]);
  return addresses.operandRow(argument, at, member, getRowIndex(access.getIndex()));
}

BodyValues VectorRowEmitter::uniform(dispatch::RandomOp random, Columns &columns, Value shift) {
  Type i64 = b.getI64Type();
  Value width = arith::ConstantIntOp::create(b, random.getWidth(), 64);
  Value first = arith::IndexCastOp::create(b, i64, getColumnValue(columns, 0, shift));
  Value row = emitDrawnRow(b, at.row, firstRow, op.getDomain().getPositions());
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

BodyValues VectorRowEmitter::argumentValues(unsigned argument, Columns &columns) {
  auto access = cast<dispatch::AccessAttr>(op.getAccesses()[argument]);
  return access.getKind() == dispatch::AccessKind::Range
             ? rangeValues(argument, columns)
             : loadAll(bases[argument].front(), columns, false);
}

BodyValues VectorRowEmitter::argumentValues(unsigned argument, Columns &columns, Member &member) {
  Value row = member.known >= 0 ? bases[argument][member.known] : memberRow(argument, member.index);
  return loadAll(row, columns, false);
}

BodyValues VectorRowEmitter::keptValues(Value value, Columns &columns) {
  std::optional<unsigned> keeper = schedule.keeper(value);
  return keeper && *keeper < current ? loadAll(kept.lookup(value), columns, true) : Values();
}

BodyValues VectorRowEmitter::reducedGroup(dispatch::ReduceGroupOp combiner, Value group,
                                          Columns &columns) {
  int64_t members = getGroupSize(group);
  VectorType type = getVectorType(getElementTypeOrSelf(group.getType()));
  if (members <= unrolledGroup) {
    Values sums;
    forEachMember(members, columns, [&](Member &member) {
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
  Memo memo;
  Member member{-1, loop.getInductionVar(), &memo};
  Values values = memberValues(group, columns, member);
  Values sums;
  for (auto [i, value] : llvm::enumerate(values)) {
    sums.push_back(combineRows(b, combiner, loop.getRegionIterArg(i), value));
  }
  scf::YieldOp::create(b, sums);
  return Values(loop.getResults());
}

/// Stores tensor<k x d> as one row of k d columns.
void VectorRowEmitter::storeGroup(unsigned result, Value value, Columns &columns) {
  Value memory = addresses.resultRow(result, at);
  int64_t members = getGroupSize(value);
  auto store = [&](Member &member) {
    Value shift = arith::MulIOp::create(b, member.index, frame.index(getRowWidth(value)));
    storeAll(memory, columns, memberValues(value, columns, member), false, shift);
  };
  if (members <= unrolledGroup) {
    forEachMember(members, columns, store);
    return;
  }
  prepareSpreads(value, columns);
  auto loop = scf::ForOp::create(b, frame.index(0), frame.index(members), frame.index(1));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Memo memo;
  Member member{-1, loop.getInductionVar(), &memo};
  store(member);
}
