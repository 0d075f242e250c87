// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What every CPU kernel generator shares: the instruction set it generates for, and the kernel's
// frame, that is the function of the kernel ABI with typed views of its buffers
// (docs/plan-and-artifact.md).
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "sluice/Dialect/Dispatch/Dispatch.h"
#include "sluice/Target/Cache/KernelCache.h"
#include "sluice/Target/Common/Abi.h"

namespace sluice::cpu {

using namespace target;

/// An instruction set and the sizes that schedules depend on.
struct Target {
  llvm::StringRef name;     ///< as the plan names it: cpu-avx512, cpu-avx2
  llvm::StringRef cpu;      ///< LLVM's -mcpu
  llvm::StringRef features; ///< LLVM's -mattr
  int64_t lanes;            ///< f32 elements a vector
  int64_t registers;        ///< vector registers
  int64_t l1Bytes;          ///< data cache a core, first level
  int64_t l2Bytes;          ///< data cache a core, second level

  static const Target &avx512();
  static const Target &avx2();
};

/// Parts of a sum over rows at most, each of which a thread takes; a second launch adds them. It
/// does not depend on the machine's threads, as the order of a sum must not.
constexpr int64_t mostSumParts = 32;

/// A generated kernel. Results depend neither on the items' order nor on threads; the number of
/// items depends on shapes alone.
struct Kernel {
  mlir::func::FuncOp function;
  int64_t items = 0;
  int64_t scratchBytes = 0;
  llvm::StringRef kind;       ///< matmul, attention, row, stream
  double flops = 0;           ///< at full length, causal work counted once
  double bytes = 0;           ///< least bytes moved at full length
  int64_t workspaceBytes = 0; ///< memory that the items of a launch share, contents undefined
  /// i32 right in front of the workspace, zero before and after each launch: where items that share
  /// a sum count themselves.
  int64_t counters = 0;
  static constexpr int64_t counterBytes = 4;
};

/// Generators, one a family. Each appends one function called `name` to `module`. They fail with a
/// diagnostic on the op.
mlir::FailureOr<Kernel> generateRows(dispatch::RowsOp op, mlir::ModuleOp module,
                                     llvm::StringRef name, const Target &target);
mlir::FailureOr<Kernel> generateContract(dispatch::ContractOp op, mlir::ModuleOp module,
                                         llvm::StringRef name, const Target &target);
mlir::FailureOr<Kernel> generateWeightGradient(dispatch::WeightGradientOp op, mlir::ModuleOp module,
                                               llvm::StringRef name, const Target &target);
mlir::FailureOr<Kernel> generateAttention(dispatch::AttentionOp op, mlir::ModuleOp module,
                                          llvm::StringRef name, const Target &target);
mlir::FailureOr<Kernel> generateAttentionBackward(dispatch::AttentionBackwardOp op,
                                                  mlir::ModuleOp module, llvm::StringRef name,
                                                  const Target &target);
mlir::FailureOr<Kernel> generateCrossEntropy(dispatch::CrossEntropyOp op, mlir::ModuleOp module,
                                             llvm::StringRef name, const Target &target);
mlir::FailureOr<Kernel>
generateCrossEntropyWeightGradient(dispatch::CrossEntropyWeightGradientOp op, mlir::ModuleOp module,
                                   llvm::StringRef name, const Target &target);
mlir::FailureOr<Kernel> generateScatterRows(dispatch::ScatterRowsOp op, mlir::ModuleOp module,
                                            llvm::StringRef name, const Target &target);

mlir::FailureOr<Kernel> generateSegmentScan(dispatch::SegmentScanOp op, mlir::ModuleOp module,
                                            llvm::StringRef name, const Target &target);

/// Any dispatch op, by its family.
mlir::FailureOr<Kernel> generateKernel(mlir::Operation *op, mlir::ModuleOp module,
                                       llvm::StringRef name, const Target &target);

/// Registers LLVM's code generators, once a process.
void initializeBackend();

/// Lowers a module of kernels (arith, math, scf, memref, vector on the kernel ABI) to native object
/// code of `target`: the functions keep their names. Elementary functions become arithmetic (Math.h
/// says which, for f32 and f64); a reduction of a vector is a tree of halves. Multiplies and adds
/// are fused only where math.fma or vector.fma says so. Fails with a diagnostic, also when a call
/// of a library would remain; `object` is then left alone.
mlir::LogicalResult lowerToObject(mlir::ModuleOp module, const Target &target, std::string &object);

/// A module of kernels and what to lower it for.
struct ObjectRequest {
  mlir::ModuleOp module;
  const Target *target;
};

/// Lowers the kernels of several modules of one context, each to an object of its own, on the
/// context's threads. Objects that `cache` has are read from it, and others are stored there.
/// Appends to `objects` in the order of `requests` and of their kernels; the bytes depend neither
/// on the cache's contents nor on the number of threads. `report`, if any, is called after each
/// kernel that was lowered, with their number so far and in all.
mlir::LogicalResult
lowerToObjects(llvm::ArrayRef<ObjectRequest> requests, std::vector<std::string> &objects,
               KernelCache &cache,
               llvm::function_ref<void(size_t done, size_t count)> report = nullptr);

class Frame;

/// How many rows of a sequence are valid: as many in every row of the batch, found once where this
/// is made; on an axis of segments each row's own, found where it is asked for.
class Lengths {
public:
  Lengths() = default;
  mlir::Value of(mlir::Value batch) const; ///< index
  mlir::Value ofAll() const;               ///< index; of a domain without an axis

private:
  friend class Frame;
  Frame *frame = nullptr;
  int64_t factor = 0;
  mlir::Value all; ///< null where each row has its own
};

/// The frame of a kernel: makes `void name(arena, arguments, item, scratch)` and hands out typed
/// views. The builder stands inside the function's body; `finish` adds the return.
class Frame {
public:
  Frame(mlir::Operation *dispatch, mlir::ModuleOp module, llvm::StringRef name,
        const Target &target);

  mlir::ImplicitLocOpBuilder &builder() { return b; }
  mlir::func::FuncOp function() { return func; }
  const Target &target() const { return target_; }

  /// Memory of tensor operand or result `i` (operands first, then results). Rank 3 [B, T, d] is
  /// seen as memref<B*T x paddedWidth(d)>; ranks 2 and 1 as they are; rank 0 as memref<1>. bf16 is
  /// seen as i16: loads and stores convert.
  mlir::Value buffer(unsigned i);

  mlir::Value item() { return itemIndex; } ///< index
  /// index: valid tokens of a row of the batch, or its rows on the domain's axis of segments.
  mlir::Value length(mlir::Value batch);
  mlir::Value rows();        ///< index: valid rows of the batch
  mlir::Value step();        ///< i64
  mlir::Value seed();        ///< i64
  mlir::Value firstStream(); ///< i64: added to the ids of random streams
  mlir::Value firstRow();    ///< index: for emitDrawnRow
  /// What a scheduled dispatch's schedule says of row `batch` of the batch: all of type index.
  struct Run {
    mlir::Value start, count, length;
  };
  Run run(mlir::Value batch);
  /// ceil(length / factor); `positions` where factor is 0.
  Lengths lengths(int64_t factor, int64_t positions);

  /// Part of the thread's scratch, 64-aligned; each call hands out fresh memory.
  mlir::Value scratch(mlir::MemRefType type);
  int64_t scratchBytes() const { return scratchUsed; }

  /// The launch's workspace, from its start.
  mlir::Value workspace(mlir::MemRefType type);
  /// memref<count x i32>: the counters in front of the workspace.
  mlir::Value counters(int64_t count);

  mlir::Value index(int64_t value); ///< index constant
  void finish();

private:
  mlir::Value argument(int64_t position); ///< i64
  /// Where there is one for each row of the batch, that of row `batch`.
  mlir::Value loadScalar(Scalar scalar, mlir::Type type, mlir::Value batch = {});
  mlir::Value workspaceView(mlir::MemRefType type, int64_t byte);

  mlir::Operation *dispatch_;
  const Target &target_;
  mlir::func::FuncOp func;
  mlir::ImplicitLocOpBuilder b;
  mlir::Value arena, arguments, itemIndex, scratchArena;
  int64_t scratchUsed = 0;
};

} // namespace sluice::cpu
