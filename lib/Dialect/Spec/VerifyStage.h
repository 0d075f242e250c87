// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks of the attributes of an op against its declared keys.
#pragma once

#include "sluice/Dialect/Spec/Spec.h"

namespace sluice::spec {

/// Returns true for an integer from `least` to `largest`.
bool isInRange(mlir::IntegerAttr integer, int64_t least, int64_t largest);
/// Returns true for `count` numbers of layers. With `nests`, the second may be another such array,
/// up to mostNestedLevels.
bool isCounts(mlir::ArrayAttr counts, size_t count, bool nests, int level = 1);
/// Returns true for numbers from 1 to mostSize.
bool isSizes(mlir::DenseI64ArrayAttr sizes);
/// Fails if attributes that `setDerivedDefaults` sets are missing.
mlir::LogicalResult verifyDerived(mlir::Operation *op, llvm::ArrayRef<llvm::StringRef> names);

/// Fails if an op has attributes that it does not declare, or numbers outside the intervals of
/// their keys.
mlir::LogicalResult verifyAttributes(mlir::Operation *op);

} // namespace sluice::spec
