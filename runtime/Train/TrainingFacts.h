// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Measurements, records and messages of a training, independent of their order in time.
#pragma once

#include "sluice/Runtime/Train/Trainer.h"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace sluice::runtime {

/// Throws UserError if a number is out of range.
void checkOptions(const TrainingOptions &options);

/// Returns the files for the run's record: used files first.
std::vector<DataFile> listFiles(const std::vector<ByteFile> &used,
                                const std::vector<ByteFile> &skipped);

/// Returns true if the head is trained on the text's own tokens; false with label smoothing or with
/// a target. In the latter case `loss` does not measure the text, and training has no bits per
/// byte. Held-out text is always scored by its tokens.
bool trainsOnTokens(const Plan &plan);

/// Returns the line of metrics of the last update, without its speed.
nlohmann::json describeStep(Executor &executor, int64_t step, double objective, double norm,
                            bool isText);

/// The rows that kernels compute on the axes of lines, for the batches of an update.
struct RowCounts {
  struct Rows {
    int64_t computed = 0, padding = 0; ///< `padding` of the computed rows have no token
  };
  void add(const Plan &plan, const BatchInputs &inputs, int64_t lines);
  /// Adds `rows` to metrics, by axis; nothing if the model has no lines.
  void write(nlohmann::json &metrics) const;

  int64_t batches = 0;
  std::map<std::string, Rows> axes;
};

/// Adds the shortening factors of segments, if any, computed from the mean losses by name.
void addShortening(nlohmann::json &metrics, const char *key, const nlohmann::json &losses,
                   const Plan &plan);

/// Adds the results of an evaluation.
void addEvaluation(nlohmann::json &metrics, const EvaluationResult &result, const Plan &plan);

/// Returns the head's mean loss on the last evaluated batch, without padded rows.
double readHeadLoss(Executor &executor);

/// Generates the run's sample, a line of samples.jsonl; `ends` is called after each token and stops
/// the generation.
nlohmann::json drawSample(Executor &executor, const TrainingOptions &options,
                          const TrainingState &state, const std::function<bool()> &ends);

/// Returns a hash of the first `tokens` tokens of held-out text (0: all), which an evaluation
/// scores.
std::string hashHeldOut(const HeldOut &heldOut, int64_t tokens);

/// Returns remarks for the user before the step after `done`. `data` is null if no step needs data.
std::vector<std::string> listNotes(const TrainingOptions &options, const TrainingSource *data,
                                   const HeldOut &heldOut, const Plan &plan, int64_t done,
                                   int64_t goal);

/// Describes why a run ends after `step`, before its goal.
std::string describeImpatience(int64_t step, int64_t goal, int64_t worse);
/// Describes the evaluation with the minimum loss, in bits per `unit`.
std::string describeBest(const MeasuredLoss &best, const std::string &unit);

/// Returns the flags whose files contribute to the hash of the data.
std::string nameDataFlags(const SourceFiles &files);

/// Returns a note if this call evaluates no held-out text, or another text than the run did, or if
/// the previous record has no hash of the text; otherwise an empty string.
std::string describeHeldOutChange(const RunRecord &before, const RunRecord &now, bool isEvaluated);

/// Describes how training data differs from the data of the resumed run: the first differing file
/// if the run's record has files, otherwise the hashes.
std::string describeOtherTrainingData(const std::optional<RunCommand> &told,
                                      const std::optional<RunCommand> &now, const Path &run,
                                      const std::string &toldHash, const std::string &hash);

} // namespace sluice::runtime
