// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Attention.h"
#include "Contract.h"
#include "CrossEntropy.h"
#include "Recurrence.h"
#include "Rows.h"
#include "Segments.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::oracle;

FailureOr<Judgement> sluice::oracle::judge(Operation *dispatch, const OracleLaunch &launch) {
  Judgement judgement;
  judgement.results.resize(dispatch->getNumResults());
  auto with = [&](auto judgeOp) {
    return [&judgement, &launch, judgeOp](auto op) { return judgeOp(op, launch, judgement); };
  };
  LogicalResult result =
      llvm::TypeSwitch<Operation *, LogicalResult>(dispatch)
          .Case<dispatch::RowsOp>(with(judgeRows))
          .Case<dispatch::ContractOp>(with(judgeContract))
          .Case<dispatch::WeightGradientOp>(with(judgeWeightGradient))
          .Case<dispatch::ScatterRowsOp>(with(judgeScatter))
          .Case<dispatch::SegmentScanOp>(with(judgeSegmentScan))
          .Case<dispatch::RecurrenceOp>(with(judgeRecurrence))
          .Case<dispatch::AttentionOp>(with(judgeAttention))
          .Case<dispatch::AttentionBackwardOp>(with(judgeAttentionBackward))
          .Case<dispatch::CrossEntropyOp>(with(judgeCrossEntropy))
          .Case<dispatch::CrossEntropyWeightGradientOp>(with(judgeCrossEntropyWeightGradient))
          .Default([](Operation *other) {
            return other->emitOpError("expected a kernel op of the dispatch dialect");
          });
  if (failed(result)) {
    return failure();
  }
  return judgement;
}
