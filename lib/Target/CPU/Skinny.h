// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// Kernels of an incremental step: few rows, and all of the weights or keys.
#pragma once

#include "sluice/Target/CPU/Kernel.h"

namespace sluice::cpu {

/// A contraction over a scheduled domain: few rows. Each weight is read once, in the order in which
/// it is stored, for all rows. What a row gets depends neither on the other rows nor on their
/// number.
mlir::FailureOr<Kernel> generateSkinnyContract(dispatch::ContractOp op, mlir::ModuleOp module,
                                               llvm::StringRef name, const Target &target);

/// Attention over a scheduled domain: the queries of its rows, keys and values at absolute
/// positions in rings. Sums go over blocks of keys in the order of their positions.
mlir::FailureOr<Kernel> generateDecodeAttention(dispatch::AttentionOp op, mlir::ModuleOp module,
                                                llvm::StringRef name, const Target &target);

} // namespace sluice::cpu
