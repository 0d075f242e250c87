// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds common points of quasi-affine functions of one integer.
#pragma once

#include "mlir/IR/AffineExpr.h"
#include "mlir/Support/LLVM.h"
#include <cstdint>

namespace sluice {

/// Searches for an integer x, x >= 0 unless `everywhere`, at which every expression is at least 0.
/// Exact, within a limit on operations; the current WorkBudget is charged for them. Classes of
/// remainders are split only where bounds do not decide (Residues.cpp), so a long common period
/// alone costs nothing.
struct CommonPoint {
  enum Kind { None, Found, Unknown } kind = Unknown;
  int64_t at = 0; ///< Found: such an x
};
CommonPoint findCommonPoint(llvm::ArrayRef<mlir::AffineExpr> expressions, bool everywhere);

} // namespace sluice
