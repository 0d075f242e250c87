// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Values of a row body, the vectors of columns that a thread has in hand at a time.
#include "Rows.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "sluice/Target/CPU/Random.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cuda;
using namespace sluice::cuda::rows;

/// The elementwise op on vectors. Scalar operands (a select's condition) stay scalars.
Values BodyEmitter::applied(Operation *operation, size_t count,
                            llvm::function_ref<Values(Value)> operand) {
  SmallVector<Values> operands;
  for (Value value : operation->getOperands()) {
    operands.push_back(isRow(value) ? operand(value) : Values(count, known(value)));
  }
  Type type = vectorOf(getElementTypeOrSelf(operation->getResult(0).getType()));
  Values results;
  for (size_t j = 0; j < count; ++j) {
    Values inputs;
    for (Values &values : operands) {
      inputs.push_back(values[j]);
    }
    Operation *copy = operation->clone();
    copy->setOperands(inputs);
    copy->getResult(0).setType(type);
    b.insert(copy);
    results.push_back(copy->getResult(0));
  }
  return results;
}

/// Row ops without row operands; `shift` is the first column of the member within the folded row,
/// or null.
Values BodyEmitter::leaf(Operation *operation, Columns &columns, Value shift) {
  VectorType type = vectorOf(getElementTypeOrSelf(operation->getResult(0).getType()));
  if (auto constant = dyn_cast<arith::ConstantOp>(operation)) {
    auto value = cast<SplatElementsAttr>(constant.getValue());
    auto attribute = DenseElementsAttr::get(type, value.getSplatValue<Attribute>());
    return Values(columns.count(), arith::ConstantOp::create(b, attribute));
  }
  if (auto splat = dyn_cast<tensor::SplatOp>(operation)) {
    return Values(columns.count(), known(splat.getResult()));
  }
  if (auto random = dyn_cast<dispatch::RandomOp>(operation)) {
    return uniform(random, columns, shift);
  }
  SmallVector<int32_t> numbers(plan.vector);
  std::iota(numbers.begin(), numbers.end(), 0);
  Value steps = arith::ConstantOp::create(b, DenseElementsAttr::get(type, ArrayRef(numbers)));
  Values results;
  for (Value first : columns.first) {
    Value column = e.toInteger(shift ? e.add(first, shift) : first);
    results.push_back(
        arith::AddIOp::create(b, vector::BroadcastOp::create(b, type, column), steps));
  }
  return results;
}

/// Four neighbours share a counter of Philox, where rows (and the members of a folded row) begin
/// with one.
Values BodyEmitter::uniform(dispatch::RandomOp random, Columns &columns, Value shift) {
  Type i64 = b.getI64Type();
  Value step = random.getFixedStep() ? Value(arith::ConstantIntOp::create(b, i64, 0)) : frame.step;
  Value before = e.mul(at.global, random.getWidth());
  before = shift ? e.add(before, shift) : before;
  bool runs = plan.vector % 4 == 0 && random.getWidth() % 4 == 0 &&
              (!shift || widthOf(random.getResult()) % 4 == 0);
  Values numbers;
  for (Value column : columns.first) {
    Value first = arith::IndexCastOp::create(b, i64, e.add(before, column));
    if (runs) {
      numbers.push_back(cpu::emitUniformRun(b, first, plan.vector, random.getId(),
                                            frame.firstStream, step, frame.seed,
                                            cpu::PhiloxWord::Narrow));
      continue;
    }
    SmallVector<int64_t> offsets(plan.vector);
    std::iota(offsets.begin(), offsets.end(), 0);
    Value ramp = arith::ConstantOp::create(b, b.getI64VectorAttr(offsets));
    Value elements =
        arith::AddIOp::create(b, vector::BroadcastOp::create(b, ramp.getType(), first), ramp);
    numbers.push_back(cpu::emitUniform(b, elements, random.getId(), frame.firstStream, step,
                                       frame.seed, cpu::PhiloxWord::Narrow));
  }
  return numbers;
}

Value BodyEmitter::uniformElement(dispatch::RandomOp random) {
  Type i64 = b.getI64Type();
  Value step = random.getFixedStep() ? Value(arith::ConstantIntOp::create(b, i64, 0)) : frame.step;
  Value element = arith::IndexCastOp::create(b, i64, e.mul(at.global, random.getWidth()));
  return cpu::emitUniform(b, element, random.getId(), frame.firstStream, step, frame.seed,
                          cpu::PhiloxWord::Narrow);
}

Values BodyEmitter::rowValues(Value value, Columns &columns) {
  if (auto found = columns.values.find(value); found != columns.values.end()) {
    return found->second;
  }
  Values made = makeRowValues(value, columns);
  columns.values[value] = made;
  return made;
}

Values BodyEmitter::makeRowValues(Value value, Columns &columns) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    unsigned number = argument.getArgNumber();
    auto found = shared.find(number);
    return found != shared.end() ? found->second
                                 : loadArgument(number, bases[number].front(), columns);
  }
  Operation *operation = value.getDefiningOp();
  if (auto reduced = dyn_cast<dispatch::ReduceGroupOp>(operation)) {
    return reducedGroup(reduced.getKind(), reduced.getRows(), columns);
  }
  if (isa<arith::ConstantOp, tensor::SplatOp, dispatch::RandomOp, dispatch::ColumnOp>(operation)) {
    return leaf(operation, columns, nullptr);
  }
  return applied(operation, columns.count(),
                 [&](Value operand) { return rowValues(operand, columns); });
}

Values BodyEmitter::memberValues(Value value, Columns &columns, Member &member) {
  if (auto found = member.memo->find(value); found != member.memo->end()) {
    return found->second;
  }
  Values made = makeMemberValues(value, columns, member);
  (*member.memo)[value] = made;
  return made;
}

Values BodyEmitter::makeMemberValues(Value value, Columns &columns, Member &member) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    unsigned number = argument.getArgNumber();
    Source row = member.known >= 0 ? bases[number][member.known] : memberRow(number, member.index);
    return loadArgument(number, row, columns);
  }
  Operation *operation = value.getDefiningOp();
  if (isa<arith::ConstantOp, tensor::SplatOp, dispatch::RandomOp, dispatch::ColumnOp>(operation)) {
    return leaf(operation, columns, e.mul(member.index, widthOf(value)));
  }
  if (auto spread = dyn_cast<dispatch::SpreadOp>(operation)) {
    return rowValues(spread.getRow(), columns);
  }
  return applied(operation, columns.count(),
                 [&](Value operand) { return memberValues(operand, columns, member); });
}

/// The row of an argument that a member of its group reads.
Source BodyEmitter::memberRow(unsigned argument, Value member) {
  dispatch::AccessAttr access = accessOf(op, argument);
  Value gathered;
  if (access.getKind() == dispatch::AccessKind::Gather) {
    gathered = known(op.getBody().getArgument(access.getIndex()));
  }
  return addresses.operandRow(argument, at, member, gathered);
}

/// Runs over known members; the memo of each lives as long as the columns.
void BodyEmitter::forMembers(int64_t group, Columns &columns,
                             llvm::function_ref<void(Member &)> body) {
  if (int64_t(columns.groups.size()) < group) {
    columns.groups.resize(group);
  }
  for (int64_t i = 0; i < group; ++i) {
    Member member{i, e.index(i), &columns.groups[i]};
    body(member);
  }
}

/// Makes the rows that `group` spreads, before a loop over its members or a branch around their
/// stores would make them for itself.
void BodyEmitter::prepareSpreads(Value group, Columns &columns) {
  Operation *operation = group.getDefiningOp();
  if (auto spread = dyn_cast_or_null<dispatch::SpreadOp>(operation)) {
    rowValues(spread.getRow(), columns);
  } else if (operation) {
    for (Value operand : operation->getOperands()) {
      prepareSpreads(operand, columns);
    }
  }
}

/// In the members' order. Long groups go by `unrolledGroup` members, whose loads are under way
/// together.
Values BodyEmitter::reducedGroup(dispatch::ReduceKind kind, Value group, Columns &columns) {
  int64_t members = groupOf(group);
  Type element = getElementTypeOrSelf(group.getType());
  auto combineAll = [&](Values sums, ArrayRef<Values> all) {
    for (const Values &values : all) {
      for (auto [j, value] : llvm::enumerate(values)) {
        sums[j] = combineRows(b, kind, sums[j], value);
      }
    }
    return sums;
  };
  SmallVector<Values> all;
  if (members <= unrolledGroup) {
    forMembers(members, columns,
               [&](Member &member) { all.push_back(memberValues(group, columns, member)); });
    return combineAll(all.front(), ArrayRef(all).drop_front());
  }
  auto together = [&](Value first, int64_t count) {
    SmallVector<Values> made;
    for (int64_t i = 0; i < count; ++i) {
      Memo memo;
      Member member{-1, i ? e.add(first, i) : first, &memo};
      made.push_back(memberValues(group, columns, member));
    }
    return made;
  };
  prepareSpreads(group, columns);
  int64_t full = members / unrolledGroup * unrolledGroup;
  Values start(columns.count(), identityOf(b, kind, vectorOf(element)));
  Values sums =
      e.loop(e.index(0), e.index(full), unrolledGroup, start, [&](Value first, ValueRange carried) {
        return combineAll(Values(carried), together(first, unrolledGroup));
      });
  return combineAll(sums, together(e.index(full), members - full));
}
