// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lowers CUDA kernels to LLVM IR and to PTX.
#pragma once

#include "sluice/Target/CUDA/Kernel.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/Error.h"

#include <memory>
#include <string>

namespace sluice::cuda {

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

} // namespace sluice::cuda
