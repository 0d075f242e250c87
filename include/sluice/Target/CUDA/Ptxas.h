// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// NVIDIA's assembler and the cache of its output (docs/kernel-cache.md).
#pragma once

#include "sluice/Target/CUDA/Kernel.h"
#include "sluice/Target/Cache/KernelCache.h"

namespace sluice::cuda {

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

} // namespace sluice::cuda
