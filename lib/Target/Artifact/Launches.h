// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Launches of an entry, and their dependences.
#pragma once

#include "sluice/Target/Artifact.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace sluice {

/// Separates an entry's name from the number of rows of its bucket.
inline constexpr llvm::StringLiteral bucketMark = "@";

/// Emits a `plan.entry` with the launches of `func`, over the memory of a bucket or, if it is null,
/// of the plan.
void emitEntry(mlir::func::FuncOp func, const llvm::Twine &name, const KernelSet &kernels,
               const MemoryPlan &memory, const MemoryBucket *bucket);

} // namespace sluice
