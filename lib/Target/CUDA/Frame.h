// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What both generators share: the kernel's function with views of its buffers, and the rows of
// its domain.
#pragma once

#include "sluice/Target/CUDA/Kernel.h"
#include "sluice/Target/Common/Abi.h"
#include "sluice/Target/Common/Emitter.h"
#include "llvm/ADT/DenseMap.h"

namespace sluice::cuda {

using namespace target;

using Values = llvm::SmallVector<mlir::Value>;

/// A row of the domain. The indices lie within the buffers even where the row does not exist, so
/// that loads need no branch.
struct Row {
  mlir::Value global, batch, position; ///< index
  mlir::Value exists;                  ///< i1: of this launch and within the domain
  mlir::Value valid;  ///< i1: exists, and within `rows` and `length`, or due by the schedule
  mlir::Value length; ///< index: tokens of its sequence, or its rows on the domain's axis
};

/// What a schedule says of one row of the batch.
struct Run {
  mlir::Value start, count, length; ///< index
};

/// The function of a kernel. The builder stands inside it.
class Frame {
public:
  /// `threads` a block, a multiple of a warp's.
  Frame(mlir::Operation *dispatch, dispatch::DomainAttr domain, mlir::ModuleOp module,
        llvm::StringRef name, int64_t threads = threadsPerBlock);

  /// Memory of tensor operand or result `i` (operands first), as the CPU's frame sees it.
  mlir::Value buffer(unsigned i);
  /// index: ceil(length / factor) of row `batch` of the batch, which is null where the domain has
  /// no axis; `positions` where factor is 0.
  mlir::Value validLength(int64_t factor, int64_t positions, mlir::Value batch);
  /// index: valid tokens of a row of the batch (index or i32), or its rows on the domain's axis of
  /// segments. A number that is none of the batch's has the last one's.
  mlir::Value lengthOf(mlir::Value batch);
  Row row(mlir::Value number);
  /// Of a scheduled domain.
  Run run(mlir::Value batch);
  /// Row of the memory of a tensor [B, extent, ...] that holds a row of the domain: row `global`,
  /// or, of a scheduled domain, a ring's.
  mlir::Value memoryRow(int64_t extent, const Row &row);
  /// Whether any number is that of a valid row; of a domain with lengths.
  mlir::Value isValid(mlir::Value number);
  /// i32: one past the last valid row of the sequence of row `number` (index); 0 where the sequence
  /// is none of this launch's. Of a domain with lengths.
  mlir::Value validEnd(mlir::Value number);
  /// A kernel of this function alone, without workspace. Bytes are those of every operand and
  /// result once.
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
  mlir::Value firstRow;          ///< index: for emitDrawnRow
  const int64_t threads;         ///< a block

  mlir::Value workspace(); ///< index: byte offset of the launch's workspace in the arena
  /// The launch's workspace from `byte` on, as memory of this type.
  mlir::Value workspaceView(mlir::MemRefType type, int64_t byte = 0);
  /// Pointer (address space 1) to counter `number` (index) of the kernel's.
  mlir::Value counter(mlir::Value number);

private:
  mlir::Value argument(int64_t position);
  mlir::Value scalars(int64_t which, int64_t count); ///< as many numbers of i64, in memory
  mlir::Value scalar(int64_t which);

  mlir::Operation *dispatch;
  dispatch::DomainAttr domain;
  mlir::Value arena, arguments;
  mlir::Value length;  ///< index; null where each row of the batch has its own
  mlir::Value lengths; ///< memory of these
};

} // namespace sluice::cuda
