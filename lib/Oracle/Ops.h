// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checkers of each family of dispatch ops.
#pragma once

#include "Body.h"

namespace sluice::oracle {

llvm::LogicalResult judgeRows(dispatch::RowsOp op, const Launch &launch, Judgement &judgement);
llvm::LogicalResult judgeContract(dispatch::ContractOp op, const Launch &launch,
                                  Judgement &judgement);
llvm::LogicalResult judgeWeightGradient(dispatch::WeightGradientOp op, const Launch &launch,
                                        Judgement &judgement);
llvm::LogicalResult judgeScatter(dispatch::ScatterRowsOp op, const Launch &launch,
                                 Judgement &judgement);
llvm::LogicalResult judgeSegmentScan(dispatch::SegmentScanOp op, const Launch &launch,
                                     Judgement &judgement);
llvm::LogicalResult judgeAttention(dispatch::AttentionOp op, const Launch &launch,
                                   Judgement &judgement);
llvm::LogicalResult judgeAttentionBackward(dispatch::AttentionBackwardOp op, const Launch &launch,
                                           Judgement &judgement);
llvm::LogicalResult judgeCrossEntropy(dispatch::CrossEntropyOp op, const Launch &launch,
                                      Judgement &judgement);
llvm::LogicalResult judgeCrossEntropyWeightGradient(dispatch::CrossEntropyWeightGradientOp op,
                                                    const Launch &launch, Judgement &judgement);

} // namespace sluice::oracle
