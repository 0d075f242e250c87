// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Values of a row body, as the vectors of columns that a thread has in registers.
#include "Rows.h"

#include "sluice/Target/Common/Random.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cuda;
using namespace sluice::cuda::rows;

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

Value TeamRowEmitter::getColumnValue(Columns &columns, size_t vector, Value shift) {
  Value first = columns.first[vector];
  return shift ? e.add(first, shift) : first;
}

/// Four adjacent columns share a Philox counter if rows (and members of a folded row) start with a
/// new one.
Values TeamRowEmitter::uniform(dispatch::RandomOp random, Columns &columns, Value shift) {
  Type i64 = b.getI64Type();
  Value step = random.getFixedStep() ? Value(arith::ConstantIntOp::create(b, i64, 0)) : frame.step;
  Value row =
      emitDrawnRow(b, at.row, frame.drawRows, op.getDomain().getPositions(), op.getDrawParts());
  Value before = e.mul(row, random.getWidth());
  before = shift ? e.add(before, shift) : before;
  bool runs = plan.vector % 4 == 0 && random.getWidth() % 4 == 0 &&
              (!shift || getRowWidth(random.getResult()) % 4 == 0);
  Values numbers;
  for (Value column : columns.first) {
    Value first = arith::IndexCastOp::create(b, i64, e.add(before, column));
    if (runs) {
      numbers.push_back(emitUniformRun(b, first, plan.vector, random.getId(), frame.firstStream,
                                       step, frame.seed, PhiloxWord::Narrow));
      continue;
    }
    SmallVector<int64_t> offsets(plan.vector);
    std::iota(offsets.begin(), offsets.end(), 0);
    Value ramp = arith::ConstantOp::create(b, b.getI64VectorAttr(offsets));
    Value elements =
        arith::AddIOp::create(b, vector::BroadcastOp::create(b, ramp.getType(), first), ramp);
    numbers.push_back(emitUniform(b, elements, random.getId(), frame.firstStream, step, frame.seed,
                                  PhiloxWord::Narrow));
  }
  return numbers;
}

Value rows::drawElement(TeamRowEmitter &emitter, dispatch::RandomOp random) {
  ImplicitLocOpBuilder &b = emitter.b;
  Frame &frame = emitter.frame;
  Type i64 = b.getI64Type();
  Value step = random.getFixedStep() ? Value(arith::ConstantIntOp::create(b, i64, 0)) : frame.step;
  dispatch::RowsOp op = emitter.op;
  Value row = emitDrawnRow(b, emitter.at.row, frame.drawRows, op.getDomain().getPositions(),
                           op.getDrawParts());
  Value element = arith::IndexCastOp::create(b, i64, emitter.e.mul(row, random.getWidth()));
  return emitUniform(b, element, random.getId(), frame.firstStream, step, frame.seed,
                     PhiloxWord::Narrow);
}

Values TeamRowEmitter::argumentValues(unsigned argument, Columns &columns) {
  if (getTensorAccess(op, argument).getKind() == dispatch::AccessKind::Range) {
    return reduceRange(*this, argument, columns);
  }
  auto found = shared.find(argument);
  return found != shared.end() ? found->second
                               : loadArgument(*this, argument, bases[argument].front(), columns);
}

Values TeamRowEmitter::argumentValues(unsigned argument, Columns &columns, BodyMember &member) {
  Source row = member.known >= 0 ? bases[argument][member.known]
                                 : getMemberRow(*this, argument, member.index);
  return loadArgument(*this, argument, row, columns);
}

/// Returns the row of an argument that a member of its group reads.
Source rows::getMemberRow(TeamRowEmitter &emitter, unsigned argument, Value member) {
  dispatch::RowsOp op = emitter.op;
  Value gathered = getIndexValue(op, emitter.scalars, getTensorAccess(op, argument).getIndex());
  return emitter.addresses.operandRow(argument, emitter.at, member, gathered);
}

/// Reduces in the order of the members. Long groups are processed `unrolledGroup` members at a
/// time, whose loads overlap.
Values TeamRowEmitter::reducedGroup(dispatch::ReduceGroupOp combiner, Value group,
                                    Columns &columns) {
  int64_t members = getGroupSize(group);
  Type element = getElementTypeOrSelf(group.getType());
  auto combineAll = [&](Values sums, ArrayRef<Values> all) {
    for (const Values &values : all) {
      for (auto [j, value] : llvm::enumerate(values)) {
        sums[j] = combineRows(b, combiner, sums[j], value);
      }
    }
    return sums;
  };
  SmallVector<Values> all;
  if (members <= unrolledGroup) {
    forEachMember(members, columns,
                  [&](BodyMember &member) { all.push_back(memberValues(group, columns, member)); });
    return combineAll(all.front(), ArrayRef(all).drop_front());
  }
  auto together = [&](Value first, int64_t count) {
    SmallVector<Values> made;
    for (int64_t i = 0; i < count; ++i) {
      BodyMemo memo;
      BodyMember member{-1, i ? e.add(first, i) : first, &memo};
      made.push_back(memberValues(group, columns, member));
    }
    return made;
  };
  prepareSpreads(group, columns);
  int64_t full = members / unrolledGroup * unrolledGroup;
  Values start(getColumnVectorCount(columns), emitIdentity(b, combiner, getVectorType(element)));
  Values sums =
      e.loop(e.index(0), e.index(full), unrolledGroup, start, [&](Value first, ValueRange carried) {
        return combineAll(Values(carried), together(first, unrolledGroup));
      });
  return combineAll(sums, together(e.index(full), members - full));
}
