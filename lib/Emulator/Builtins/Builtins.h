// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implementations of NVVM intrinsics and of the inline assembly that MLIR emits.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace sluice::emulator {

/// A C function: `result f(uint32_t site, [void *aggregateResult,] arguments...)`. Pointers are
/// uint64_t, integers below 32 bits uint32_t, vectors and 16-bit floats integers of their width.
struct Builtin {
  llvm::StringRef name; ///< intrinsic's name without "llvm.nvvm."; with or without type suffixes
  void *function;
};

template <typename Result, typename... Arguments>
Builtin makeBuiltin(llvm::StringRef name, Result (*function)(Arguments...)) {
  return {name, reinterpret_cast<void *>(function)};
}

llvm::ArrayRef<Builtin> threadBuiltins(); ///< indices, votes, shuffles, barriers
llvm::ArrayRef<Builtin> matrixBuiltins(); ///< mma, ldmatrix, stmatrix
llvm::ArrayRef<Builtin> copyBuiltins();   ///< cp.async
llvm::ArrayRef<Builtin> mbarrierBuiltins();
llvm::ArrayRef<Builtin> productBuiltins(); ///< wgmma
llvm::ArrayRef<Builtin> scalarBuiltins();  ///< arithmetic
llvm::ArrayRef<Builtin>
accessBuiltins(); ///< calls that rewritten modules make at loads, stores and fences

/// Returns all families.
llvm::ArrayRef<llvm::ArrayRef<Builtin>> builtins();

} // namespace sluice::emulator
