// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A CPU kernel, and the instruction sets that it may be for.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "sluice/Dialect/Dispatch/Dispatch.h"

namespace sluice::cpu {

/// An instruction set and the sizes that schedules depend on.
struct Target {
  llvm::StringRef name;     ///< name in the plan: cpu-amx, cpu-avx2
  llvm::StringRef cpu;      ///< LLVM's -mcpu
  llvm::StringRef features; ///< LLVM's -mattr
  int64_t lanes;            ///< f32 elements per vector
  int64_t registers;        ///< vector registers
  int64_t l2Bytes;          ///< L2 cache per core
  bool bf16Dots;            ///< vdpbf16ps: f32 sums of products of pairs of bf16
  bool tiles;               ///< tdpbf16ps: the same for AMX tiles

  static const Target &amx();
  static const Target &avx512Bf16();
  static const Target &avx512Vnni(); ///< vpdpwssd: sums of products of pairs of i16
  static const Target &avx512();
  static const Target &avx2();
};

/// Maximum number of partial sums over rows. A thread computes each, and a second launch adds them.
/// Must not depend on the number of threads, because the order of a sum must not.
constexpr int64_t mostSumParts = 32;

/// A generated kernel. Results depend neither on the order of the items of a phase nor on threads;
/// the number of items depends on shapes only.
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
  /// The items are this number of equal runs; an item runs after all items of the runs before its
  /// own.
  int64_t phases = 1;
};

} // namespace sluice::cpu
