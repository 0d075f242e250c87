// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What both generators share: the kernel's function with views of its buffers, the rows of its
// domain, and bodies evaluated element by element.
#pragma once

#include "sluice/Target/CPU/Emitter.h"
#include "sluice/Target/CUDA/Kernel.h"
#include "llvm/ADT/DenseMap.h"

namespace sluice::cuda {

using Values = llvm::SmallVector<mlir::Value>;

/// A row of the domain. The indices lie within the buffers even where the row does not exist, so
/// that loads need no branch.
struct Row {
  mlir::Value global, batch, position; ///< index
  mlir::Value exists;                  ///< i1: of this launch and within the domain
  mlir::Value valid;                   ///< i1: exists, and within `rows` and `length`
};

/// The function of a kernel. The builder stands inside it.
class Frame {
public:
  /// `threads` a block, a multiple of a warp's.
  Frame(mlir::Operation *dispatch, dispatch::DomainAttr domain, mlir::ModuleOp module,
        llvm::StringRef name, int64_t threads = threadsPerBlock);

  /// Memory of tensor operand or result `i` (operands first), as the CPU's frame sees it.
  mlir::Value buffer(unsigned i);
  mlir::Value
  validLength(int64_t factor,
              int64_t positions); ///< index: ceil(length / factor); positions where factor is 0
  Row row(mlir::Value number);
  /// A kernel of this function alone, without workspace. Bytes are those of every operand and
  /// result once.
  Kernel kernel(int64_t blocks, llvm::StringRef kind, double flops, int64_t sharedBytes = 0);
  mlir::FailureOr<Kernel>
  finish(mlir::FailureOr<Kernel> made); ///< adds the return, or erases the function

  mlir::ImplicitLocOpBuilder b;
  cpu::Emitter e;
  mlir::func::FuncOp function;
  mlir::Value block, warp, lane; ///< index
  mlir::Value length, rows;      ///< index
  mlir::Value step, seed;        ///< i64
  mlir::Value firstStream;       ///< i64: added to the ids of random streams
  const int64_t threads;         ///< a block

  mlir::Value workspace(); ///< index: byte offset of the launch's workspace in the arena
  /// The launch's workspace from `byte` on, as memory of this type.
  mlir::Value workspaceView(mlir::MemRefType type, int64_t byte = 0);

private:
  mlir::Value argument(int64_t position);
  mlir::Value scalar(int64_t which);

  mlir::Operation *dispatch;
  dispatch::DomainAttr domain;
  mlir::Value arena, arguments;
};

/// A body, one thread's elements of each value at a time. A tensor of k rows of d columns is k *
/// ceil(d / 32) values: element j of a row is column lane + 32 j. Everything else is one value. In
/// an epilogue nothing is a tensor.
class Body {
public:
  /// `column` is the epilogue's column (index); null in bodies of rows.
  Body(Frame &frame, mlir::Block &block, const Row &row, mlir::Value column = nullptr);

  void map(mlir::Value value, Values elements) { known[value] = std::move(elements); }
  const Values &get(mlir::Value value) { return known[value]; }
  mlir::LogicalResult
  emit(); ///< all but the terminator; fails with a diagnostic on an op it does not know
  mlir::Value columnOf(int64_t element); ///< index, of element j of a row

  static int64_t elements(mlir::Type type); ///< values a thread holds

private:
  bool hasColumns(mlir::Type type) const; ///< whether columns of a value of this type have numbers
  mlir::LogicalResult emitOp(mlir::Operation *op);
  mlir::LogicalResult emitElementwise(mlir::Operation *op);
  mlir::LogicalResult emitReduce(dispatch::ReduceOp op);
  Values emitSumGroup(dispatch::SumGroupOp op);
  Values emitColumns(mlir::Type type);
  Values emitRandom(dispatch::RandomOp op);

  Frame &frame;
  mlir::Block &block;
  Row row;
  mlir::Value column;
  llvm::DenseMap<mlir::Value, Values> known;
};

/// Parts of d columns that a warp reads one after another.
inline int64_t partsOf(int64_t d) { return (d + threadsPerWarp - 1) / threadsPerWarp; }

} // namespace sluice::cuda
