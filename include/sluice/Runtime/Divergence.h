// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Judges from the losses of a run's steps whether training has diverged.
#pragma once

#include <cstdint>

namespace sluice::runtime {

/// The state of a judge. A checkpoint stores it, so that a resumed run continues it exactly.
struct LossTrend {
  double margin = 0;    ///< nats: ln V, what a uniform guess loses
  int64_t losses = 0;   ///< judged so far
  double average = 0;   ///< moving average, nats
  double best = 0;      ///< minimum of the moving average
  int64_t bestStep = 0; ///< where it was
  int64_t above = 0;    ///< successive losses after which the average exceeded the bound
  int64_t since = 0;    ///< the first step of the divergence; 0: there is none

  bool isDiverged() const { return since > 0; }
  /// The run has diverged where its average stays above this.
  double bound() const { return best + margin; }
};

/// The change that a loss caused.
enum class TrendChange { None, Diverged, Recovered };

/// Training has diverged when the moving average of the head's loss stays above the run's own
/// minimum by ln V for `divergedSteps` steps. It has recovered when half of that distance is left.
///
/// The average is a mean of the first `averagedSteps` losses, and exponential from there on. One
/// loss counts as `best` + 3 `margin` at most: a single spike of any height moves the average by
/// 0.15 `margin`, and never alone counts as a divergence.
class DivergenceJudge {
public:
  static constexpr int64_t divergedSteps = 20, averagedSteps = 20;

  explicit DivergenceJudge(int64_t vocabulary);
  explicit DivergenceJudge(const LossTrend &trend) : state(trend) {}

  /// Judges the head's mean loss of a step, in nats. A loss of exactly 0 is that of an update
  /// whose rows all have the weight 0, and is left out.
  TrendChange add(int64_t step, double loss);

  const LossTrend &trend() const { return state; }

private:
  LossTrend state;
};

} // namespace sluice::runtime
