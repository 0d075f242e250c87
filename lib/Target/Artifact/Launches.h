// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Launches of an entry, and what each must wait for.
#pragma once

#include "sluice/Target/Artifact.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace sluice {

/// Stands in an entry's name before the rows of the bucket that it is for.
inline constexpr llvm::StringLiteral bucketMark = "@";

/// A `plan.entry` with the launches of `func` over the memory of a bucket, or, of null, of the
/// plan.
void emitEntry(mlir::func::FuncOp func, const llvm::Twine &name, const KernelSet &kernels,
               const MemoryPlan &memory, const MemoryBucket *bucket);

} // namespace sluice
