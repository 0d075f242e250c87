// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Row kernels, the same on every target: the cut of a body into loops over columns, which rows of
// memory its operands are, and its values, some vectors of columns at a time. A target brings its
// memory access and how threads share columns.
#pragma once

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "sluice/Dialect/Dispatch/Dispatch.h"
#include "llvm/ADT/DenseSet.h"

namespace sluice::target {

/// Groups up to this many rows are unrolled; larger ones are a loop.
constexpr int64_t unrolledGroup = 8;

/// One loop over the columns of the rows of one width.
struct RowStage {
  int64_t depth = 0;
  int64_t width = 0;
  llvm::SmallVector<dispatch::ReduceOp> reductions; ///< done by this loop
  llvm::SmallVector<unsigned> stores;               ///< results (by number) that this loop stores
  llvm::SmallVector<mlir::Value> keeps; ///< costly values that this loop leaves for later ones
};

/// Which loop computes what. The depth of a value is the number of reductions that come one after
/// another before it. All rows are stored by the loops of the greatest depth, because a result may
/// take an operand's place.
class Schedule {
public:
  /// Fails with a diagnostic on an op that no row kernel can hold.
  static mlir::FailureOr<Schedule> of(dispatch::RowsOp op);

  llvm::ArrayRef<RowStage> stages() const { return stages_; }
  int64_t depth(mlir::Value value) const { return depth_.lookup(value); }
  /// The stage that leaves `value` in scratch, if one does.
  std::optional<unsigned> keeper(mlir::Value value) const;

private:
  void assignDepths(mlir::Block &body);
  void makeStages(dispatch::RowsOp op);
  void chooseKept(dispatch::YieldOp yield);
  void visit(mlir::Value value, unsigned stage, llvm::DenseMap<mlir::Value, unsigned> &seen);
  double cost(mlir::Value value, unsigned stage, llvm::DenseMap<mlir::Value, double> &known) const;

  llvm::DenseMap<mlir::Value, int64_t> depth_;
  llvm::DenseMap<mlir::Value, unsigned> keeper_;
  llvm::SmallVector<RowStage> stages_;
};

/// Width of a row value (tensor<d>) or of a group's rows (tensor<k x d>).
int64_t widthOf(mlir::Value value);
/// Rows of a group value; 0 for a row or a scalar.
int64_t groupOf(mlir::Value value);
bool isRow(mlir::Value value);

/// Neutral element of a reduction (zero, or the least number), of a vector type or a number.
mlir::Value identityOf(mlir::ImplicitLocOpBuilder &b, dispatch::ReduceKind kind, mlir::Type type);
/// A number, of a vector type or as it is; zero where it is null.
mlir::Value constantOf(mlir::ImplicitLocOpBuilder &b, mlir::TypedAttr number, mlir::Type type);
/// What `dispatch.reduce_group` makes of the rows so far and a later one, on both targets: of a
/// null op, their sum. Its identity is what a loop starts with.
mlir::Value combineRows(mlir::ImplicitLocOpBuilder &b, dispatch::ReduceGroupOp op, mlir::Value rows,
                        mlir::Value later);
mlir::Value identityOf(mlir::ImplicitLocOpBuilder &b, dispatch::ReduceGroupOp op, mlir::Type type);
/// The same of a combiner that has a name.
mlir::Value combineRows(mlir::ImplicitLocOpBuilder &b, dispatch::ReduceKind kind, mlir::Value rows,
                        mlir::Value later);

/// What a row kernel does at full length: operations, the least bytes moved, and its kind.
struct Work {
  double flops = 0, bytes = 0;
  llvm::StringRef kind; ///< row, or stream where it has no sequence
};
Work workOf(dispatch::RowsOp op);

/// The memory row of a ring [B, extent, ...] that holds `position` of batch row `batch`.
mlir::Value ringRow(mlir::ImplicitLocOpBuilder &b, int64_t extent, mlir::Value batch,
                    mlir::Value position);

/// Row of the memory of a tensor [B, extent, ...] that holds `position` of batch row `batch`: of a
/// scheduled domain's, a ring.
mlir::Value sequenceRow(mlir::ImplicitLocOpBuilder &b, dispatch::DomainAttr domain, int64_t extent,
                        mlir::Value batch, mlir::Value position);

/// Access and type of a tensor of a row kernel: operands first, then results.
dispatch::AccessAttr accessOf(dispatch::RowsOp op, unsigned tensor);
mlir::RankedTensorType tensorOf(dispatch::RowsOp op, unsigned tensor);

/// Number of parts that results of access `columns` ask for; 0 where there are none.
mlir::FailureOr<int64_t> sumPartsOf(dispatch::RowsOp op);

/// The position that an access maps `value`, the row's own or a gathered one, and `member` to, in a
/// source of `valid` rows; all of type index.
mlir::Value positionOf(mlir::ImplicitLocOpBuilder &b, dispatch::AccessAttr access,
                       mlir::Value value, mlir::Value member, mlir::Value valid);

/// Whether the rows that an operand of access `row` or `table` (or a group of `flat`) maps to lie
/// within its source for every valid row of the domain. `extent` counts the source's rows.
bool alwaysInside(dispatch::RowsOp op, dispatch::AccessAttr access, int64_t extent);
/// Whether no length says where the source sequence ends: of segments, a step's rings hold whatever
/// is read, wherever it stands.
bool isEndless(dispatch::RowsOp op, dispatch::AccessAttr access);
/// Whether operand `i` is gathered from the row's own sequence, not from a table.
bool isOfSequence(dispatch::RowsOp op, unsigned i);
/// What stands outside a sequence that ascends (AccessAttr, `extended`): i32, of a position
/// outside.
mlir::Value goesOn(mlir::ImplicitLocOpBuilder &b, mlir::Value position);
/// Whether an operand's first column may be negative, where zeros are read.
bool mayPrecedeColumns(dispatch::RowsOp op, dispatch::AccessAttr access);

/// Values of a body by columns. `Columns` is what a target has in hand at a time; it derives from
/// `BodyColumns`.
using BodyValues = llvm::SmallVector<mlir::Value>; ///< one vector each
using BodyMemo = llvm::DenseMap<mlir::Value, BodyValues>;
struct BodyColumns {
  BodyMemo values;
  llvm::SmallVector<BodyMemo> groups; ///< by member, of unrolled groups
};

template <typename Columns> class RowBody {
public:
  using Value = mlir::Value;
  using Values = BodyValues;
  using Memo = BodyMemo;

  /// Vectors of `lanes` columns. Where `contract` holds, multiplications and additions may become
  /// one operation: the code is the same for every row, so results stay the same too.
  RowBody(mlir::ImplicitLocOpBuilder &b, int64_t lanes, bool contract)
      : b(b), lanes(lanes), contract(contract) {}
  virtual ~RowBody() = default;

protected:
  /// One row of a group: a known member, or a loop's.
  struct Member {
    int64_t known = -1;
    Value index;
    Memo *memo = nullptr;
  };

  // What a target brings.
  /// How many vectors `columns` are.
  virtual size_t countOf(const Columns &columns) const = 0;
  /// First column (index) of a vector, moved by `shift` (the member's first column in a folded
  /// row), which may be null.
  virtual Value columnOf(Columns &columns, size_t vector, Value shift) = 0;
  /// A row argument.
  virtual Values argumentValues(unsigned argument, Columns &columns) = 0;
  /// A group argument's member.
  virtual Values argumentValues(unsigned argument, Columns &columns, Member &member) = 0;
  /// A row that an earlier loop has kept; empty where none has.
  virtual Values keptValues(Value, Columns &) { return {}; }
  virtual Values uniform(dispatch::RandomOp random, Columns &columns, Value shift) = 0;
  /// The rows of `group` as `op` combines them; of a null op, their sum.
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

  /// Runs over known members; the memo of each lives as long as the columns.
  void forEachMember(int64_t group, Columns &columns, llvm::function_ref<void(Member &)> body) {
    if (int64_t(columns.groups.size()) < group) {
      columns.groups.resize(group);
    }
    for (int64_t i = 0; i < group; ++i) {
      Member member{i, mlir::arith::ConstantIndexOp::create(b, i), &columns.groups[i]};
      body(member);
    }
  }

  /// Makes the rows that `group` spreads, before a loop over its members or a branch around their
  /// stores would make them for itself.
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

  /// Row ops without row operands; `shift` as in `columnOf`.
  Values leaf(mlir::Operation *operation, Columns &columns, Value shift) {
    mlir::VectorType type = vectorOf(operation->getResult(0).getType());
    size_t count = countOf(columns);
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
          mlir::arith::IndexCastOp::create(b, b.getI32Type(), columnOf(columns, i, shift));
      Value all = mlir::vector::BroadcastOp::create(b, type, first);
      results.push_back(mlir::arith::AddIOp::create(b, all, steps));
    }
    return results;
  }

  /// A vector of the element type of `type`.
  mlir::VectorType vectorOf(mlir::Type type) const {
    return mlir::VectorType::get({lanes}, mlir::getElementTypeOrSelf(type));
  }
  Value known(Value scalar) const { return scalars.lookup(scalar); }

  mlir::ImplicitLocOpBuilder &b;
  const int64_t lanes;
  llvm::DenseMap<Value, Value> scalars; ///< of this row: by body value

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
    return applied(operation, countOf(columns),
                   [&](Value operand) { return rowValues(operand, columns); });
  }

  Values makeMemberValues(Value value, Columns &columns, Member &member) {
    if (auto argument = mlir::dyn_cast<mlir::BlockArgument>(value)) {
      return argumentValues(argument.getArgNumber(), columns, member);
    }
    mlir::Operation *operation = value.getDefiningOp();
    if (isLeaf(operation)) {
      Value width = mlir::arith::ConstantIndexOp::create(b, widthOf(value));
      return leaf(operation, columns, mlir::arith::MulIOp::create(b, member.index, width));
    }
    if (auto spread = mlir::dyn_cast<dispatch::SpreadOp>(operation)) {
      return rowValues(spread.getRow(), columns);
    }
    return applied(operation, countOf(columns),
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

  /// The elementwise op on vectors. Scalar operands (a select's condition) stay scalars.
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
      copy->getResult(0).setType(vectorOf(operation->getResult(0).getType()));
      allowContraction(copy);
      b.insert(copy);
      results.push_back(copy->getResult(0));
    }
    return results;
  }

  const bool contract;
};

} // namespace sluice::target
