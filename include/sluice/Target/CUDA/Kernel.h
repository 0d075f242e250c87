// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Generates CUDA kernels from dispatch ops: contractions use mma.sync, row ops use a team of
// threads per row. The CPU target takes the same ops.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "sluice/Dialect/Dispatch/Dispatch.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/Error.h"

#include <memory>
#include <optional>
#include <string>

namespace sluice::cuda {

/// A GPU architecture. The PTX version is pinned so that artifacts do not depend on the LLVM
/// version of the build.
struct Target {
  llvm::StringRef name;     ///< name in the plan: cuda-sm_80, cuda-sm_90a
  llvm::StringRef chip;     ///< LLVM's -mcpu and ptxas's --gpu-name
  llvm::StringRef features; ///< LLVM's -mattr

  static const Target &sm80();
  static const Target &sm90a();
};

constexpr int64_t threadsPerBlock = 128; ///< default block size of kernels
constexpr int64_t threadsPerWarp = 32;

/// Maximum number of partial sums over rows, which a second launch adds. A small number is enough:
/// several blocks may share a partial sum (RowsPlan.cpp), so it does not limit how many blocks run.
constexpr int64_t mostSumParts = 32;

/// One launch of a kernel: `void name(uint8_t *arena, const int64_t *arguments)`. A block of the
/// one-dimensional grid corresponds to an `item` of a CPU kernel. Blocks run in any order and never
/// wait for one another; their number depends on shapes only.
struct Stage {
  mlir::func::FuncOp function;
  int64_t blocks = 0;
  int64_t threads = threadsPerBlock; ///< per block
  int64_t sharedBytes = 0;           ///< dynamic shared memory per block
};

/// A generated kernel: launches that run in order with the same arguments.
struct Kernel {
  llvm::SmallVector<Stage> stages;
  int64_t workspaceBytes = 0; ///< memory used by this launch only, undefined before it
  /// Number of i32 counters with which blocks that share a sum count arrivals. They are stored
  /// immediately before the workspace and are zero before and after each launch.
  int64_t counters = 0;
  static constexpr int64_t counterBytes = 4;
  llvm::StringRef kind;   ///< matmul, attention, row or stream
  double flops = 0;       ///< at full length; causal work counted once
  double bytes = 0;       ///< lower bound on bytes moved, at full length
  double rereadBytes = 0; ///< part of `bytes` that later launches read again
};

/// Returns the number of launch arguments of a dispatch: the arguments of the CPU kernel, then the
/// byte offset of the workspace.
int64_t argumentCount(mlir::Operation *dispatch);

/// Generates the kernel of a dispatch op of any family. Appends its functions to `module`; they are
/// called `name`, plus a suffix if there are several stages. Fails with a diagnostic on the op.
mlir::FailureOr<Kernel> generateKernel(mlir::Operation *op, mlir::ModuleOp module,
                                       llvm::StringRef name);

/// Generators, one per family.

/// Factors are bf16. Sums and the epilogue are f32. Extra operands and results are f32 or bf16.
mlir::FailureOr<Kernel> generateContract(dispatch::ContractOp op, mlir::ModuleOp module,
                                         llvm::StringRef name);

/// Factors are bf16; sums, inits and results are f32. Rows are split among blocks where there are
/// few tiles; the last block of a tile to finish adds the partial sums in order.
mlir::FailureOr<Kernel> generateWeightGradient(dispatch::WeightGradientOp op, mlir::ModuleOp module,
                                               llvm::StringRef name);

/// Input, weight and the gradient of the input are bf16 (the gradient may be f32); everything else
/// is f32. Logits stay in registers. Their gradient is rounded to bf16 as a factor of products.
mlir::FailureOr<Kernel> generateCrossEntropy(dispatch::CrossEntropyOp op, mlir::ModuleOp module,
                                             llvm::StringRef name);
mlir::FailureOr<Kernel>
generateCrossEntropyWeightGradient(dispatch::CrossEntropyWeightGradientOp op, mlir::ModuleOp module,
                                   llvm::StringRef name);

/// Factors are bf16 and sums f32; P is rounded to bf16 before its product with V. Heads have at
/// most 256 columns. FLOPs count the pairs of the mask only.
mlir::FailureOr<Kernel> generateAttention(dispatch::AttentionOp op, mlir::ModuleOp module,
                                          llvm::StringRef name);

/// Two launches: `<name>_queries` computes dQ and stores the log-sum-exp and delta of each query in
/// the workspace; `<name>_keys` computes dK and dV. With terms by distance the first launch also
/// computes dQv, and a third, `<name>_distances`, computes dR and the gradients of the biases. P
/// and dS are rounded to bf16 before products.
mlir::FailureOr<Kernel> generateAttentionBackward(dispatch::AttentionBackwardOp op,
                                                  mlir::ModuleOp module, llvm::StringRef name);

/// Operands and results are stored as f32, bf16 or integers; the body computes in f32. Any width
/// and group size. Where several blocks sum over rows (access `columns`), the last block adds all
/// partial sums.
mlir::FailureOr<Kernel> generateRows(dispatch::RowsOp op, mlir::ModuleOp module,
                                     llvm::StringRef name);

/// Values and table are f32 or bf16. Sums are f32 and in row order: bit for bit the op's
/// definition.
mlir::FailureOr<Kernel> generateScatterRows(dispatch::ScatterRowsOp op, mlir::ModuleOp module,
                                            llvm::StringRef name);
mlir::FailureOr<Kernel> generateSegmentScan(dispatch::SegmentScanOp op, mlir::ModuleOp module,
                                            llvm::StringRef name);

/// Lowers a module of kernels (arith, math, scf, memref, vector, nvvm) to LLVM IR without target
/// passes. Returns null after a diagnostic on failure. Does not modify the module.
std::unique_ptr<llvm::Module> lowerToLLVM(mlir::ModuleOp module, llvm::LLVMContext &context);

/// Turns every defined function into a kernel entry and optimizes. The result is the input of the
/// NVPTX backend and of the emulator. Functions carry their block size (`nvvm.reqntid`, set by the
/// generators' frame). Fails if a library call would remain.
llvm::Error prepare(llvm::Module &module, const Target &target);

/// Prints PTX of a module that was prepared for `target`, and consumes the module.
llvm::Expected<std::string> printPTX(llvm::Module &prepared, const Target &target);

/// Prepares and prints PTX.
llvm::Expected<std::string> emitPTX(std::unique_ptr<llvm::Module> module, const Target &target);

/// Resource usage of one kernel, as reported by ptxas.
struct Usage {
  std::string kernel;
  int64_t registers = 0;   ///< per thread
  int64_t stackBytes = 0;  ///< per thread
  int64_t spillBytes = 0;  ///< stores and loads, per thread
  int64_t sharedBytes = 0; ///< static, per block
};
struct Binary {
  std::string cubin;
  std::vector<Usage> usage;
};

/// Assembles PTX with the `ptxas` found in PATH. Returns none if there is no ptxas, and an error
/// with the message of ptxas if it fails.
llvm::Expected<std::optional<Binary>> assemble(llvm::StringRef ptx, const Target &target);

} // namespace sluice::cuda
