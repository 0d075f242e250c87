// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Judges launches of contractions, weight gradients and scatters.
#pragma once

#include "Body.h"

namespace sluice::oracle {

llvm::LogicalResult judgeContract(dispatch::ContractOp op, const OracleLaunch &launch,
                                  Judgement &judgement);
llvm::LogicalResult judgeWeightGradient(dispatch::WeightGradientOp op, const OracleLaunch &launch,
                                        Judgement &judgement);
llvm::LogicalResult judgeScatter(dispatch::ScatterRowsOp op, const OracleLaunch &launch,
                                 Judgement &judgement);

} // namespace sluice::oracle
