// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Ops of the decode step.
#pragma once

#include "sluice/Dialect/Sluice/Sluice.h"

#define GET_OP_CLASSES
#include "sluice/Dialect/Sluice/StepOps.h.inc"

namespace sluice {

/// Returns the number of rows that steps up to t have computed, t >= -1.
int64_t getRowCount(ScheduleOp schedule, int64_t t);

} // namespace sluice
