// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// Elementary functions as straight-line arithmetic: a kernel calls no library.
#pragma once

#include "mlir/IR/PatternMatch.h"

namespace sluice::target {

/// Adds patterns that expand math.exp, exp2, log, log2, log1p, sin, cos, powf (f32 and f64, scalars
/// and vectors), and tanh, erf, expm1 and the rest of upstream's approximations (f32). sqrt, fma,
/// floor, ceil, trunc, roundeven, absf and copysign are native and remain. Infinities and NaN
/// propagate; powf requires a nonnegative base; sin and cos require |x| below 1e5 (f32) or 1e9
/// (f64).
void populateMathExpansions(mlir::RewritePatternSet &patterns);

} // namespace sluice::target
