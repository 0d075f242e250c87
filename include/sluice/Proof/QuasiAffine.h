// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Signs and bounds of quasi-affine functions of one variable.
#pragma once

#include "mlir/IR/AffineExpr.h"
#include <cstdint>
#include <optional>

namespace sluice {

/// Answer to "e(p) <= 0 for all p >= 0", where e is an expression of d0 with floordiv, ceildiv and
/// mod by positive constants.
struct SignAnswer {
  enum Kind { Always, Fails, Unknown } kind = Unknown;
  int64_t at = 0; ///< the first p at which it fails; any such p if the first is beyond 2^22
};
/// Decides exactly; Unknown if the expression has another form or its numbers are near 2^60.
/// Without `wantFirst`, `at` may be any point where it fails, which is faster.
SignAnswer isNeverPositive(mlir::AffineExpr expression, bool wantFirst = true);

/// Returns a function floor((a p + b) / c) that is nowhere below a quasi-affine expression of d0
/// and has its slope; nothing if its numbers are too large.
std::optional<mlir::AffineExpr> linearBound(mlir::AffineExpr expression);

} // namespace sluice
