// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Row kernels: a team of threads per row, 16-byte vectors per thread. Reductions split a body into
// stages, as on the CPU. A thread keeps its columns of a row in registers across stages if they
// fit, and reloads the row otherwise.
#pragma once

#include "../../Common/RowBody.h"
#include "../Frame/Frame.h"

namespace sluice::cuda {

/// Operands and results are stored as f32, bf16 or integers; the body computes in f32. Any width
/// and group size. If several blocks sum over rows (access `columns`), the last block adds all
/// partial sums.
mlir::FailureOr<Kernel> generateRows(dispatch::RowsOp op, mlir::ModuleOp module,
                                     llvm::StringRef name);

/// Values and table are f32 or bf16. Sums are f32 and in row order: bit for bit the op's
/// definition.
mlir::FailureOr<Kernel> generateScatterRows(dispatch::ScatterRowsOp op, mlir::ModuleOp module,
                                            llvm::StringRef name);
mlir::FailureOr<Kernel> generateSegmentScan(dispatch::SegmentScanOp op, mlir::ModuleOp module,
                                            llvm::StringRef name);

} // namespace sluice::cuda

namespace sluice::cuda::rows {

/// Distribution of rows and columns over threads. Depends on shapes only.
struct Plan {
  int64_t vector = 4; ///< adjacent columns in one access of a thread
  int64_t team = 32;  ///< threads per row: a power of two up to a warp, or the whole block
  int64_t chunks = 1; ///< vectors that a thread has in registers at once
  bool whole = true;  ///< a thread has all its columns in registers; else it loops over them
  int64_t columnRegisters = 0; ///< of a thread, for columns that it holds at once
  int64_t slices = 1;          ///< teams among which the columns of a row are divided
  int64_t threads = 0;         ///< per block
  int64_t blocks = 0;          ///< per launch
  int64_t parts = 0;      ///< partial sums of `columns` results; 0 if there are no such results
  int64_t partRows = 0;   ///< rows that one block sums, if there are parts
  int64_t partBlocks = 0; ///< blocks that sum one part
  double bytes = 0;       ///< lower bound on bytes moved at full length, including the workspace

  int64_t teams() const { return threads / team; }        ///< per block
  int64_t step() const { return vector * team * chunks; } ///< columns in registers per team
  int64_t countChunks(int64_t width) const;               ///< vectors of a row per thread
  bool staged() const { return parts > 0 && (partBlocks > 1 || !whole); } ///< uses the workspace
};

/// Fails with a diagnostic if no row kernel supports the dispatch.
mlir::FailureOr<Plan> makePlan(dispatch::RowsOp op);

bool isShared(dispatch::RowsOp op, unsigned operand); ///< all rows read the same row of the operand

/// A row in memory, from its first column. Reads past the last column repeat the last readable
/// vector or are skipped.
struct Source {
  mlir::Value memory;           ///< memref<readable x element>
  mlir::Value inside;           ///< i1: else the value is `outside`; null if always inside
  mlir::FloatAttr outside = {}; ///< null: zero
  int64_t width = 0;            ///< columns
  int64_t readable = 0;         ///< elements of memory that belong to this row, including padding
  bool aligned = true;          ///< vectors start at multiples of their size
  int64_t first = 0;            ///< column of memory that has column 0
  int64_t columns = 0; ///< columns of memory, of which some are outside; 0 if all are inside
};

/// Computes addresses of rows and elements. A row that does not exist gets an address in its
/// buffer.
class Addresses {
public:
  Addresses(Frame &frame, dispatch::RowsOp op, const Plan &plan);

  Source operandRow(unsigned i, const Row &at, mlir::Value member, mlir::Value gathered);
  /// Loads an element in the type of the body; `gathered` is the index (i32) of a gather, else
  /// null.
  mlir::Value operandElement(unsigned i, const Row &at, mlir::Value gathered);
  /// Returns begin and end (index) of a range of rows, within the source; empty for an invalid row.
  /// A null index is the row's own position.
  std::pair<mlir::Value, mlir::Value> range(unsigned i, const Row &at, mlir::Value from,
                                            mlir::Value last);
  /// Position `q` of a range: its row, or its element.
  Source rangeRow(unsigned i, const Row &at, mlir::Value q);
  mlir::Value rangeElement(unsigned i, const Row &at, mlir::Value q);
  /// Returns the weight of position `q` of a range; null without weights. `scalars` has the numbers
  /// of the row itself.
  mlir::Value rangeWeight(unsigned i, const Row &at, mlir::Value q, const BodyScalars &scalars);
  /// Returns the number (i32) by which row `q` of a range is drawn.
  mlir::Value drawNumber(unsigned i, const Row &at, mlir::Value q);
  /// `part` is the row of a `columns` result; null for other results.
  Source resultRow(unsigned i, const Row &at, int64_t width, mlir::Value member,
                   mlir::Value part = nullptr);
  void storeElement(unsigned i, const Row &at, mlir::Value value);
  /// Row `row` of f32 partial sums of `width` columns at `offset` bytes in the workspace.
  Source workspaceRow(mlir::Value offset, mlir::Value row, int64_t width);
  static int64_t workspaceStride(int64_t width) { return (width + 15) / 16 * 16; }

private:
  RowPlace rangePlace(unsigned i, const Row &at, mlir::Value q);
  Source sourceAt(unsigned i, RowPlace place, const Row &at, mlir::Value member);
  mlir::Value elements(unsigned tensor);
  mlir::Value view(mlir::Value byteOffset, int64_t size, mlir::Type element);

  Frame &frame;
  dispatch::RowsOp op;
  const Plan &plan;
  mlir::ImplicitLocOpBuilder &b;
  Emitter &e;
  RowAddressing rows;
};

/// Columns that a thread has in registers: vector j starts at column `first[j]`.
struct Columns : BodyColumns {
  int64_t width = 0;
  llvm::SmallVector<mlir::Value> first; ///< index; may be past the last column if ragged
  llvm::SmallVector<bool> ragged;
};

/// Emits the body for one row: its state, and the values that `RowBody` needs.
struct TeamRowEmitter : RowBody<Columns> {
  TeamRowEmitter(Frame &frame, dispatch::RowsOp op, const Plan &plan, const Schedule &schedule);

  size_t getColumnVectorCount(const Columns &columns) const override {
    return columns.first.size();
  }
  mlir::Value getColumnValue(Columns &columns, size_t vector, mlir::Value shift) override;
  Values argumentValues(unsigned argument, Columns &columns) override;
  Values argumentValues(unsigned argument, Columns &columns, Member &member) override;
  Values uniform(dispatch::RandomOp random, Columns &columns, mlir::Value shift) override;
  Values reducedGroup(dispatch::ReduceGroupOp op, mlir::Value group, Columns &columns) override;

  mlir::Value thread, teamOfBlock, laneOfTeam; ///< index
  Frame &frame;
  dispatch::RowsOp op;
  const Plan &plan;
  const Schedule &schedule;
  Emitter &e;
  Addresses addresses;
  Row at, to; ///< row to read and row to store
  mlir::Value stores, slice;
  llvm::DenseMap<unsigned, llvm::SmallVector<Source>> bases; ///< sources of this row, by argument
  llvm::DenseMap<int64_t, Columns> inHand;                   ///< by width, if all columns are in
                                                             ///< registers
  llvm::DenseMap<unsigned, Values> shared;                   ///< arguments that all rows share
  llvm::DenseMap<unsigned, Values> sums;                     ///< running sums, by result
  llvm::DenseMap<mlir::Operation *, mlir::Value> slots; ///< memory for reductions across warps, by
                                                        ///< reduction
  mlir::Value sumMemory;                                ///< memory for sums across teams
  bool met = false; ///< the threads have synchronized since the last reduction of the row
};

// Stage.cpp: one row.
/// Loads the rows that all rows share, at the start of the kernel.
void emitShared(TeamRowEmitter &emitter);
/// Computes row `read` and stores it as row `row` if `stores` holds (null: always). `carried` are
/// the running vectors of the `columns` results; returns the new ones. `slice` selects columns.
Values emitRow(TeamRowEmitter &emitter, const Row &read, const Row &row, mlir::Value stores,
               mlir::Value slice, mlir::ValueRange carried);
/// Returns `count` vectors from column `base` (null: 0).
Columns makeColumns(TeamRowEmitter &emitter, int64_t width, mlir::Value base, int64_t count,
                    bool ragged);

// Sums.cpp: sums over rows.
Values makeZeroSums(TeamRowEmitter &emitter); ///< if a thread has all its columns in registers
/// Stores the sums of the block, in the order of its teams.
void storeSums(TeamRowEmitter &emitter, mlir::ValueRange sums);
/// Clears sums in memory, if a thread does not have all its columns in registers.
void clearSums(TeamRowEmitter &emitter);
void addToSums(TeamRowEmitter &emitter, unsigned result, Columns &columns);
/// Sums the results that the blocks of part `part` (index) stored in the workspace, in block
/// order. The vectors of each result are distributed over the threads of the block.
void emitSumOfParts(TeamRowEmitter &emitter, const Plan &summed, mlir::Value part);

// Reduce.cpp: reductions over columns.
Values accumulate(TeamRowEmitter &emitter, const RowStage &stage, Columns &columns,
                  mlir::ValueRange carried);
void finishReductions(TeamRowEmitter &emitter, const RowStage &stage, mlir::ValueRange carried);

// Body.cpp and Range.cpp: arguments.
mlir::Value drawElement(TeamRowEmitter &emitter, dispatch::RandomOp random);
/// Returns the row of a group argument that a member reads.
Source getMemberRow(TeamRowEmitter &emitter, unsigned argument, mlir::Value member);
/// Loads an element of the body; gathers it, or reduces it over a range, as the access specifies.
mlir::Value loadBodyElement(TeamRowEmitter &emitter, mlir::BlockArgument argument);
/// Reduces the rows of a range.
Values reduceRange(TeamRowEmitter &emitter, unsigned argument, Columns &columns);

// Memory.cpp: vectors of columns in memory.
Values loadArgument(TeamRowEmitter &emitter, unsigned argument, const Source &source,
                    Columns &columns);
mlir::Value load(TeamRowEmitter &emitter, const Source &source, const Columns &columns, size_t j);
void store(TeamRowEmitter &emitter, mlir::Value value, const Source &source, const Columns &columns,
           size_t j, mlir::Value guard);
/// Returns the mask of vector `j`; null if all of it are columns.
mlir::Value computeMask(TeamRowEmitter &emitter, const Columns &columns, size_t j);
mlir::Value makeZero(TeamRowEmitter &emitter, mlir::Type type);
mlir::Value convertElements(TeamRowEmitter &emitter, mlir::Value value, mlir::Type element);
/// Synchronizes the threads of a row after their last reads.
void synchronizeTeam(TeamRowEmitter &emitter);

/// Returns the result of `read` if `condition` holds, else zeros. Avoids reads of memory that the
/// team of another row may be writing in place.
mlir::Value readWhere(Frame &frame, mlir::Value condition, mlir::Type type,
                      llvm::function_ref<mlir::Value()> read);
/// True if an invalid row is computed; its operands must then not be read.
bool computesInvalid(dispatch::RowsOp op, const Plan &plan);

/// Returns the byte offset in the workspace of each result's partial sums, and the end.
llvm::SmallVector<int64_t> sumOffsets(dispatch::RowsOp op, const Plan &plan);

/// Returns a memref of static shared memory in the kernel's module.
mlir::Value sharedMemory(Frame &frame, const llvm::Twine &name, int64_t elements,
                         mlir::Type element);
/// Returns a pointer to shared memory (address space 3).
mlir::Value pointerTo(Frame &frame, mlir::Value memory);

} // namespace sluice::cuda::rows
