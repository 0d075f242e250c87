// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Common frame of the generators: the kernel function with views of its buffers, and the rows of
// its domain.
#pragma once

#include "../../Common/RowAddress.h"
#include "sluice/Target/CUDA/Kernel.h"
#include "sluice/Target/Common/Abi.h"
#include "sluice/Target/Common/Emitter.h"
#include "llvm/ADT/DenseMap.h"

namespace sluice::cuda {

using namespace target;

/// A row of the domain. Indices are within the buffers even if the row does not exist, so that
/// loads need no branch.
struct Row : target::RowPosition {
  mlir::Value exists; ///< i1: within this launch and the domain
  mlir::Value valid;  ///< i1: exists, and within `rows` and `length`, or due by the schedule
};

/// Schedule of one row of the batch.
struct RowSchedule {
  mlir::Value start, count, length; ///< index
};

/// Builds the function of a kernel. The insertion point is inside the function.
class Frame {
public:
  /// `threads` per block, a multiple of the warp size.
  Frame(mlir::Operation *dispatch, dispatch::DomainAttr domain, mlir::ModuleOp module,
        llvm::StringRef name, int64_t threads = threadsPerBlock);

  /// Returns the memory of operand or result `i` (`getBufferType`).
  mlir::Value buffer(unsigned i);
  /// Returns an index: ceil(length / factor) of row `batch` of the batch, or `positions` if factor
  /// is 0. `batch` is null if the domain has no axis.
  mlir::Value validLength(int64_t factor, int64_t positions, mlir::Value batch);
  /// Returns an index: number of valid tokens of a row of the batch (index or i32), or of its rows
  /// on the domain's axis of segments. Numbers outside the batch are clamped to the last row.
  mlir::Value computeLength(mlir::Value batch);
  Row row(mlir::Value number);
  /// Returns the schedule of a row of the batch; for scheduled domains.
  RowSchedule run(mlir::Value batch);
  /// Returns the row in the memory of a tensor [B, extent, ...] that holds a row of the domain: row
  /// `row`, or a row of a ring buffer for scheduled domains.
  mlir::Value memoryRow(int64_t extent, const Row &row);
  /// Returns true if `number` is the number of a valid row; for domains with lengths.
  mlir::Value isValid(mlir::Value number);
  /// Returns i32: one past the last valid row of the sequence of row `number` (index), or 0 if this
  /// launch does not include the sequence; for domains with lengths.
  mlir::Value validEnd(mlir::Value number);
  /// Returns a kernel that consists of this function, without workspace. Bytes count every operand
  /// and result once.
  Kernel kernel(int64_t blocks, llvm::StringRef kind, double flops, int64_t sharedBytes = 0);
  mlir::FailureOr<Kernel>
  finish(mlir::FailureOr<Kernel> made); ///< adds the return, or erases the function

  mlir::ImplicitLocOpBuilder b;
  Emitter e;
  mlir::func::FuncOp function;
  mlir::Value block, warp, lane; ///< index
  mlir::Value rows;              ///< index
  mlir::Value step, seed;        ///< i64
  mlir::Value firstStream;       ///< i64: added to the ids of random streams
  mlir::Value drawRows;          ///< memory of draw_rows, for emitDrawnRow; may be null
  const int64_t threads;         ///< per block

  mlir::Value workspace(); ///< index: byte offset of the launch's workspace in the arena
  /// Returns the launch's workspace from `byte`, as memory of this type.
  mlir::Value workspaceView(mlir::MemRefType type, int64_t byte = 0);
  /// Returns a pointer (address space 1) to counter `number` (index) of the kernel.
  mlir::Value counter(mlir::Value number);

private:
  mlir::Value argument(int64_t position);
  mlir::Value scalars(int64_t which, int64_t count); ///< `count` numbers of i64, in memory
  mlir::Value scalar(int64_t which);

  mlir::Operation *dispatch;
  dispatch::DomainAttr domain;
  mlir::Value arena, arguments;
  mlir::Value length;  ///< index; null if each row of the batch has its own length
  mlir::Value lengths; ///< memory of the lengths
};

} // namespace sluice::cuda
