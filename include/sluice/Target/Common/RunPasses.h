// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs LLVM passes on a module of kernels.
#pragma once

#include "llvm/Passes/PassBuilder.h"

namespace sluice::target {

/// Runs `passes` on `module` with the analyses that `builder` registers.
void runPasses(llvm::Module &module, llvm::PassBuilder &builder, llvm::ModulePassManager passes);

} // namespace sluice::target
