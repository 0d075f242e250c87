// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the object of a kernel depends on, as a hash.
#pragma once

#include "sluice/Runtime/Hash.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <string>

namespace sluice {

using KernelKey = runtime::Sha256;

/// Hashes a generated kernel: its type, attributes, ops and blocks. Neither the kernel's name nor
/// any location is part of the hash, which is the same in every process and on every machine.
runtime::Sha256 hashKernel(mlir::func::FuncOp kernel);

/// The first 16 hexadecimal digits of `hashKernel`, for the kernel's symbol.
std::string shortKernelHash(mlir::func::FuncOp kernel);

/// Returns the key of `kernel`'s object for `target`, a text that specifies everything that
/// lowering reads of its target. Includes the kernel's name, `getLoweringIdentity` and the hash.
KernelKey computeKernelKey(mlir::func::FuncOp kernel, llvm::StringRef target);

/// Returns what a kernel's object depends on apart from the kernel and its target: a hash of the
/// sources in lib/Target and include/sluice/Target that this program was built from, LLVM's
/// version, and the build IDs of the libraries of LLVM and MLIR that are loaded.
const std::string &getLoweringIdentity();

} // namespace sluice
