// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Common parts of the CPU kernel generators: the target instruction set, and the frame of a kernel,
// i.e. its function with the kernel ABI and typed views of its buffers (docs/plan-and-artifact.md).
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
  llvm::StringRef name;     ///< name in the plan: cpu-avx512, cpu-avx2
  llvm::StringRef cpu;      ///< LLVM's -mcpu
  llvm::StringRef features; ///< LLVM's -mattr
  int64_t lanes;            ///< f32 elements per vector
  int64_t registers;        ///< vector registers
  int64_t l1Bytes;          ///< L1 data cache per core
  int64_t l2Bytes;          ///< L2 cache per core

  static const Target &avx512();
  static const Target &avx2();
};

/// Maximum number of partial sums over rows. A thread computes each, and a second launch adds them.
/// Must not depend on the number of threads, because the order of a sum must not.
constexpr int64_t mostSumParts = 32;

/// A generated kernel. Results depend neither on the order of items nor on threads; the number of
/// items depends on shapes only.
struct Kernel {
  mlir::func::FuncOp function;
  int64_t items = 0;
  int64_t scratchBytes = 0;
  llvm::StringRef kind;       ///< matmul, attention, row or stream
  double flops = 0;           ///< at full length; causal work counted once
  double bytes = 0;           ///< lower bound on bytes moved, at full length
  int64_t workspaceBytes = 0; ///< memory shared by the items of a launch, initially undefined
  /// Number of i32 counters with which items that share a sum count arrivals. They are stored
  /// immediately before the workspace and are zero before and after each launch.
  int64_t counters = 0;
  static constexpr int64_t counterBytes = 4;
};

/// Generators, one per family. Each appends one function called `name` to `module`, or fails with a
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

/// Generates the kernel of any dispatch op, by its family.
mlir::FailureOr<Kernel> generateKernel(mlir::Operation *op, mlir::ModuleOp module,
                                       llvm::StringRef name, const Target &target);

/// Registers LLVM's code generators, once per process.
void initializeBackend();

/// Lowers a module of kernels (arith, math, scf, memref, vector with the kernel ABI) to native
/// object code for `target`; functions keep their names. Elementary functions become arithmetic
/// (see Math.h, for f32 and f64); a vector reduction becomes a tree of halves. Multiplies and adds
/// are fused only for math.fma and vector.fma. Fails with a diagnostic, also if a library call
/// would remain; `object` is unchanged then.
mlir::LogicalResult lowerToObject(mlir::ModuleOp module, const Target &target, std::string &object);

/// A module of kernels and its target.
struct ObjectRequest {
  mlir::ModuleOp module;
  const Target *target;
};

/// Lowers the kernels of several modules of one context, each to its own object, on the threads of
/// the context. Takes objects from `cache` where it has them, and stores the others there. Appends
/// to `objects` in the order of `requests` and of their kernels. The bytes depend neither on the
/// contents of the cache nor on the number of threads. `report`, if any, is called after each
/// lowered kernel, with the number of kernels so far and in total.
mlir::LogicalResult
lowerToObjects(llvm::ArrayRef<ObjectRequest> requests, std::vector<std::string> &objects,
               KernelCache &cache,
               llvm::function_ref<void(size_t done, size_t count)> report = nullptr);

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

  /// Returns the memory of tensor operand or result `i` (operands first, then results). Rank 3 [B,
  /// T, d] is viewed as memref<B*T x paddedWidth(d)>; ranks 2 and 1 are unchanged; rank 0 is
  /// memref<1>. bf16 is viewed as i16, which loads and stores convert.
  mlir::Value buffer(unsigned i);

  mlir::Value item() { return itemIndex; } ///< index
  /// index: valid tokens of a row of the batch, or its rows on the domain's axis of segments.
  mlir::Value length(mlir::Value batch);
  mlir::Value rows();        ///< index: valid rows of the batch
  mlir::Value step();        ///< i64
  mlir::Value seed();        ///< i64
  mlir::Value firstStream(); ///< i64: added to the ids of random streams
  mlir::Value firstRow();    ///< index: for emitDrawnRow
  /// Schedule of row `batch` of the batch for a scheduled dispatch; all of type index.
  struct Run {
    mlir::Value start, count, length;
  };
  Run run(mlir::Value batch);
  /// Returns ceil(length / factor), or `positions` if factor is 0.
  Lengths lengths(int64_t factor, int64_t positions);

  /// Allocates part of the thread's scratch, 64-aligned. Every call returns distinct memory.
  mlir::Value scratch(mlir::MemRefType type);
  int64_t scratchBytes() const { return scratchUsed; }

  /// Returns the workspace of the launch, from its start.
  mlir::Value workspace(mlir::MemRefType type);
  /// memref<count x i32>: the counters before the workspace.
  mlir::Value counters(int64_t count);

  mlir::Value index(int64_t value); ///< index constant
  void finish();

private:
  mlir::Value argument(int64_t position); ///< i64
  /// Loads a scalar argument. If there is one per row of the batch, loads the one of row `batch`.
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
