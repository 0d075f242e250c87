// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Widths of rows that are side by side.
#pragma once

#include "sluice/Dialect/Spec/Spec.h"

namespace sluice::spec {

/// Returns the columns of the rows of a group, or of the longest segment, side by side, or the
/// width that the stage sets. Fails where nothing bounds the rows of a segment.
mlir::FailureOr<int64_t> computeStackedWidth(ShortenOp op);

} // namespace sluice::spec
