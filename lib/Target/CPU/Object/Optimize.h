// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs LLVM passes over kernels, before code generation.
#pragma once

namespace llvm {
class Module;
class TargetMachine;
} // namespace llvm

namespace sluice::cpu {

/// Cleans up kernels and reduces the addresses of their innermost loops. The code generator's own
/// loop strength reduction should be off: see NoLoopStrengthReduction.
void optimize(llvm::Module &module, llvm::TargetMachine &machine);

/// Disables the code generator's loop strength reduction for the whole process, while an object of
/// this class is alive. Must be created before threads lower kernels, which read the switch.
class NoLoopStrengthReduction {
public:
  NoLoopStrengthReduction();
  ~NoLoopStrengthReduction();
  NoLoopStrengthReduction(const NoLoopStrengthReduction &) = delete;
  NoLoopStrengthReduction &operator=(const NoLoopStrengthReduction &) = delete;
};

} // namespace sluice::cpu
