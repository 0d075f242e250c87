// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs a CUDA kernel's LLVM IR on the CPU, one thread of the machine a thread of the block. Covers
// what these kernels use: thread numbers, butterfly shuffles, warp barriers and the bf16 mma.sync,
// by the tables of the PTX ISA.
#pragma once

#include "sluice/Target/CUDA/Kernel.h"

#include <cstdint>

namespace llvm::orc {
class LLJIT;
}

namespace sluice::test {

/// A kernel compiled for this machine.
class EmulatedKernel {
public:
  /// Records a test failure when the code cannot be compiled or uses an intrinsic that is not
  /// covered.
  EmulatedKernel(std::unique_ptr<llvm::Module> module, std::unique_ptr<llvm::LLVMContext> context,
                 llvm::StringRef name);
  ~EmulatedKernel();

  bool loaded() const { return entry != nullptr; }
  void runBlock(int64_t number, uint8_t *arena, const int64_t *arguments) const;

private:
  void load(std::unique_ptr<llvm::Module> module, std::unique_ptr<llvm::LLVMContext> context,
            llvm::StringRef name);

  std::unique_ptr<llvm::orc::LLJIT> jit;
  void (*entry)(uint8_t *, const int64_t *) = nullptr;
};

} // namespace sluice::test
