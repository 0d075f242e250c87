// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Train/Divergence.h"

#include <algorithm>
#include <cmath>

namespace sluice::runtime {

DivergenceJudge::DivergenceJudge(int64_t vocabulary) {
  state.margin = std::log(static_cast<double>(std::max<int64_t>(2, vocabulary)));
}

TrendChange DivergenceJudge::add(int64_t step, double loss) {
  if (loss == 0) {
    return TrendChange::None;
  }
  bool isFirst = state.losses == 0;
  double most = isFirst ? HUGE_VAL : state.best + 3 * state.margin;
  double counted = std::isfinite(loss) ? std::min(loss, most) : most;
  if (!std::isfinite(counted)) { // there is no average yet
    return TrendChange::None;
  }
  state.losses += 1;
  state.average += (counted - state.average) /
                   static_cast<double>(std::min<int64_t>(state.losses, averagedSteps));
  if (isFirst || state.average < state.best) {
    state.best = state.average;
    state.bestStep = step;
  }
  state.above = state.average > state.bound() ? state.above + 1 : 0;
  if (!state.isDiverged() && state.above >= divergedSteps) {
    state.since = step - divergedSteps + 1;
    return TrendChange::Diverged;
  }
  if (state.isDiverged() && state.average <= state.best + state.margin / 2) {
    state.since = 0;
    return TrendChange::Recovered;
  }
  return TrendChange::None;
}

} // namespace sluice::runtime
