// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Schedules as integer arithmetic in a row kernel.
#pragma once

#include "RowsBuilder.h"
#include "sluice/Dialect/Sluice/Step.h"

namespace sluice {

mlir::Value constant(mlir::ImplicitLocOpBuilder &b, int64_t value);
/// Computes N(t), the number of rows that steps up to t have computed; 0 before the first step.
mlir::Value emitRowCount(mlir::ImplicitLocOpBuilder &b, ScheduleOp schedule, mlir::Value t);
/// Packs three numbers into a row.
mlir::Value packRow(RowsBuilder &rows, mlir::Value start, mlir::Value count, mlir::Value length);

} // namespace sluice
