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
/// loop strength reduction should be off: see CodeGeneratorSwitches.
void optimize(llvm::Module &module, llvm::TargetMachine &machine);

/// While an object of this class is alive, the code generator of the whole process neither reduces
/// the strength of loops nor lets a branch cross or end at a multiple of 32 bytes: Intel's
/// processors from Skylake to Comet Lake and Cascade Lake do not cache decoded instructions of such
/// 32 bytes (erratum JCC), and a loop of multiply-adds there runs at two thirds of its speed. Must
/// be created before threads lower kernels, which read the switches.
class CodeGeneratorSwitches {
public:
  CodeGeneratorSwitches();
  ~CodeGeneratorSwitches();
  CodeGeneratorSwitches(const CodeGeneratorSwitches &) = delete;
  CodeGeneratorSwitches &operator=(const CodeGeneratorSwitches &) = delete;
};

} // namespace sluice::cpu
