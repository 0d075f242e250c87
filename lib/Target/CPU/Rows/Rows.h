// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// Row kernels: one pass over rows with reductions. A body is a graph over the columns of one row,
// which reductions split into stages. A stage is one loop over the columns that recomputes the
// elementwise graph of its results.
#pragma once

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

/// Current row of the body: row r = b * positions + p or, in a scheduled domain, b * positions + j
/// at position p, in a sequence of `length` tokens. On an axis of segments `length` is the number
/// of rows of b there; null if one length holds for every b.
struct RowPosition {
  mlir::Value row, batch, position;
  mlir::Value length = {};
};

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
  mlir::Value resultRow(unsigned i, const RowPosition &at);
  void storeElement(unsigned i, const RowPosition &at, mlir::Value value);

private:
  struct VectorRowPlace {
    mlir::Value row;           ///< row of the tensor's memory
    mlir::Value inside;        ///< i1; null if every row is inside
    mlir::Value position = {}; ///< position in the sequence
  };
  VectorRowPlace operandPlace(unsigned i, const RowPosition &at, mlir::Value member,
                              mlir::Value gathered);
  VectorRowPlace mapped(dispatch::AccessAttr access, int64_t extent, const RowPosition &at,
                        mlir::Value member, bool sequence, mlir::Value gathered = {});
  mlir::Value validRows(dispatch::AccessAttr access, int64_t extent, const RowPosition &at);
  bool mayBeOutside(unsigned i);
  mlir::Value resultIndex(unsigned i, const RowPosition &at);
  mlir::Value byteOffset(unsigned tensor);
  mlir::Value rowView(unsigned tensor, mlir::RankedTensorType type, bool padded, mlir::Value row,
                      mlir::Value column);
  mlir::Value elements(unsigned tensor, mlir::RankedTensorType type);
  mlir::Value outsideRow(mlir::Type element, mlir::FloatAttr number);

  Frame &frame;
  dispatch::RowsOp op;
  mlir::ImplicitLocOpBuilder &b;
  int64_t widest = 1;
  llvm::DenseMap<unsigned, mlir::Value> offsets;
  llvm::DenseMap<int64_t, mlir::Value> validLengths;
  /// By type and value; a null value is zero.
  llvm::DenseMap<std::pair<mlir::Type, mlir::Attribute>, mlir::Value> outsideRows;
};

/// Adjacent vectors of columns that are computed together.
struct Columns : BodyColumns {
  Columns(mlir::Value first, int64_t count, int64_t tail)
      : first(first), count(count), tail(tail) {}
  mlir::Value first; ///< index
  int64_t count;     ///< vectors
  int64_t tail;      ///< columns of the last vector; 0 if it is full
};

/// Emits the body for one row.
class VectorRowEmitter : RowBody<Columns> {
public:
  VectorRowEmitter(Frame &frame, dispatch::RowsOp op, const Schedule &schedule);

  void emitRow(const RowPosition &at);   ///< a valid row
  void emitZeros(const RowPosition &at); ///< zeros for an invalid row
  void clearSums();                      ///< called at the start of an item
  void storeSums();                      ///< called at the end of an item

private:
  void emitElements();
  mlir::Value getElementIndex(mlir::BlockArgument argument);
  mlir::Value getRowIndex(int64_t argument); ///< null if there is none
  std::pair<mlir::Value, mlir::Value> computeRange(unsigned argument);
  mlir::Value rangeElement(unsigned argument);
  Values rangeValues(unsigned argument, Columns &columns);
  void emitScalars(int64_t depth);
  void emitStage(unsigned number);
  int64_t vectorsTogether(const RowStage &stage) const;
  Values emitColumns(const RowStage &stage, Columns &columns, mlir::ValueRange sums);
  void storeResults(const RowStage &stage, Columns &columns);
  void storeGroup(unsigned result, mlir::Value value, Columns &columns);
  mlir::Value finishReduction(dispatch::ReduceOp reduce, mlir::ValueRange sums);
  mlir::Value combine(dispatch::ReduceOp reduce, mlir::Value left, mlir::Value right);

  size_t getColumnVectorCount(const Columns &columns) const override {
    return size_t(columns.count);
  }
  mlir::Value getColumnValue(Columns &columns, size_t vector, mlir::Value shift) override;
  Values argumentValues(unsigned argument, Columns &columns) override;
  Values argumentValues(unsigned argument, Columns &columns, Member &member) override;
  Values keptValues(mlir::Value value, Columns &columns) override;
  Values uniform(dispatch::RandomOp random, Columns &columns, mlir::Value shift) override;
  Values reducedGroup(dispatch::ReduceGroupOp op, mlir::Value group, Columns &columns) override;

  mlir::Value mask(const Columns &columns, int64_t vector);
  Values loadAll(mlir::Value memory, Columns &columns, bool padded);
  void storeAll(mlir::Value memory, Columns &columns, mlir::ValueRange values, bool padded,
                mlir::Value shift = {});
  mlir::Value memberRow(unsigned argument, mlir::Value member);
  mlir::Value zero(mlir::Type type);

  Frame &frame;
  dispatch::RowsOp op;
  const Schedule &schedule;
  Addresses addresses;
  unsigned current = 0; ///< current stage
  RowPosition at;
  mlir::Value step, seed, firstStream;           ///< i64, if the body draws random numbers
  mlir::Value firstRow;                          ///< index, for emitDrawnRow
  llvm::DenseMap<unsigned, Values> bases;        ///< rows of memory by argument, for unrolled
                                                 ///< members
  llvm::DenseMap<mlir::Value, mlir::Value> kept; ///< scratch rows
  llvm::DenseMap<unsigned, mlir::Value> sumRows; ///< scratch rows of `columns` results
};

} // namespace sluice::cpu::rows
