// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// NVIDIA's assembler and the cache of its output (docs/kernel-cache.md).
#pragma once

#include "sluice/Target/CUDA/Kernel.h"
#include "sluice/Target/Cache/KernelCache.h"
#include "llvm/Support/Error.h"

#include <optional>
#include <string>
#include <vector>

namespace sluice::cuda {

/// Resource usage of one kernel, as reported by ptxas.
struct Usage {
  std::string kernel;
  int64_t registers = 0;   ///< per thread
  int64_t stackBytes = 0;  ///< per thread
  int64_t spillBytes = 0;  ///< stores and loads, per thread
  int64_t sharedBytes = 0; ///< static, per block
  /// ptxas waits for each wgmma before the next, because other instructions use the sums between.
  bool serialized = false;
};
struct Binary {
  std::string cubin;
  std::vector<Usage> usage;
};

/// The `ptxas` executable found in PATH.
struct Ptxas {
  std::string program;
  /// Path, file size, modification time and version. Empty if ptxas reports no version; its output
  /// is not cached then.
  std::string identity;
};

/// Returns none if PATH has no `ptxas`.
std::optional<Ptxas> findPtxas();

/// Assembles PTX, or returns the cached output of the same assembler for the same PTX and target.
/// Fails with the message of the assembler.
llvm::Expected<Binary> assemble(llvm::StringRef ptx, const Target &target, const Ptxas &ptxas,
                                KernelCache &cache);

/// Assembles PTX with the `ptxas` found in PATH. Returns none if there is no ptxas, and an error
/// with the message of ptxas if it fails.
llvm::Expected<std::optional<Binary>> assemble(llvm::StringRef ptx, const Target &target);

} // namespace sluice::cuda
