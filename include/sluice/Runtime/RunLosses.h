// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a checkpoint's state.json records of the losses of its run, and which checkpoint of a run is
// the one to continue from.
#pragma once

#include "sluice/Runtime/Divergence.h"
#include "sluice/Runtime/Files.h"

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <vector>

namespace sluice::runtime {

class StrictJson;

/// A mean loss of the head, and the step after which it was measured.
struct MeasuredLoss {
  int64_t step = 0;
  double nats = 0;
};

/// Evaluations of held-out text so far.
struct HeldOutTrend {
  std::optional<MeasuredLoss> last, best;
  int64_t worse = 0; ///< evaluations since the best one
  std::string text;  ///< a hash of what was scored; other text makes other losses
};

/// The losses of a run up to a checkpoint.
struct RunLosses {
  LossTrend trend;
  /// Mean loss of the head with the checkpoint's own weights, on the rows of its last update.
  std::optional<double> own;
  HeldOutTrend heldOut;

  /// Nats: the larger one of the moving average, which lags, and of `own`.
  double quality() const;
};

nlohmann::json toJson(const RunLosses &losses);
RunLosses parseRunLosses(const StrictJson &json);

/// A checkpoint of a run; no losses are known where an older version saved it, where it was saved
/// before the first step, or where its state.json is damaged.
struct CheckpointLosses {
  int64_t step = 0;
  std::optional<RunLosses> losses;

  /// The held-out loss of this very checkpoint, where it was measured.
  std::optional<double> heldOut() const;
};

/// The checkpoints up to `latest`, ascending.
std::vector<CheckpointLosses> readCheckpointLosses(const Path &run);

/// The checkpoint to continue from: the newest one whose quality is the best of all but for a tenth
/// of ln V. One that is worse than the best step of the run by ln V is never chosen. Where no
/// losses are known, the newest; null where there is none.
const CheckpointLosses *chooseSound(const std::vector<CheckpointLosses> &checkpoints);

/// The checkpoint of the minimum held-out loss; where none was measured, that of the minimum
/// moving average. Null where no losses are known.
const CheckpointLosses *chooseBest(const std::vector<CheckpointLosses> &checkpoints);

/// "step 20 (loss 2.3105)"; the loss is that of the checkpoint's own weights, in nats.
std::string describeCheckpoint(const CheckpointLosses &checkpoint);

/// A line for people where the checkpoint that `latest` names is far worse than another one by its
/// held-out loss (a tenth), or than the run's best step by its training loss (ln V). Empty where it
/// is not.
std::string describeWorseLatest(const Path &run);

} // namespace sluice::runtime
