// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// Row kernels: one pass over rows with statistics. A body is a graph over the columns of one row,
// cut by its reductions into stages: a stage is one loop over the columns that recomputes the
// elementwise graph its results need.
#pragma once

#include "sluice/Target/CPU/Kernel.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/DenseSet.h"

namespace sluice::cpu::rows {

/// Groups up to this many rows are unrolled; larger ones are a loop.
constexpr int64_t unrolledGroup = 8;

/// One loop over the columns of the rows of one width.
struct Stage {
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

  llvm::ArrayRef<Stage> stages() const { return stages_; }
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
  llvm::SmallVector<Stage> stages_;
};

/// Width of a row value (tensor<d>) or of a group's rows (tensor<k x d>).
int64_t widthOf(mlir::Value value);
/// Rows of a group value; 0 for a row or a scalar.
int64_t groupOf(mlir::Value value);
bool isRow(mlir::Value value);

/// Neutral element of a reduction (zero, or the least number), of a vector type or a number.
mlir::Value identityOf(mlir::ImplicitLocOpBuilder &b, dispatch::ReduceKind kind, mlir::Type type);
/// What `dispatch.reduce_group` makes of the rows so far and a later one, on both targets.
mlir::Value combineRows(mlir::ImplicitLocOpBuilder &b, dispatch::ReduceKind kind, mlir::Value rows,
                        mlir::Value later);

/// Fills in the kind, the operations and the least bytes of a row kernel.
void estimate(dispatch::RowsOp op, Kernel &kernel);

/// Row of the memory of a tensor [B, extent, ...] that holds `position` of batch row `batch`: of a
/// scheduled domain's, a ring.
mlir::Value sequenceRow(mlir::ImplicitLocOpBuilder &b, dispatch::DomainAttr domain, int64_t extent,
                        mlir::Value batch, mlir::Value position);

/// Whether the rows that an operand of access `row` or `table` (or a group of `flat`) maps to lie
/// within its source for every valid row of the domain. `extent` counts the source's rows.
bool alwaysInside(dispatch::RowsOp op, dispatch::AccessAttr access, int64_t extent);

/// Where the body stands: row r = b * positions + p, or, of a scheduled domain, b * positions + j
/// at position p, in a sequence of `length` tokens.
struct RowPosition {
  mlir::Value row, batch, position;
  mlir::Value length = {};
};

/// Finds rows and elements in memory.
class Addresses {
public:
  Addresses(Frame &frame, dispatch::RowsOp op);

  /// The row that operand `i` has for group member `member`, from its first column on; outside the
  /// source zeros, or the least number.
  mlir::Value operandRow(unsigned i, const RowPosition &at, mlir::Value member,
                         mlir::Value gathered);
  mlir::Value operandElement(unsigned i, const RowPosition &at);
  mlir::Value resultRow(unsigned i, const RowPosition &at);
  void storeElement(unsigned i, const RowPosition &at, mlir::Value value);

private:
  struct Place {
    mlir::Value row;    ///< row of the tensor's memory
    mlir::Value inside; ///< i1; null where every row is inside
  };
  Place operandPlace(unsigned i, const RowPosition &at, mlir::Value member, mlir::Value gathered);
  Place mapped(dispatch::AccessAttr access, int64_t extent, const RowPosition &at,
               mlir::Value member, bool sequence);
  bool mayBeOutside(unsigned i);
  mlir::Value resultIndex(unsigned i, const RowPosition &at);
  mlir::Value byteOffset(unsigned tensor);
  mlir::Value rowView(unsigned tensor, mlir::RankedTensorType type, bool padded, mlir::Value row,
                      mlir::Value column);
  mlir::Value elements(unsigned tensor, mlir::RankedTensorType type);
  mlir::Value outsideRow(mlir::Type element, bool least);

  Frame &frame;
  dispatch::RowsOp op;
  mlir::ImplicitLocOpBuilder &b;
  int64_t widest = 1;
  llvm::DenseMap<unsigned, mlir::Value> offsets;
  llvm::DenseMap<int64_t, mlir::Value> validLengths;
  /// By type and whether they are of the least number, not of zeros.
  llvm::DenseMap<std::pair<mlir::Type, unsigned>, mlir::Value> outsideRows;
};

/// Emits the body for one row.
class Emitter {
public:
  Emitter(Frame &frame, dispatch::RowsOp op, const Schedule &schedule);

  void emitRow(const RowPosition &at);   ///< a valid row
  void emitZeros(const RowPosition &at); ///< zeros for a row that is not
  void clearSums();                      ///< at the item's start
  void storeSums();                      ///< at the item's end

private:
  using Values = llvm::SmallVector<mlir::Value>;
  using Memo = llvm::DenseMap<mlir::Value, Values>;
  /// Neighbouring vectors of columns that are computed together.
  struct Columns {
    Columns(mlir::Value first, int64_t count, int64_t tail)
        : first(first), count(count), tail(tail) {}
    mlir::Value first; ///< index
    int64_t count;     ///< vectors
    int64_t tail;      ///< columns of the last one; 0 where it is full
    Memo values;
    llvm::SmallVector<Memo> groups; ///< by member, of unrolled groups
  };
  /// One row of a group: a known member, or a loop's.
  struct Member {
    int64_t known = -1;
    mlir::Value index;
    Memo *memo = nullptr;
  };

  void emitScalars(int64_t depth);
  void emitStage(unsigned number);
  int64_t vectorsTogether(const Stage &stage) const;
  Values emitColumns(const Stage &stage, Columns &columns, mlir::ValueRange sums);
  void storeResults(const Stage &stage, Columns &columns);
  void storeGroup(unsigned result, mlir::Value value, Columns &columns);
  mlir::Value finishReduction(dispatch::ReduceOp reduce, mlir::ValueRange sums);
  mlir::Value combine(dispatch::ReduceOp reduce, mlir::Value left, mlir::Value right);

  Values rowValues(mlir::Value value, Columns &columns);
  Values makeRowValues(mlir::Value value, Columns &columns);
  Values memberValues(mlir::Value value, Columns &columns, Member &member);
  Values makeMemberValues(mlir::Value value, Columns &columns, Member &member);
  Values reducedGroup(dispatch::ReduceKind kind, mlir::Value group, Columns &columns);
  void prepareSpreads(mlir::Value group, Columns &columns);
  Values applied(mlir::Operation *operation, int64_t count,
                 llvm::function_ref<Values(mlir::Value)> operand);
  Values leaf(mlir::Operation *operation, Columns &columns, mlir::Value shift);
  Values uniform(dispatch::RandomOp random, Columns &columns, mlir::Value shift);
  void forEachMember(int64_t group, Columns &columns, llvm::function_ref<void(Member &)> body);

  mlir::Value column(Columns &columns, int64_t vector, mlir::Value shift = {});
  mlir::Value mask(const Columns &columns, int64_t vector);
  Values loadAll(mlir::Value memory, Columns &columns, bool padded);
  void storeAll(mlir::Value memory, Columns &columns, mlir::ValueRange values, bool padded,
                mlir::Value shift = {});
  mlir::VectorType vectorOf(mlir::Type element) const;
  mlir::Value memberRow(unsigned argument, mlir::Value member);
  mlir::Value known(mlir::Value scalar) { return scalars.lookup(scalar); }
  mlir::Value zero(mlir::Type type);

  Frame &frame;
  dispatch::RowsOp op;
  const Schedule &schedule;
  mlir::ImplicitLocOpBuilder &b;
  Addresses addresses;
  int64_t lanes;
  unsigned current = 0; ///< stage
  RowPosition at;
  mlir::Value step, seed, firstStream;              ///< i64, where the body draws random numbers
  llvm::DenseMap<mlir::Value, mlir::Value> scalars; ///< of this row: by body value
  llvm::DenseMap<unsigned, Values> bases;           ///< of this row: by argument, unrolled members
  llvm::DenseMap<mlir::Value, mlir::Value> kept;    ///< scratch rows
  llvm::DenseMap<unsigned, mlir::Value> sumRows;    ///< scratch rows of `columns` results
};

} // namespace sluice::cpu::rows
