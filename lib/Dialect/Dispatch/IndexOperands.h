// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "sluice/Dialect/Dispatch/Dispatch.h"

namespace sluice::dispatch::detail {

/// Verifies the index arguments of operand `i`, if it has any, and that the operand has the rows
/// that they select.
mlir::LogicalResult verifyIndexOperand(RowsOp op, unsigned i);

} // namespace sluice::dispatch::detail
