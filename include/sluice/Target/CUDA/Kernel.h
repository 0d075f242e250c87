// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Dispatch ops as CUDA kernels: contractions with mma.sync, rows with a team of threads a row. Made
// from the very ops that the CPU target takes.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "sluice/Dialect/Dispatch/Dispatch.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/Error.h"

#include <memory>
#include <optional>
#include <string>

namespace sluice::cuda {

/// A GPU architecture. The PTX version is pinned: what an artifact holds must not depend on the
/// build's LLVM.
struct Target {
  llvm::StringRef name;     ///< as a plan would name it: cuda-sm_80, cuda-sm_90a
  llvm::StringRef chip;     ///< LLVM's -mcpu and ptxas's --gpu-name
  llvm::StringRef features; ///< LLVM's -mattr

  static const Target &sm80();
  static const Target &sm90a();
};

constexpr int64_t threadsPerBlock = 128; ///< of kernels that need no other number
constexpr int64_t threadsPerWarp = 32;

/// Parts of a sum over rows at most, which a second launch adds. Few, as blocks share a part
/// (RowsPlan.cpp): how many parts there are need not fill a GPU.
constexpr int64_t mostSumParts = 32;

/// One launch of a kernel: `void name(uint8_t *arena, const int64_t *arguments)`, the CPU's `item`
/// being the block of a one-dimensional grid. Blocks run in any order and wait for no other; their
/// number depends on shapes alone.
struct Stage {
  mlir::func::FuncOp function;
  int64_t blocks = 0;
  int64_t threads = threadsPerBlock; ///< a block
  int64_t sharedBytes = 0;           ///< a block, sized at the launch
};

/// A generated kernel: its launches, one after the other, all with the same arguments.
struct Kernel {
  llvm::SmallVector<Stage> stages;
  int64_t workspaceBytes = 0; ///< memory that only this launch uses, contents undefined before it
  /// i32, where blocks that share a sum count themselves: right in front of the workspace, zero
  /// before and after each launch.
  int64_t counters = 0;
  static constexpr int64_t counterBytes = 4;
  llvm::StringRef kind;   ///< matmul, attention, row, stream
  double flops = 0;       ///< at full length, causal work counted once
  double bytes = 0;       ///< least bytes moved at full length
  double rereadBytes = 0; ///< of them, what launches after the first read again
};

/// Number of launch arguments of a dispatch: the CPU's, then the byte offset of the workspace.
int64_t argumentCount(mlir::Operation *dispatch);

/// Makes the kernel of a dispatch op of any family. Appends its functions, called `name` and, where
/// there are several stages, `name` and a suffix, to `module`; fails with a diagnostic on the op.
mlir::FailureOr<Kernel> generateKernel(mlir::Operation *op, mlir::ModuleOp module,
                                       llvm::StringRef name);

/// The generator of each family.

/// Factors are bf16; sums are f32, and so is the epilogue. Extras and results are f32 or bf16.
mlir::FailureOr<Kernel> generateContract(dispatch::ContractOp op, mlir::ModuleOp module,
                                         llvm::StringRef name);

/// Factors are bf16; sums, inits and results are f32. Rows are split among blocks where there are
/// few tiles; the last of a tile's blocks adds the parts in order.
mlir::FailureOr<Kernel> generateWeightGradient(dispatch::WeightGradientOp op, mlir::ModuleOp module,
                                               llvm::StringRef name);

/// Input, weight and the input's gradient are bf16 (the last may be f32); everything else is f32.
/// Logits stay in registers, their gradient is rounded to bf16 for its products.
mlir::FailureOr<Kernel> generateCrossEntropy(dispatch::CrossEntropyOp op, mlir::ModuleOp module,
                                             llvm::StringRef name);
mlir::FailureOr<Kernel>
generateCrossEntropyWeightGradient(dispatch::CrossEntropyWeightGradientOp op, mlir::ModuleOp module,
                                   llvm::StringRef name);

/// Factors of bf16, sums f32; P rounded to bf16 before its product with V. Heads of up to 256
/// columns. FLOPs are those of the relation's pairs.
mlir::FailureOr<Kernel> generateAttention(dispatch::AttentionOp op, mlir::ModuleOp module,
                                          llvm::StringRef name);

/// Two launches: `<name>_queries` sums dQ and leaves each query's log-sum-exp and delta in the
/// workspace, `<name>_keys` sums dK and dV. With terms by distance the first sums dQv too, and a
/// third, `<name>_distances`, dR and the biases' gradients. P and dS are rounded to bf16 before
/// products.
mlir::FailureOr<Kernel> generateAttentionBackward(dispatch::AttentionBackwardOp op,
                                                  mlir::ModuleOp module, llvm::StringRef name);

/// Operands and results are stored as f32, bf16 or integers; the body computes in f32. Any width
/// and group. Of several blocks that sum over rows (access `columns`) the last adds up what all
/// left.
mlir::FailureOr<Kernel> generateRows(dispatch::RowsOp op, mlir::ModuleOp module,
                                     llvm::StringRef name);

/// Values and table are f32 or bf16, sums f32 and in row order: the bits of the definition.
mlir::FailureOr<Kernel> generateScatterRows(dispatch::ScatterRowsOp op, mlir::ModuleOp module,
                                            llvm::StringRef name);
mlir::FailureOr<Kernel> generateSegmentScan(dispatch::SegmentScanOp op, mlir::ModuleOp module,
                                            llvm::StringRef name);

/// Lowers a module of kernels (arith, math, scf, memref, vector, nvvm) to LLVM IR that no target
/// has touched yet. Null with a diagnostic on failure. The module itself is left as it is.
std::unique_ptr<llvm::Module> lowerToLLVM(mlir::ModuleOp module, llvm::LLVMContext &context);

/// Makes every function defined an entry and optimizes: what the NVPTX backend is fed, and what the
/// emulator runs. Functions say themselves how many threads a block has (`nvvm.reqntid`, set by the
/// generators' frame). Fails when a call of a library would remain.
llvm::Error prepare(llvm::Module &module, const Target &target);

/// Prints PTX of a module that was prepared for `target`; it is of no further use.
llvm::Expected<std::string> printPTX(llvm::Module &prepared, const Target &target);

/// Prepares and prints PTX.
llvm::Expected<std::string> emitPTX(std::unique_ptr<llvm::Module> module, const Target &target);

/// What ptxas says of one kernel.
struct Usage {
  std::string kernel;
  int64_t registers = 0;   ///< a thread
  int64_t stackBytes = 0;  ///< a thread
  int64_t spillBytes = 0;  ///< stores and loads, a thread
  int64_t sharedBytes = 0; ///< static, a block
};
struct Binary {
  std::string cubin;
  std::vector<Usage> usage;
};

/// Assembles PTX with the `ptxas` found in PATH; nothing where there is none. Fails with ptxas's
/// own message.
llvm::Expected<std::optional<Binary>> assemble(llvm::StringRef ptx, const Target &target);

} // namespace sluice::cuda
