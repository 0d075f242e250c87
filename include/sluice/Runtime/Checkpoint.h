// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checkpoints of a run, and loading weights. A run's folder holds
//   checkpoints/STEP/weights.safetensors, optimizer.safetensors, state.json
//   latest                      the step of the newest whole checkpoint; moves last
#pragma once

#include "sluice/Runtime/Data.h"
#include "sluice/Runtime/Executor.h"
#include "sluice/Runtime/RunLosses.h"
#include "sluice/Runtime/Safetensors.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace sluice::runtime {

/// Everything besides tensors that a resumed run continues from.
struct TrainingState {
  int64_t step = 0; // finished steps
  int64_t seed = 0;
  DataPosition position;
  std::string dataHash;            // of the training data
  std::string specHash;            // of the artifact's spec
  std::optional<RunLosses> losses; // none in checkpoints of older versions
};

/// Writes checkpoint `state.step` of the run: to a temporary folder, every file fsynced, renamed,
/// then `latest` is replaced. Then prunes to `keep`.
/// Throws NotFiniteError, and leaves the run as it was, where a weight or a state is not finite.
void saveCheckpoint(const Path &run, Executor &executor, const TrainingState &state, int64_t keep);

/// Removes all checkpoints up to `latest` but the newest `keep` (>= 1) of them, the best one and
/// the one to continue from (chooseBest, chooseSound).
void pruneCheckpoints(const Path &run, int64_t keep);

/// Steps of the checkpoints that the run has, ascending.
std::vector<int64_t> checkpointSteps(const Path &run);

/// The state of the run's checkpoint of `step`, or without one of its latest, without tensors.
/// Throws UserError where it is missing or damaged.
TrainingState readTrainingState(const Path &run, std::optional<int64_t> step = {});

/// Loads the run's checkpoint of `step`, or without one its latest, into the executor's tensors and
/// states. Throws UserError where a file is missing, cut short, damaged or of another model; the
/// executor's tensors are then to be considered undefined.
TrainingState loadCheckpoint(const Path &run, Executor &executor, std::optional<int64_t> step = {});

/// Gets one line that a user should see.
using Notice = std::function<void(const std::string &)>;

/// The path and the bytes of the weights in a safetensors file, a checkpoint's folder or a run's
/// folder, which its file "latest" names too. Of the last two the checkpoint's own checksum is
/// checked. With `step` the path must be a run, whose checkpoint of that step is read.
std::pair<Path, std::vector<uint8_t>> readWeights(const Path &path,
                                                  std::optional<int64_t> step = {});

/// Returns the note that a file of weights holds no checksum.
std::string describeMissingChecksum(const Path &file);

/// Gives `notice` a line where `path` is a run whose latest checkpoint is far worse than another
/// one of the run.
void noteWorseLatest(const Path &path, const Notice &notice);

/// Loads weights from a safetensors file, a checkpoint's folder or a run's folder (its latest
/// checkpoint, also while another process replaces it; or that of `step`). Returns
/// the path of the file that was read. `notice` gets a line where that file holds no checksum or a
/// copy of a tensor, and
/// where a run's latest checkpoint is far worse than another one of the run.
Path loadWeights(const Path &path, Executor &executor, const Notice &notice = {},
                 std::optional<int64_t> step = {}, const WeightNames &names = {});

/// The step that `latest` names, or -1 where the run has no checkpoint yet.
int64_t latestStep(const Path &run);

/// The same; where there is no `latest` (a process was killed between its first checkpoint and that
/// file), the newest checkpoint's step.
int64_t newestCheckpoint(const Path &run);

/// Makes `latest` name the newest checkpoint where there is no `latest`. Returns whether it did.
bool adoptNewestCheckpoint(const Path &run);

/// Removes what saves of killed processes left. To be called by the process that holds the run.
void removeUnfinishedSaves(const Path &run);

} // namespace sluice::runtime
