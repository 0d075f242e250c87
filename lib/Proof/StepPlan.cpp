// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Proof/StepPlan.h"
#include "sluice/Dialect/Sluice/Reference.h"

#include <limits>

using namespace mlir;
using namespace sluice;

int64_t StepSchedule::getCount(int64_t t) const {
  int64_t count = std::numeric_limits<int64_t>::max();
  for (AffineExpr expression : counts) {
    count = std::min(count, reference::evaluateAffine(expression, t, 0, 0));
  }
  return std::max<int64_t>(0, count);
}

int64_t StepSchedule::getDue(int64_t m) const {
  int64_t step = 0;
  for (AffineExpr expression : due) {
    step = std::max(step, reference::evaluateAffine(expression, m, 0, 0));
  }
  return step;
}

StepSchedule sluice::everyStep(MLIRContext *context) {
  AffineExpr step = getAffineDimExpr(0, context);
  StepSchedule schedule;
  schedule.due = {step};
  schedule.counts = {step + 1};
  return schedule;
}
