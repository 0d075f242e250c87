// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Recurrences over rows.
#pragma once

#include "sluice/Dialect/Sluice/Sluice.h"

#define GET_OP_CLASSES
#include "sluice/Dialect/Sluice/RecurrenceOps.h.inc"
