// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Epilogue of a contraction in a CPU kernel.
#pragma once

#include "sluice/Target/CPU/Frame.h"
#include "sluice/Target/Common/Epilogue.h"

namespace sluice::cpu {

/// Step, seed and first stream are loaded only if the region draws random numbers.
Epilogue makeEpilogue(dispatch::ContractOp op, Frame &frame);

/// Rotates columns [column, column + n) of a contraction's row by the angles of its position; only
/// columns below `rotated`, a multiple of the table's columns. `column` is a multiple of `grain`;
/// `position` is called where it is needed.
mlir::Value emitColumnRotation(mlir::ImplicitLocOpBuilder &b, mlir::Value vector, mlir::Value table,
                               llvm::function_ref<mlir::Value()> position, mlir::Value column,
                               int64_t rotated, int64_t grain);

} // namespace sluice::cpu
