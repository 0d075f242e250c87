// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Generators of contractions and of weight gradients.
#pragma once

#include "sluice/Target/CPU/Kernel.h"

namespace sluice::cpu {

mlir::FailureOr<Kernel> generateContract(dispatch::ContractOp op, mlir::ModuleOp module,
                                         llvm::StringRef name, const Target &target);

/// A contraction over a scheduled domain: few rows. Each weight is read once, in storage order, for
/// all rows. The result of a row depends neither on the other rows nor on their number.
mlir::FailureOr<Kernel> generateSkinnyContract(dispatch::ContractOp op, mlir::ModuleOp module,
                                               llvm::StringRef name, const Target &target);

mlir::FailureOr<Kernel> generateWeightGradient(dispatch::WeightGradientOp op, mlir::ModuleOp module,
                                               llvm::StringRef name, const Target &target);

} // namespace sluice::cpu
