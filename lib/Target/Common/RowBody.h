// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Target-independent part of row kernels: values of a body for several vectors of columns at a
// time. A target adds memory accesses and the division of columns among threads.
#pragma once

#include "RowAccess.h"
#include "RowScalars.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "sluice/Target/Common/Emitter.h"

namespace sluice::target {

/// Groups of up to this many rows are unrolled; larger ones become a loop.
constexpr int64_t unrolledGroup = 8;

/// Values of a body by columns. `Columns` is the set of columns that a target processes at a time;
/// it derives from `BodyColumns`.
using BodyValues = llvm::SmallVector<mlir::Value>; ///< one per vector
using BodyMemo = llvm::DenseMap<mlir::Value, BodyValues>;
struct BodyColumns {
  BodyMemo values;
  llvm::SmallVector<BodyMemo> groups; ///< memos of the members of unrolled groups
};

/// One row of a group: a known member, or the member of a loop.
struct BodyMember {
  int64_t known = -1;
  mlir::Value index = {};
  BodyMemo *memo = nullptr;
};

template <typename Columns> class RowBody {
public:
  using Memo = BodyMemo;
  using Member = BodyMember;

  /// Processes vectors of `lanes` columns. If `contract` is set, multiplications and additions may
  /// be fused: the code is the same for every row, so results stay consistent.
  RowBody(mlir::ImplicitLocOpBuilder &b, int64_t lanes, bool contract)
      : b(b), lanes(lanes), contract(contract) {}
  virtual ~RowBody() = default;

  // Hooks that a target implements.
  /// Returns the number of vectors of `columns`.
  virtual size_t getColumnVectorCount(const Columns &columns) const = 0;
  /// Returns the first column (index) of a vector, plus `shift` (the first column of the member in
  /// a folded row), which may be null.
  virtual Value getColumnValue(Columns &columns, size_t vector, Value shift) = 0;
  /// Loads a row argument.
  virtual Values argumentValues(unsigned argument, Columns &columns) = 0;
  /// Loads a member of a group argument.
  virtual Values argumentValues(unsigned argument, Columns &columns, Member &member) = 0;
  /// Loads a row that an earlier loop has stored; empty if there is none.
  virtual Values keptValues(Value, Columns &) { return {}; }
  virtual Values uniform(dispatch::RandomOp random, Columns &columns, Value shift) = 0;
  /// Combines the rows of `group` as `op` does; a null op sums them.
  virtual Values reducedGroup(dispatch::ReduceGroupOp op, Value group, Columns &columns) = 0;

  Values rowValues(Value value, Columns &columns) {
    if (auto found = columns.values.find(value); found != columns.values.end()) {
      return found->second;
    }
    Values made = makeRowValues(value, columns);
    columns.values[value] = made;
    return made;
  }

  Values memberValues(Value value, Columns &columns, Member &member) {
    if (auto found = member.memo->find(value); found != member.memo->end()) {
      return found->second;
    }
    Values made = makeMemberValues(value, columns, member);
    (*member.memo)[value] = made;
    return made;
  }

  /// Runs over known members; their memos live as long as the columns.
  void forEachMember(int64_t group, Columns &columns, llvm::function_ref<void(Member &)> body) {
    if (int64_t(columns.groups.size()) < group) {
      columns.groups.resize(group);
    }
    for (int64_t i = 0; i < group; ++i) {
      Member member{i, mlir::arith::ConstantIndexOp::create(b, i), &columns.groups[i]};
      body(member);
    }
  }

  /// Runs over the members of a group of any size: a loop if they are not unrolled.
  void forEveryMember(int64_t group, Columns &columns, llvm::function_ref<void(Member &)> body) {
    if (group <= unrolledGroup) {
      forEachMember(group, columns, body);
      return;
    }
    auto index = [&](int64_t value) { return mlir::arith::ConstantIndexOp::create(b, value); };
    auto loop = mlir::scf::ForOp::create(b, index(0), index(group), index(1));
    mlir::OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    Memo memo;
    Member member{-1, loop.getInductionVar(), &memo};
    body(member);
  }

  /// Computes the rows that `group` broadcasts before a loop over its members, or a branch around
  /// their stores, which would otherwise compute them locally.
  void prepareSpreads(Value group, Columns &columns) {
    mlir::Operation *operation = group.getDefiningOp();
    if (auto spread = mlir::dyn_cast_or_null<dispatch::SpreadOp>(operation)) {
      rowValues(spread.getRow(), columns);
    } else if (operation) {
      for (Value operand : operation->getOperands()) {
        prepareSpreads(operand, columns);
      }
    }
  }

  /// Emits row ops without row operands; `shift` as in `getColumnValue`.
  Values leaf(mlir::Operation *operation, Columns &columns, Value shift) {
    mlir::VectorType type = getVectorType(operation->getResult(0).getType());
    size_t count = getColumnVectorCount(columns);
    if (auto constant = mlir::dyn_cast<mlir::arith::ConstantOp>(operation)) {
      auto value = mlir::cast<mlir::SplatElementsAttr>(constant.getValue());
      auto number =
          mlir::DenseElementsAttr::get(type, value.template getSplatValue<mlir::Attribute>());
      return Values(count, mlir::arith::ConstantOp::create(b, number));
    }
    if (auto splat = mlir::dyn_cast<mlir::tensor::SplatOp>(operation)) {
      return Values(count, known(splat.getResult()));
    }
    if (auto random = mlir::dyn_cast<dispatch::RandomOp>(operation)) {
      return uniform(random, columns, shift);
    }
    llvm::SmallVector<int32_t> numbers = llvm::to_vector(llvm::seq<int32_t>(0, int32_t(lanes)));
    Value steps = mlir::arith::ConstantOp::create(
        b, mlir::DenseElementsAttr::get(type, llvm::ArrayRef<int32_t>(numbers)));
    Values results;
    for (size_t i = 0; i < count; ++i) {
      Value first =
          mlir::arith::IndexCastOp::create(b, b.getI32Type(), getColumnValue(columns, i, shift));
      Value all = mlir::vector::BroadcastOp::create(b, type, first);
      results.push_back(mlir::arith::AddIOp::create(b, all, steps));
    }
    return results;
  }

  /// Returns the vector type with the element type of `type`.
  mlir::VectorType getVectorType(mlir::Type type) const {
    return mlir::VectorType::get({lanes}, mlir::getElementTypeOrSelf(type));
  }
  Value known(Value scalar) const { return scalars.lookup(scalar); }

  mlir::ImplicitLocOpBuilder &b;
  const int64_t lanes;
  BodyScalars scalars; ///< of this row

private:
  static bool isLeaf(mlir::Operation *operation) {
    return mlir::isa<mlir::arith::ConstantOp, mlir::tensor::SplatOp, dispatch::RandomOp,
                     dispatch::ColumnOp>(operation);
  }

  Values makeRowValues(Value value, Columns &columns) {
    if (auto argument = mlir::dyn_cast<mlir::BlockArgument>(value)) {
      return argumentValues(argument.getArgNumber(), columns);
    }
    if (Values kept = keptValues(value, columns); !kept.empty()) {
      return kept;
    }
    mlir::Operation *operation = value.getDefiningOp();
    if (auto reduced = mlir::dyn_cast<dispatch::ReduceGroupOp>(operation)) {
      return reducedGroup(reduced, reduced.getRows(), columns);
    }
    if (isLeaf(operation)) {
      return leaf(operation, columns, nullptr);
    }
    return applied(operation, getColumnVectorCount(columns),
                   [&](Value operand) { return rowValues(operand, columns); });
  }

  Values makeMemberValues(Value value, Columns &columns, Member &member) {
    if (auto argument = mlir::dyn_cast<mlir::BlockArgument>(value)) {
      return argumentValues(argument.getArgNumber(), columns, member);
    }
    mlir::Operation *operation = value.getDefiningOp();
    if (isLeaf(operation)) {
      Value width = mlir::arith::ConstantIndexOp::create(b, getRowWidth(value));
      return leaf(operation, columns, mlir::arith::MulIOp::create(b, member.index, width));
    }
    if (auto spread = mlir::dyn_cast<dispatch::SpreadOp>(operation)) {
      return rowValues(spread.getRow(), columns);
    }
    return applied(operation, getColumnVectorCount(columns),
                   [&](Value operand) { return memberValues(operand, columns, member); });
  }

  void allowContraction(mlir::Operation *operation) const {
    using namespace mlir::arith;
    if (contract && mlir::isa<AddFOp, SubFOp, MulFOp>(operation)) {
      auto flags = mlir::cast<ArithFastMathInterface>(operation).getFastMathFlagsAttr().getValue();
      operation->setAttr("fastmath", FastMathFlagsAttr::get(operation->getContext(),
                                                            flags | FastMathFlags::contract));
    }
  }

  /// Emits an elementwise op on vectors. Scalar operands (the condition of a select) stay scalar.
  Values applied(mlir::Operation *operation, size_t count,
                 llvm::function_ref<Values(Value)> operand) {
    llvm::SmallVector<Values> operands;
    for (Value value : operation->getOperands()) {
      operands.push_back(isRow(value) ? operand(value) : Values(count, known(value)));
    }
    Values results;
    for (size_t i = 0; i < count; ++i) {
      Values inputs;
      for (Values &values : operands) {
        inputs.push_back(values[i]);
      }
      mlir::Operation *copy = operation->clone();
      copy->setOperands(inputs);
      copy->getResult(0).setType(getVectorType(operation->getResult(0).getType()));
      allowContraction(copy);
      b.insert(copy);
      results.push_back(copy->getResult(0));
    }
    return results;
  }

  const bool contract;
};

} // namespace sluice::target
