// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Frame of a kernel: its function with the kernel ABI and typed views of its buffers
// (docs/plan-and-artifact.md).
#pragma once

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "sluice/Target/CPU/Kernel.h"
#include "sluice/Target/Common/Abi.h"

namespace sluice::cpu {

using namespace target;

class Frame;

/// Number of valid rows of each sequence. Usually the same for the whole batch, and then computed
/// once by the constructor; on an axis of segments it is computed per row of the batch.
class Lengths {
public:
  Lengths() = default;
  mlir::Value of(mlir::Value batch) const; ///< index
  mlir::Value ofAll() const;               ///< index; for a domain without an axis

private:
  friend class Frame;
  Frame *frame = nullptr;
  int64_t factor = 0;
  mlir::Value all; ///< null if each row of the batch has its own
};

/// Builds the function of a kernel, `void name(arena, arguments, item, scratch)`, and typed views
/// of its memory. The insertion point is inside the body; `finish` adds the return.
class Frame {
public:
  Frame(mlir::Operation *dispatch, mlir::ModuleOp module, llvm::StringRef name,
        const Target &target);

  mlir::ImplicitLocOpBuilder &builder() { return b; }
  mlir::func::FuncOp function() { return func; }
  const Target &target() const { return target_; }

  /// Returns the memory of operand or result `i` (`getBufferType`). bf16 is viewed as i16, which
  /// loads and stores convert.
  mlir::Value buffer(unsigned i);

  mlir::Value item() { return itemIndex; } ///< index
  /// index: valid tokens of a row of the batch, or its rows on the domain's axis of segments.
  mlir::Value length(mlir::Value batch);
  mlir::Value rows();        ///< index: valid rows of the batch
  mlir::Value step();        ///< i64
  mlir::Value seed();        ///< i64
  mlir::Value firstStream(); ///< i64: added to the ids of random streams
  mlir::Value drawRows();    ///< memory of draw_rows, for emitDrawnRow; may be null
  /// Schedule of row `batch` of the batch for a scheduled dispatch; all of type index.
  struct RowSchedule {
    mlir::Value start, count, length;
  };
  RowSchedule run(mlir::Value batch);
  /// Returns ceil(length / factor), or `positions` if factor is 0.
  Lengths lengths(int64_t factor, int64_t positions);

  /// Allocates part of the thread's scratch, 64-aligned. Every call returns distinct memory.
  mlir::Value scratch(mlir::MemRefType type);
  int64_t scratchBytes() const { return scratchUsed; }

  /// Returns the workspace of the launch from `byte`.
  mlir::Value workspace(mlir::MemRefType type, int64_t byte = 0);

  mlir::Value index(int64_t value); ///< index constant
  void finish();

private:
  mlir::Value argument(int64_t position); ///< i64
  /// Loads a scalar argument. If there is one per row of the batch, loads the one of row `batch`.
  mlir::Value viewScalar(AbiScalar scalar, bool isByRow = false); ///< i64, one or one per row

  mlir::Operation *dispatch_;
  const Target &target_;
  mlir::func::FuncOp func;
  mlir::ImplicitLocOpBuilder b;
  mlir::Value arena, arguments, itemIndex, scratchArena;
  int64_t scratchUsed = 0;
};

/// Returns memref<count x i32>: the counters before the workspace.
mlir::Value getCounters(Frame &frame, int64_t count);

} // namespace sluice::cpu
