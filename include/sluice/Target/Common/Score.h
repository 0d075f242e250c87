// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Code generation for attention's score regions, the same on every target.
#pragma once

#include "sluice/Target/Common/Mask.h"

namespace sluice::target {

/// Fails with a diagnostic if a region has an op that cannot become straight-line code.
mlir::LogicalResult checkRegion(mlir::Region &region);

/// Emits a scalar region. Arguments are scalars (uniform over lanes) or vectors; values that depend
/// only on scalars stay scalar.
mlir::Value emitRegion(Emitter &e, mlir::Region &region, mlir::ValueRange arguments);
/// Emits a region and returns all yielded values. If `sum` is given, it replaces `sumOfProducts`.
Values emitAll(Emitter &e, mlir::Region &region, mlir::ValueRange arguments, mlir::Value sum = {});

/// Returns the op that adds a query's products with its key and with its row by distance, if the
/// score region has both and reads them only there: a kernel may then compute both as one sum. Else
/// null.
mlir::Operation *sumOfProducts(mlir::Region &region);

/// Returns the arguments of a score region: `place` and then the terms that are not null.
inline Values withTerms(mlir::ValueRange place, mlir::ValueRange others) {
  Values arguments(place);
  llvm::copy_if(others, std::back_inserter(arguments),
                [](mlir::Value other) { return bool(other); });
  return arguments;
}

} // namespace sluice::target
