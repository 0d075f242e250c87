// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Judges launches of recurrences.
#pragma once

#include "Body.h"

namespace sluice::oracle {

llvm::LogicalResult judgeRecurrence(dispatch::RecurrenceOp op, const OracleLaunch &launch,
                                    Judgement &judgement);

} // namespace sluice::oracle
