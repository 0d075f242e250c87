// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Row kernels: a team of threads a row, vectors of 16 bytes a thread. A body is cut by its
// reductions into stages, as on the CPU; a thread holds its columns of a row in registers from one
// stage to the next where they fit, and passes over the row again where they do not.
#pragma once

#include "../Common/RowBody.h"
#include "Frame.h"

namespace sluice::cuda::rows {

/// How rows and columns are divided among threads; from shapes alone.
struct Plan {
  int64_t vector = 4;     ///< neighbouring columns of one access of a thread
  int64_t team = 32;      ///< threads a row, a power of two; more than a warp: the whole block
  int64_t chunks = 1;     ///< vectors that a thread has in hand at once
  bool whole = true;      ///< a thread has all its columns in hand; else it loops over them
  int64_t slices = 1;     ///< teams among which the columns of a row are divided
  int64_t threads = 0;    ///< a block
  int64_t blocks = 0;     ///< a launch
  int64_t parts = 0;      ///< of `columns` results; 0 where there are none
  int64_t partRows = 0;   ///< rows that one block sums, where there are parts
  int64_t partBlocks = 0; ///< blocks that sum one part
  double bytes = 0;       ///< least moved at full length, the workspace's included

  int64_t teams() const { return threads / team; }        ///< a block
  int64_t step() const { return vector * team * chunks; } ///< columns a team has in hand at once
  int64_t chunksOf(int64_t width) const;                  ///< vectors of a row that a thread takes
  bool staged() const { return parts > 0 && (partBlocks > 1 || !whole); } ///< through the workspace
};

/// Fails with a diagnostic on a dispatch that no row kernel can be.
mlir::FailureOr<Plan> makePlan(dispatch::RowsOp op);

dispatch::YieldOp yieldOf(dispatch::RowsOp op);
bool isShared(dispatch::RowsOp op, unsigned operand); ///< a row that all rows read

/// A row in memory, from its first column on. Columns past the last are read again from the last
/// vector that may be, or not at all.
struct Source {
  mlir::Value memory;           ///< memref<readable x element>
  mlir::Value inside;           ///< i1: else `outside`; null where it always is
  mlir::FloatAttr outside = {}; ///< null: zero
  int64_t width = 0;            ///< columns
  int64_t readable = 0;         ///< elements that are this row's own memory: its padding too
  bool aligned = true;          ///< vectors start at multiples of their size
};

/// Finds rows and elements in memory. A row that does not exist is found within its buffer.
class Addresses {
public:
  Addresses(Frame &frame, dispatch::RowsOp op, const Plan &plan);

  Source operandRow(unsigned i, const Row &at, mlir::Value member, mlir::Value gathered);
  /// Of the body's type; `gathered` is the index (i32) that finds it, null where none does.
  mlir::Value operandElement(unsigned i, const Row &at, mlir::Value gathered);
  /// Positions of a range's rows: first and end (index), within the source; none of a row that is
  /// not valid. An index that is null is the row's own position.
  std::pair<mlir::Value, mlir::Value> range(unsigned i, const Row &at, mlir::Value from,
                                            mlir::Value last);
  /// Position `q` of a range: its row, or its element.
  Source rangeRow(unsigned i, const Row &at, mlir::Value q);
  mlir::Value rangeElement(unsigned i, const Row &at, mlir::Value q);
  /// `part` is the row of a `columns` result; null elsewhere.
  Source resultRow(unsigned i, const Row &at, int64_t width, mlir::Value member,
                   mlir::Value part = nullptr);
  void storeElement(unsigned i, const Row &at, mlir::Value value);
  /// Row `row` of f32 partial sums of `width` columns at `offset` bytes in the workspace.
  Source workspaceRow(mlir::Value offset, mlir::Value row, int64_t width);
  static int64_t workspaceStride(int64_t width) { return (width + 15) / 16 * 16; }

private:
  struct Place {
    mlir::Value row, inside;
    mlir::Value position = {}; ///< in its sequence, wherever that is
  };
  Place operandPlace(unsigned i, const Row &at, mlir::Value member, mlir::Value gathered);
  Place mapped(dispatch::AccessAttr access, int64_t extent, const Row &at, mlir::Value member,
               bool sequence, mlir::Value gathered = {});
  mlir::Value validRows(dispatch::AccessAttr access, int64_t extent, const Row &at);
  mlir::Value toIndex(mlir::Value integer);
  Source sourceAt(unsigned i, Place place, const Row &at, mlir::Value member);
  mlir::Value elements(unsigned tensor);
  mlir::Value view(mlir::Value byteOffset, int64_t size, mlir::Type element);

  Frame &frame;
  dispatch::RowsOp op;
  const Plan &plan;
  mlir::ImplicitLocOpBuilder &b;
  Emitter &e;
  llvm::SmallVector<mlir::Value> offsets;
};

/// Columns that a thread has in hand: vector j starts at column `first[j]`.
struct Columns : BodyColumns {
  int64_t width = 0;
  llvm::SmallVector<mlir::Value> first; ///< index; may lie past the last column where ragged
  llvm::SmallVector<bool> ragged;
};

/// Emits the body for one row.
class TeamRowEmitter : RowBody<Columns> {
public:
  TeamRowEmitter(Frame &frame, dispatch::RowsOp op, const Plan &plan, const Schedule &schedule);

  /// Loads what all rows read alike, at the kernel's start.
  void emitShared();
  /// Row `read`, stored as row `row` where `stores` (null: always) holds. `sums` are the vectors of
  /// the `columns` results so far; the new ones come back. `slice` numbers the part of the columns.
  Values emitRow(const Row &read, const Row &row, mlir::Value stores, mlir::Value slice,
                 mlir::ValueRange sums);
  Values zeroSums();                     ///< where a thread has all its columns in hand
  void storeSums(mlir::ValueRange sums); ///< the block's, in the order of its teams
  void clearSums();                      ///< those in memory, where it has not
  /// What the blocks of part `part` (index) left in the workspace, summed in their order: every
  /// thread of the block takes vectors of each result.
  void emitSumOfParts(const Plan &summed, mlir::Value part);
  mlir::Value thread, teamOfBlock, laneOfTeam; ///< index

private:
  // RowsBody.cpp: values.
  size_t countOf(const Columns &columns) const override { return columns.first.size(); }
  mlir::Value columnOf(Columns &columns, size_t vector, mlir::Value shift) override;
  Values argumentValues(unsigned argument, Columns &columns) override;
  Values argumentValues(unsigned argument, Columns &columns, Member &member) override;
  Values uniform(dispatch::RandomOp random, Columns &columns, mlir::Value shift) override;
  Values reducedGroup(dispatch::ReduceGroupOp op, mlir::Value group, Columns &columns) override;
  mlir::Value uniformElement(dispatch::RandomOp random);
  Source memberRow(unsigned argument, mlir::Value member);

  // RowsRange.cpp: operands that others find.
  void emitElements();
  mlir::Value elementOf(mlir::BlockArgument argument);
  mlir::Value indexOf(int64_t argument); ///< null where there is none
  std::pair<mlir::Value, mlir::Value> rangeOf(unsigned argument);
  mlir::Value rangeElement(unsigned argument);
  Values rangeValues(unsigned argument, Columns &columns);

  // RowsMemory.cpp: vectors of columns in memory.
  Values loadArgument(unsigned argument, const Source &source, Columns &columns);
  mlir::Value load(const Source &source, const Columns &columns, size_t j);
  void store(mlir::Value value, const Source &source, const Columns &columns, size_t j,
             mlir::Value guard);
  mlir::Value mask(const Columns &columns, size_t j);
  mlir::Value zero(mlir::Type type);
  mlir::Value converted(mlir::Value value, mlir::Type element);

  // RowsStage.cpp: stages and stores.
  Source staged(unsigned number, const Source &source);
  Columns columnsFrom(int64_t width, mlir::Value base, int64_t count, bool ragged);
  void emitScalars(int64_t depth);
  void emitScalar(mlir::Operation &operation);
  void emitStage(const RowStage &stage);
  void storeStage(const RowStage &stage, Columns &columns);
  void storeResult(unsigned result, Columns &columns);

  bool takesPlace(llvm::function_ref<bool(mlir::Value)> which);
  void meet(); ///< all threads of a row have read what they will

  // RowsReduce.cpp: statistics.
  Values accumulate(const RowStage &stage, Columns &columns, mlir::ValueRange sums);
  void finishReductions(const RowStage &stage, mlir::ValueRange sums);
  mlir::Value combine(dispatch::ReduceKind kind, mlir::Value left, mlir::Value right);
  mlir::Value acrossWarp(dispatch::ReduceKind kind, mlir::Value value);
  mlir::Value ofLane(mlir::Value value, int64_t distance);

  // RowsSums.cpp: sums over rows.
  void addToSums(unsigned result, Columns &columns);
  Source sumRow(unsigned result);
  void forSums(llvm::function_ref<void(unsigned result, int64_t width)> body);
  void storeSum(unsigned result, int64_t width, mlir::ValueRange sums);

  Frame &frame;
  dispatch::RowsOp op;
  const Plan &plan;
  const Schedule &schedule;
  Emitter &e;
  Addresses addresses;
  Row at, to; ///< rows read and stored
  mlir::Value stores, slice;
  llvm::DenseMap<unsigned, llvm::SmallVector<Source>> bases; ///< of this row: by argument
  llvm::DenseMap<int64_t, Columns> inHand;                   ///< by width, where all columns are
  llvm::DenseMap<unsigned, Values> shared;                   ///< arguments that all rows read alike
  llvm::DenseMap<unsigned, Values> sums;                     ///< by result
  llvm::DenseMap<mlir::Operation *, mlir::Value> slots; ///< memory where warps meet, by reduction
  mlir::Value sumMemory;                                ///< where teams meet
  bool met = false; ///< all threads have, since the last statistics of the row
};

/// What `read` gives where `condition` holds, else zeros: what another row's team may be writing in
/// place is not read.
mlir::Value readWhere(Frame &frame, mlir::Value condition, mlir::Type type,
                      llvm::function_ref<mlir::Value()> read);
/// Whether a row that is not valid is computed, and so must not be read.
bool computesInvalid(dispatch::RowsOp op, const Plan &plan);

/// Byte offsets within the workspace of each result's partial sums; the end last.
llvm::SmallVector<int64_t> sumOffsets(dispatch::RowsOp op, const Plan &plan);

/// A memref of static shared memory in the kernel's module.
mlir::Value sharedMemory(Frame &frame, const llvm::Twine &name, int64_t elements,
                         mlir::Type element);

} // namespace sluice::cuda::rows
