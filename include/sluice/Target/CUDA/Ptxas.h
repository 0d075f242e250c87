// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// NVIDIA's assembler, and the cache of what it writes (docs/kernel-cache.md).
#pragma once

#include "sluice/Target/CUDA/Kernel.h"
#include "sluice/Target/Cache/KernelCache.h"

namespace sluice::cuda {

/// The `ptxas` found in PATH.
struct Ptxas {
  std::string program;
  /// Its file, the file's size and time, and its version. Empty where it reports none: nothing of
  /// it is cached then.
  std::string identity;
};

/// Returns none where PATH has no `ptxas`.
std::optional<Ptxas> findPtxas();

/// Assembles PTX, or reads from `cache` what the same assembler wrote for the same PTX and target.
/// Fails with the assembler's own message.
llvm::Expected<Binary> assemble(llvm::StringRef ptx, const Target &target, const Ptxas &ptxas,
                                KernelCache &cache);

} // namespace sluice::cuda
