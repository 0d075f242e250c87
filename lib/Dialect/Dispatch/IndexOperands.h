// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "sluice/Dialect/Dispatch/Dispatch.h"

namespace sluice::dispatch::detail {

/// Checks operand `i`, where indices find it: they must be there, and it must have the rows they
/// find.
mlir::LogicalResult verifyIndexOperand(RowsOp op, unsigned i);

} // namespace sluice::dispatch::detail
