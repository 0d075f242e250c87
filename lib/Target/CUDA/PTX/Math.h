// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Elementary functions and divisions by GPU approximations, within the tolerance of the oracle: 4
// ulp for an elementary function, 2 ulp for a division. Random numbers in fewer instructions, bit
// for bit equal.
#pragma once

#include "mlir/IR/PatternMatch.h"

namespace sluice::cuda {

/// Adds patterns for f32 that have priority over the patterns of target::populateMathExpansions:
/// exp, exp2, erf and tanh of scalars and vectors, and divisions of vectors, which occur in bodies
/// and epilogues. Scalars, one per row, are divided exactly. Products of 32 bits to 64 bits and
/// comparisons of uniform numbers with a constant use GPU instructions.
void populateMathExpansions(mlir::RewritePatternSet &patterns);

} // namespace sluice::cuda
