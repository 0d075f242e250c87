// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A CUDA kernel, and the GPU architectures that it may be for.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "sluice/Dialect/Dispatch/Dispatch.h"

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
/// several blocks may share a partial sum (Rows/Plan.cpp), so it does not limit how many blocks
/// run.
constexpr int64_t mostSumParts = 32;

/// One launch of a kernel: `void name(uint8_t *arena, const int64_t *arguments)`. A block of the
/// one-dimensional grid corresponds to an `item` of a CPU kernel. Blocks run in any order and never
/// wait for one another; their number depends on shapes only.
struct KernelStage {
  mlir::func::FuncOp function;
  int64_t blocks = 0;
  int64_t threads = threadsPerBlock; ///< per block
  int64_t sharedBytes = 0;           ///< dynamic shared memory per block
};

/// A generated kernel: launches that run in order with the same arguments.
struct Kernel {
  llvm::SmallVector<KernelStage> stages;
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

} // namespace sluice::cuda
