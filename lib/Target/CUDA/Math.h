// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Elementary functions and divisions from the GPU's own approximations, within what the oracle
// grants: 4 ulp of an elementary function, 2 ulp of a division. Random numbers in fewer
// instructions, bit for bit.
#pragma once

#include "mlir/IR/PatternMatch.h"

namespace sluice::cuda {

/// Patterns for f32 that go before those of target::populateMathExpansions: exp, exp2, erf and tanh
/// of scalars and vectors, and divisions of vectors, which are what bodies and epilogues compute
/// with. Scalars, one of a row, are divided exactly. Products of 32 bits to 64, and uniform numbers
/// compared with a constant, take the GPU's instructions.
void populateMathExpansions(mlir::RewritePatternSet &patterns);

} // namespace sluice::cuda
