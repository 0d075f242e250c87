// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// Row kernels: one pass over rows with reductions. A body is a graph over the columns of one row,
// which reductions split into stages. A stage is one loop over the columns that recomputes the
// elementwise graph of its results.
#pragma once

#include "../../Common/RowAddress.h"
#include "../../Common/RowBody.h"
#include "sluice/Target/CPU/Frame.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

namespace sluice::cpu {

mlir::FailureOr<Kernel> generateRows(dispatch::RowsOp op, mlir::ModuleOp module,
                                     llvm::StringRef name, const Target &target);
mlir::FailureOr<Kernel> generateScatterRows(dispatch::ScatterRowsOp op, mlir::ModuleOp module,
                                            llvm::StringRef name, const Target &target);
mlir::FailureOr<Kernel> generateSegmentScan(dispatch::SegmentScanOp op, mlir::ModuleOp module,
                                            llvm::StringRef name, const Target &target);

} // namespace sluice::cpu

namespace sluice::cpu::rows {

/// Computes addresses of rows and elements.
class Addresses {
public:
  Addresses(Frame &frame, dispatch::RowsOp op);

  /// Returns the row of operand `i` for group member `member`, from its first column; outside the
  /// source it is zeros, or the value that the access specifies.
  mlir::Value operandRow(unsigned i, const RowPosition &at, mlir::Value member,
                         mlir::Value gathered);
  /// An element; `gathered` is the index (i32) of a gather, else null.
  mlir::Value operandElement(unsigned i, const RowPosition &at, mlir::Value gathered);
  /// Returns begin and end (index) of a range of rows, within the source. A null index is the row's
  /// own position.
  std::pair<mlir::Value, mlir::Value> range(unsigned i, const RowPosition &at, mlir::Value from,
                                            mlir::Value last);
  /// Position `q` of a range: its row, or its element.
  mlir::Value rangeRow(unsigned i, const RowPosition &at, mlir::Value q);
  mlir::Value rangeElement(unsigned i, const RowPosition &at, mlir::Value q);
  /// Returns the weight of position `q` of a range; null without weights. `scalars` has the numbers
  /// of the row itself.
  mlir::Value rangeWeight(unsigned i, const RowPosition &at, mlir::Value q,
                          const BodyScalars &scalars);
  /// Returns the number (i32) by which row `q` of a range is drawn.
  mlir::Value drawNumber(unsigned i, const RowPosition &at, mlir::Value q);
  mlir::Value resultRow(unsigned i, const RowPosition &at);
  void storeElement(unsigned i, const RowPosition &at, mlir::Value value);

private:
  bool mayBeOutside(unsigned i);
  RowPlace rangePlace(unsigned i, const RowPosition &at, mlir::Value q);
  mlir::Value rowView(unsigned tensor, mlir::RankedTensorType type, bool padded, mlir::Value row,
                      mlir::Value column);
  /// Copies the columns of a row that exist into a row that has all columns of the argument.
  mlir::Value padRow(unsigned i, mlir::Value row);
  mlir::Value elements(unsigned tensor, mlir::RankedTensorType type);
  mlir::Value outsideRow(mlir::Type element, mlir::FloatAttr number);

  Frame &frame;
  dispatch::RowsOp op;
  mlir::ImplicitLocOpBuilder &b;
  int64_t widest = 1;
  RowAddressing rows;
  llvm::DenseMap<int64_t, mlir::Value> validLengths;
  /// By type and value; a null value is zero.
  llvm::DenseMap<std::pair<mlir::Type, mlir::Attribute>, mlir::Value> outsideRows;
  llvm::DenseMap<unsigned, mlir::Value> paddedRows; ///< by operand; constant but for its columns
};

/// Adjacent vectors of columns that are computed together.
struct Columns : BodyColumns {
  Columns(mlir::Value first, int64_t count, int64_t tail)
      : first(first), count(count), tail(tail) {}
  mlir::Value first; ///< index
  int64_t count;     ///< vectors
  int64_t tail;      ///< columns of the last vector; 0 if it is full
};

using Values = BodyValues;

/// Emits the body for one row: its state, and the values that `RowBody` needs.
struct VectorRowEmitter : RowBody<Columns> {
  VectorRowEmitter(Frame &frame, dispatch::RowsOp op, const Schedule &schedule);

  size_t getColumnVectorCount(const Columns &columns) const override {
    return size_t(columns.count);
  }
  mlir::Value getColumnValue(Columns &columns, size_t vector, mlir::Value shift) override;
  Values argumentValues(unsigned argument, Columns &columns) override;
  Values argumentValues(unsigned argument, Columns &columns, Member &member) override;
  Values keptValues(mlir::Value value, Columns &columns) override;
  Values uniform(dispatch::RandomOp random, Columns &columns, mlir::Value shift) override;
  Values reducedGroup(dispatch::ReduceGroupOp op, mlir::Value group, Columns &columns) override;

  Frame &frame;
  dispatch::RowsOp op;
  const Schedule &schedule;
  Addresses addresses;
  unsigned current = 0; ///< current stage
  RowPosition at;
  mlir::Value step, seed, firstStream;           ///< i64, if the body draws random numbers
  mlir::Value drawRows;                          ///< memory, for emitDrawnRow
  llvm::DenseMap<unsigned, Values> bases;        ///< rows of memory by argument, for unrolled
                                                 ///< members
  llvm::DenseMap<mlir::Value, mlir::Value> kept; ///< scratch rows
  llvm::DenseMap<unsigned, mlir::Value> sumRows; ///< scratch rows of `columns` results
};

void emitRow(VectorRowEmitter &emitter, const RowPosition &position);   ///< a valid row
void emitZeros(VectorRowEmitter &emitter, const RowPosition &position); ///< for an invalid row
void clearSums(VectorRowEmitter &emitter); ///< called at the start of an item
void storeSums(VectorRowEmitter &emitter); ///< called at the end of an item

/// Loads an element of the body; gathers it, or reduces it over a range, as the access specifies.
mlir::Value loadBodyElement(VectorRowEmitter &emitter, mlir::BlockArgument argument);
/// Reduces the rows of a range.
Values reduceRange(VectorRowEmitter &emitter, unsigned argument, Columns &columns);
/// Returns the row of a group argument that a member reads.
mlir::Value getMemberRow(VectorRowEmitter &emitter, unsigned argument, mlir::Value member);
/// Stores tensor<k x d> as one row of k d columns.
void storeGroup(VectorRowEmitter &emitter, unsigned result, mlir::Value value, Columns &columns);

/// Returns the mask of the lanes of a vector that are columns; null if all are.
mlir::Value computeMask(VectorRowEmitter &emitter, const Columns &columns, int64_t vector);
/// Loads or stores all columns. Memory with padded rows (scratch) is accessed in whole vectors.
Values loadAll(VectorRowEmitter &emitter, mlir::Value memory, Columns &columns, bool padded);
void storeAll(VectorRowEmitter &emitter, mlir::Value memory, Columns &columns,
              mlir::ValueRange values, bool padded, mlir::Value shift = {});
mlir::Value makeZero(VectorRowEmitter &emitter, mlir::Type type);

} // namespace sluice::cpu::rows
