// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// Kernels of a decode step: few rows, with all of the weights or keys.
#pragma once

#include "sluice/Target/CPU/Kernel.h"

namespace sluice::cpu {

/// A contraction over a scheduled domain: few rows. Each weight is read once, in storage order, for
/// all rows. The result of a row depends neither on the other rows nor on their number.
mlir::FailureOr<Kernel> generateSkinnyContract(dispatch::ContractOp op, mlir::ModuleOp module,
                                               llvm::StringRef name, const Target &target);

/// Attention over a scheduled domain: the queries of its rows, with keys and values at absolute
/// positions in rings. Sums run over blocks of keys in the order of their positions.
mlir::FailureOr<Kernel> generateDecodeAttention(dispatch::AttentionOp op, mlir::ModuleOp module,
                                                llvm::StringRef name, const Target &target);

} // namespace sluice::cpu
