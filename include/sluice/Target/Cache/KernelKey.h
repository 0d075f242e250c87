// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the object of a kernel depends on, as a hash.
#pragma once

#include "sluice/Runtime/Hash.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include <string>

namespace sluice {

using KernelKey = runtime::Sha256;

/// Hashes a generated kernel: its type, attributes, ops and blocks. Neither the kernel's name nor
/// any location is part of the hash, which is the same in every process and on every machine.
runtime::Sha256 hashKernel(mlir::func::FuncOp kernel);

/// Hashes a module of generated kernels as above, with its attributes and the names of its symbols.
runtime::Sha256 hashModule(mlir::ModuleOp module);

/// The first 16 hexadecimal digits of a hash, for kernels' symbols.
std::string toShortHash(const runtime::Sha256 &hash);

/// Returns the key of `kernel`'s object for `target`, a text that specifies everything that
/// lowering reads of its target. Includes the kernel's name, `getLoweringIdentity` and the hash.
KernelKey computeKernelKey(mlir::func::FuncOp kernel, llvm::StringRef target);

/// Returns the key of the code for `target` of a module with the hash `module` (`hashModule`).
/// Includes `getLoweringIdentity`.
KernelKey computeModuleKey(const runtime::Sha256 &module, llvm::StringRef target);

/// Returns the key of the result of a program outside this one, such as an assembler: `parts` are
/// its input and everything else that decides its output. Texts that end elsewhere are other keys.
KernelKey computeToolKey(llvm::ArrayRef<llvm::StringRef> parts);

/// Returns what a kernel's object depends on apart from the kernel and its target: a hash of the
/// sources in lib/Target and include/sluice/Target that this program was built from, LLVM's
/// version, and the build IDs of the libraries of LLVM and MLIR that are loaded.
const std::string &getLoweringIdentity();

} // namespace sluice
