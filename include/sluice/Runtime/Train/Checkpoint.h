// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checkpoints of a run, and loading weights. A run's folder holds
//   checkpoints/STEP/weights.safetensors, optimizer.safetensors, state.json
//   latest                      step of the newest complete checkpoint; written last
#pragma once

#include "sluice/Runtime/Data/Data.h"
#include "sluice/Runtime/Data/Safetensors.h"
#include "sluice/Runtime/Execute/Executor.h"
#include "sluice/Runtime/Train/RunLosses.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace sluice::runtime {

/// The state of a run that is resumed, except its tensors.
struct TrainingState {
  int64_t step = 0; // number of finished steps
  int64_t seed = 0;
  DataPosition position;
  std::string dataHash;    // hash of the training data
  int64_t batchTokens = 0; // most tokens of a batch of lines by length; 0: batches of any lines
  std::string specHash;    // hash of the artifact's spec
  std::optional<RunLosses> losses; // empty in checkpoints of older versions
  std::string tokenizer;           // hash of the tokenizer, written into the weights; empty: none
};

/// Writes checkpoint `state.step` of the run: writes a temporary folder, fsyncs every file, renames
/// the folder, and then replaces `latest`. Prunes checkpoints to `keep` afterwards. Throws
/// NotFiniteError, and leaves the run unchanged, if a weight or a state is not finite.
void saveCheckpoint(const Path &run, Executor &executor, const TrainingState &state, int64_t keep);

/// Removes the checkpoints up to `latest`, except the newest `keep` (>= 1), the best one
/// (chooseBest), and the one to continue from (chooseSound).
void pruneCheckpoints(const Path &run, int64_t keep);

/// Returns the steps of the run's checkpoints in ascending order.
std::vector<int64_t> checkpointSteps(const Path &run);

/// Reads the state, without tensors, of the run's checkpoint at `step`, by default the latest.
/// Throws UserError if it is missing or damaged.
TrainingState readTrainingState(const Path &run, std::optional<int64_t> step = {});

/// Loads the run's checkpoint at `step`, by default the latest, into the executor's tensors and
/// states. Throws UserError if a file is missing, truncated, damaged or belongs to another model;
/// the executor's tensors are then unspecified.
TrainingState loadCheckpoint(const Path &run, Executor &executor, std::optional<int64_t> step = {});

/// Receives a line to show to the user.
using Notice = std::function<void(const std::string &)>;

/// Returns the path and the bytes of the weights in a safetensors file, in a checkpoint's folder,
/// or in the latest checkpoint of a run, whose path may also be the run's file "latest". For
/// checkpoints, verifies the checksum. With `step`, the path must be a run, and its checkpoint at
/// this step is read.
std::pair<Path, FileMemory> readWeights(const Path &path, std::optional<int64_t> step = {});

/// Returns the hash of the tokenizer in the weights that `readWeights` finds, whose tensors are not
/// read; empty if they have none, or if there are no weights.
std::string readTokenizerHash(const Path &weights, std::optional<int64_t> step = {});

/// Returns a note that a file of weights has no checksum.
std::string describeMissingChecksum(const Path &file);

/// Reports to `notice` if `path` is a run whose latest checkpoint is far worse than another one.
void noteWorseLatest(const Path &path, const Notice &notice);

/// Loads weights from a safetensors file, a checkpoint's folder, or a run's folder: from its
/// checkpoint at `step`, by default the latest, even while another process replaces it. Returns the
/// path of the file. `notice` receives a line if the file has no checksum or a copy of a tensor, or
/// if the run's latest checkpoint is far worse than another one.
Path loadWeights(const Path &path, Executor &executor, const Notice &notice = {},
                 std::optional<int64_t> step = {}, const WeightNames &names = {});

/// Returns the step that `latest` names, or -1 if the run has no checkpoint yet.
int64_t latestStep(const Path &run);

/// Returns latestStep, or the newest checkpoint's step if `latest` is missing because a process was
/// killed between writing its first checkpoint and `latest`.
int64_t newestCheckpoint(const Path &run);

/// Writes `latest` with the newest checkpoint if it is missing. Returns whether it was written.
bool adoptNewestCheckpoint(const Path &run);

/// Removes unfinished saves of killed processes. The caller must hold the run's lock.
void removeUnfinishedSaves(const Path &run);

} // namespace sluice::runtime
