// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Records the losses of a run in a checkpoint's state.json, and selects the checkpoint of a run to
// continue from.
#pragma once

#include "sluice/Runtime/Train/Divergence.h"
#include "sluice/Support/Files.h"

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <vector>

namespace sluice {
class StrictJson;
}

namespace sluice::runtime {

/// A mean loss of the head, and the step after which it was measured.
struct MeasuredLoss {
  int64_t step = 0;
  double nats = 0;
};

/// The losses on held-out text so far.
struct HeldOutTrend {
  std::optional<MeasuredLoss> last, best;
  int64_t worse = 0; ///< number of evaluations since the best one
  std::string text;  ///< hash of the scored text; losses on different texts are not comparable
};

/// The losses of a run up to a checkpoint.
struct RunLosses {
  LossTrend trend;
  /// Mean loss of the head with the checkpoint's own weights, over the rows of the last update.
  std::optional<double> own;
  HeldOutTrend heldOut;

  /// Returns the maximum of the moving average and of `own`, in nats. The average lags: after a
  /// recovery, an `own` that is no greater than the run's best average counts alone.
  double quality() const;
};

nlohmann::json toJson(const RunLosses &losses);
RunLosses parseRunLosses(const StrictJson &json);

/// The losses of a checkpoint. They are unknown if an older version saved it, if it was saved
/// before the first step, or if its state.json is damaged.
struct CheckpointLosses {
  int64_t step = 0;
  std::optional<RunLosses> losses;

  /// Returns the held-out loss of this checkpoint if it was measured.
  std::optional<double> heldOut() const;
};

/// Returns the checkpoints up to `latest` in ascending order.
std::vector<CheckpointLosses> readCheckpointLosses(const Path &run);

/// Returns the checkpoint to continue from: the newest one whose quality is within a tenth of ln V
/// of the best quality. A checkpoint that is worse than the best step of the run by ln V is never
/// chosen. If no losses are known, returns the newest checkpoint; null if there is none.
const CheckpointLosses *chooseSound(const std::vector<CheckpointLosses> &checkpoints);

/// Returns the checkpoint with the minimum held-out loss or, if none was measured, with the minimum
/// moving average. Null if no losses are known.
const CheckpointLosses *chooseBest(const std::vector<CheckpointLosses> &checkpoints);

/// Returns "step 20 (loss 2.3105)", the loss with the checkpoint's own weights in nats.
std::string describeCheckpoint(const CheckpointLosses &checkpoint);

/// Returns a line for people if the checkpoint that `latest` names is far worse than another one:
/// by a tenth in held-out loss, or by ln V in training loss compared to the run's best step. Empty
/// otherwise.
std::string describeWorseLatest(const Path &run);

} // namespace sluice::runtime
