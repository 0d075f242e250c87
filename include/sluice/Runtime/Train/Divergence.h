// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Detects divergence of training from the losses of a run's steps.
#pragma once

#include <cstdint>

namespace sluice::runtime {

/// The state of a DivergenceJudge. A checkpoint stores it, so that a resumed run continues exactly.
struct LossTrend {
  double margin = 0;    ///< nats: ln V, the loss of a uniform prediction
  int64_t losses = 0;   ///< number of losses so far
  double average = 0;   ///< moving average, nats
  double best = 0;      ///< minimum of the moving average
  int64_t bestStep = 0; ///< step of the minimum
  int64_t above = 0;    ///< successive losses after which the average exceeded the bound
  int64_t since = 0;    ///< first step of the divergence; 0: none

  bool isDiverged() const { return since > 0; }
  /// Returns the bound: the run has diverged when its average stays above it.
  double bound() const { return best + margin; }
};

/// The change that a loss caused.
enum class TrendChange { None, Diverged, Recovered };

/// Training has diverged when the moving average of the head's loss stays above the run's own
/// minimum by ln V for `divergedSteps` steps. It has recovered when the average is at most half of
/// ln V above the minimum.
///
/// The average is the mean of the first `averagedSteps` losses, and exponential afterwards. A loss
/// is clamped to `best` + 3 `margin`: a single spike of any height moves the average by 0.15
/// `margin`, and never counts as a divergence by itself.
class DivergenceJudge {
public:
  static constexpr int64_t divergedSteps = 20, averagedSteps = 20;

  explicit DivergenceJudge(int64_t vocabulary);
  explicit DivergenceJudge(const LossTrend &trend) : state(trend) {}

  /// Adds the head's mean loss of a step, in nats. A loss of exactly 0 comes from an update whose
  /// rows all have weight 0, and is ignored.
  TrendChange add(int64_t step, double loss);

  const LossTrend &trend() const { return state; }

private:
  LossTrend state;
};

} // namespace sluice::runtime
