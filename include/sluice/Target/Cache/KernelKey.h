// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Hashes of everything that the object of a kernel depends on.
#pragma once

#include "sluice/Support/Hash.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include <string>

namespace sluice {

using KernelKey = Sha256;

/// Hashes a generated kernel: its type, attributes, ops and blocks. Neither the kernel's name nor
/// any location is part of the hash, which is the same in every process and on every machine.
Sha256 hashKernel(mlir::func::FuncOp kernel);

/// Hashes a module of generated kernels as above, with its attributes and the names of its symbols.
Sha256 hashModule(mlir::ModuleOp module);

/// Returns the first 16 hexadecimal digits of a hash, for symbols of kernels.
std::string toShortHash(const Sha256 &hash);

/// Returns the key of `kernel`'s object for `target`, a text with all properties of the target that
/// lowering depends on. Includes the kernel's name, `getLoweringIdentity` and the hash.
KernelKey computeKernelKey(mlir::func::FuncOp kernel, llvm::StringRef target);

/// Returns the key of the code for `target` of a module with the hash `module` (`hashModule`).
/// Includes `getLoweringIdentity`.
KernelKey computeModuleKey(const Sha256 &module, llvm::StringRef target);

/// Returns the key of the output of an external program, such as an assembler. `parts` are its
/// input and everything else that affects its output. Different partitions of the same text have
/// different keys.
KernelKey computeToolKey(llvm::ArrayRef<llvm::StringRef> parts);

/// Returns the part of the key that neither the kernel nor its target determines: a hash of the
/// sources in lib/Target and include/sluice/Target that this program was built from, LLVM's
/// version, and the build IDs of the loaded LLVM and MLIR libraries.
const std::string &getLoweringIdentity();

} // namespace sluice
