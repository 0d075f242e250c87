// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// Values of a row body, some vectors of columns at a time.
#include "Rows.h"
#include "Storage.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "sluice/Target/CPU/Random.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cpu;
using namespace sluice::cpu::rows;

VectorType Emitter::vectorOf(Type element) const { return VectorType::get({lanes}, element); }

Value Emitter::zero(Type type) { return arith::ConstantOp::create(b, b.getZeroAttr(type)); }

/// First column of a vector, moved by `shift` (the member's first column in a folded row).
Value Emitter::column(Columns &columns, int64_t vector, Value shift) {
  Value first = columns.first;
  if (vector != 0) {
    first = arith::AddIOp::create(b, first, frame.index(vector * lanes));
  }
  return shift ? Value(arith::AddIOp::create(b, first, shift)) : first;
}

/// Lanes of a vector that are columns; null where all are.
Value Emitter::mask(const Columns &columns, int64_t vector) {
  if (columns.tail == 0 || vector + 1 < columns.count) {
    return nullptr;
  }
  SmallVector<bool> bits(lanes, false);
  std::fill(bits.begin(), bits.begin() + columns.tail, true);
  auto attribute = DenseElementsAttr::get(vectorOf(b.getI1Type()), bits);
  return arith::ConstantOp::create(b, attribute);
}

/// Memory with padded rows (scratch) is read and written in whole vectors.
Emitter::Values Emitter::loadAll(Value memory, Columns &columns, bool padded) {
  Values values;
  for (int64_t i = 0; i < columns.count; ++i) {
    Value lanesUsed = padded ? Value() : mask(columns, i);
    values.push_back(loadVector(b, lanes, memory, column(columns, i), lanesUsed));
  }
  return values;
}

void Emitter::storeAll(Value memory, Columns &columns, ValueRange values, bool padded,
                       Value shift) {
  for (auto [i, value] : llvm::enumerate(values)) {
    Value lanesUsed = padded ? Value() : mask(columns, i);
    storeVector(b, value, memory, column(columns, i, shift), lanesUsed);
  }
}

/// The row of a group argument that a member reads.
Value Emitter::memberRow(unsigned argument, Value member) {
  auto access = cast<dispatch::AccessAttr>(op.getAccesses()[argument]);
  Value gathered;
  if (access.getKind() == dispatch::AccessKind::Gather) {
    gathered = known(op.getBody().getArgument(access.getIndex()));
  }
  return addresses.operandRow(argument, at, member, gathered);
}

/// Mul and add may become one operation. The code is the same for every item and thread, so results
/// stay the same too.
static void allowContraction(Operation *operation) {
  if (isa<arith::AddFOp, arith::SubFOp, arith::MulFOp>(operation)) {
    auto flags = cast<arith::ArithFastMathInterface>(operation).getFastMathFlagsAttr().getValue();
    auto with = arith::FastMathFlagsAttr::get(operation->getContext(),
                                              flags | arith::FastMathFlags::contract);
    operation->setAttr("fastmath", with);
  }
}

/// The elementwise op on vectors. Scalar operands (a select's condition) stay scalars.
Emitter::Values Emitter::applied(Operation *operation, int64_t count,
                                 llvm::function_ref<Values(Value)> operand) {
  SmallVector<Values> operands;
  for (Value value : operation->getOperands()) {
    operands.push_back(isRow(value) ? operand(value) : Values(count, known(value)));
  }
  Type type = vectorOf(getElementTypeOrSelf(operation->getResult(0).getType()));
  Values results;
  for (int64_t i = 0; i < count; ++i) {
    SmallVector<Value> inputs;
    for (Values &values : operands) {
      inputs.push_back(values[i]);
    }
    Operation *copy = operation->clone();
    copy->setOperands(inputs);
    copy->getResult(0).setType(type);
    allowContraction(copy);
    b.insert(copy);
    results.push_back(copy->getResult(0));
  }
  return results;
}

/// Row ops without row operands; `shift` is the first column of the member within the folded row,
/// or null.
Emitter::Values Emitter::leaf(Operation *operation, Columns &columns, Value shift) {
  VectorType type = vectorOf(getElementTypeOrSelf(operation->getResult(0).getType()));
  if (auto constant = dyn_cast<arith::ConstantOp>(operation)) {
    auto value = cast<SplatElementsAttr>(constant.getValue());
    auto attribute = DenseElementsAttr::get(type, value.getSplatValue<Attribute>());
    return Values(columns.count, arith::ConstantOp::create(b, attribute));
  }
  if (auto splat = dyn_cast<tensor::SplatOp>(operation)) {
    return Values(columns.count, known(splat.getResult()));
  }
  if (auto random = dyn_cast<dispatch::RandomOp>(operation)) {
    return uniform(random, columns, shift);
  }
  SmallVector<int32_t> numbers;
  for (int64_t i = 0; i < lanes; ++i) {
    numbers.push_back(i);
  }
  Value steps =
      arith::ConstantOp::create(b, DenseElementsAttr::get(type, ArrayRef<int32_t>(numbers)));
  Values results;
  for (int64_t i = 0; i < columns.count; ++i) {
    Value first = arith::IndexCastOp::create(b, b.getI32Type(), column(columns, i, shift));
    results.push_back(arith::AddIOp::create(b, vector::BroadcastOp::create(b, type, first), steps));
  }
  return results;
}

Emitter::Values Emitter::uniform(dispatch::RandomOp random, Columns &columns, Value shift) {
  Type i64 = b.getI64Type();
  Value width = arith::ConstantIntOp::create(b, random.getWidth(), 64);
  Value first = arith::IndexCastOp::create(b, i64, column(columns, 0, shift));
  Value before = arith::MulIOp::create(b, arith::IndexCastOp::create(b, i64, at.row), width);
  first = arith::AddIOp::create(b, before, first);
  Value drawn = random.getFixedStep() ? Value(arith::ConstantIntOp::create(b, 0, 64)) : step;
  // Four neighbours share a counter, if rows (and the members of a folded row) begin with one.
  bool aligned = random.getWidth() % 4 == 0 && (!shift || widthOf(random.getResult()) % 4 == 0);
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

Emitter::Values Emitter::rowValues(Value value, Columns &columns) {
  if (auto found = columns.values.find(value); found != columns.values.end()) {
    return found->second;
  }
  Values made = makeRowValues(value, columns);
  columns.values[value] = made;
  return made;
}

Emitter::Values Emitter::makeRowValues(Value value, Columns &columns) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    return loadAll(bases[argument.getArgNumber()].front(), columns, false);
  }
  std::optional<unsigned> keeper = schedule.keeper(value);
  if (keeper && *keeper < current) {
    return loadAll(kept.lookup(value), columns, true);
  }
  Operation *operation = value.getDefiningOp();
  if (auto reduced = dyn_cast<dispatch::ReduceGroupOp>(operation)) {
    return reducedGroup(reduced.getKind(), reduced.getRows(), columns);
  }
  if (isa<arith::ConstantOp, tensor::SplatOp, dispatch::RandomOp, dispatch::ColumnOp>(operation)) {
    return leaf(operation, columns, nullptr);
  }
  return applied(operation, columns.count,
                 [&](Value operand) { return rowValues(operand, columns); });
}

Emitter::Values Emitter::memberValues(Value value, Columns &columns, Member &member) {
  if (auto found = member.memo->find(value); found != member.memo->end()) {
    return found->second;
  }
  Values made = makeMemberValues(value, columns, member);
  (*member.memo)[value] = made;
  return made;
}

Emitter::Values Emitter::makeMemberValues(Value value, Columns &columns, Member &member) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    unsigned number = argument.getArgNumber();
    Value row = member.known >= 0 ? bases[number][member.known] : memberRow(number, member.index);
    return loadAll(row, columns, false);
  }
  Operation *operation = value.getDefiningOp();
  if (isa<arith::ConstantOp, tensor::SplatOp, dispatch::RandomOp, dispatch::ColumnOp>(operation)) {
    Value shift = arith::MulIOp::create(b, member.index, frame.index(widthOf(value)));
    return leaf(operation, columns, shift);
  }
  if (auto spread = dyn_cast<dispatch::SpreadOp>(operation)) {
    return rowValues(spread.getRow(), columns);
  }
  return applied(operation, columns.count,
                 [&](Value operand) { return memberValues(operand, columns, member); });
}

/// Runs over known members; the memo of each lives as long as the columns.
void Emitter::forEachMember(int64_t group, Columns &columns,
                            llvm::function_ref<void(Member &)> body) {
  if (static_cast<int64_t>(columns.groups.size()) < group) {
    columns.groups.resize(group);
  }
  for (int64_t i = 0; i < group; ++i) {
    Member member{i, frame.index(i), &columns.groups[i]};
    body(member);
  }
}

/// Makes the rows that `group` spreads, before a loop over its members that would make them anew.
void Emitter::prepareSpreads(Value group, Columns &columns) {
  Operation *operation = group.getDefiningOp();
  if (auto spread = dyn_cast_or_null<dispatch::SpreadOp>(operation)) {
    rowValues(spread.getRow(), columns);
  } else if (operation) {
    for (Value operand : operation->getOperands()) {
      prepareSpreads(operand, columns);
    }
  }
}

Emitter::Values Emitter::reducedGroup(dispatch::ReduceKind kind, Value group, Columns &columns) {
  int64_t members = groupOf(group);
  VectorType type = vectorOf(getElementTypeOrSelf(group.getType()));
  if (members <= unrolledGroup) {
    Values sums;
    forEachMember(members, columns, [&](Member &member) {
      Values values = memberValues(group, columns, member);
      for (auto [i, value] : llvm::enumerate(values)) {
        if (member.known == 0) {
          sums.push_back(value);
        } else {
          sums[i] = combineRows(b, kind, sums[i], value);
        }
      }
    });
    return sums;
  }
  prepareSpreads(group, columns);
  Values start(columns.count, identityOf(b, kind, type));
  auto loop = scf::ForOp::create(b, frame.index(0), frame.index(members), frame.index(1), start);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Memo memo;
  Member member{-1, loop.getInductionVar(), &memo};
  Values values = memberValues(group, columns, member);
  Values sums;
  for (auto [i, value] : llvm::enumerate(values)) {
    sums.push_back(combineRows(b, kind, loop.getRegionIterArg(i), value));
  }
  scf::YieldOp::create(b, sums);
  return Values(loop.getResults());
}

/// Stores tensor<k x d> as one row of k d columns.
void Emitter::storeGroup(unsigned result, Value value, Columns &columns) {
  Value memory = addresses.resultRow(result, at);
  int64_t members = groupOf(value);
  auto store = [&](Member &member) {
    Value shift = arith::MulIOp::create(b, member.index, frame.index(widthOf(value)));
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
