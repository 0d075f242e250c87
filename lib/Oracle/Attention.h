// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Judges launches of attention.
#pragma once

#include "Body.h"

namespace sluice::oracle {

llvm::LogicalResult judgeAttention(dispatch::AttentionOp op, const OracleLaunch &launch,
                                   Judgement &judgement);
llvm::LogicalResult judgeAttentionBackward(dispatch::AttentionBackwardOp op,
                                           const OracleLaunch &launch, Judgement &judgement);

} // namespace sluice::oracle
