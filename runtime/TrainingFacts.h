// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What training measures, records and says of a run, apart from the order in which it does so.
#pragma once

#include "sluice/Runtime/Trainer.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace sluice::runtime {

/// Throws UserError where a number is out of its range.
void checkOptions(const TrainingOptions &options);

/// Files for the run's record, those that are used first.
std::vector<DataFile> listFiles(const std::vector<ByteFile> &used,
                                const std::vector<ByteFile> &skipped);

/// True where the head trains on the text's own tokens; false with smoothed labels and where it has
/// a target. `loss` is then no measure of the text, and training has no bits per byte. Held-out
/// text is always scored by its tokens.
bool trainsOnTokens(const Plan &plan);

/// The line of metrics of the update that just ran, without its speed.
nlohmann::json describeStep(Executor &executor, int64_t step, double objective, double norm);

/// Adds the factors of segments, where there are some, from the mean losses by name.
void addShortening(nlohmann::json &metrics, const char *key, const nlohmann::json &losses,
                   const Plan &plan);

/// Adds what an evaluation measured.
void addEvaluation(nlohmann::json &metrics, const EvaluationResult &result, const Plan &plan);

/// The head's mean loss on the batch that was evaluated last, without the rows of padding.
double readHeadLoss(Executor &executor);

/// Draws the run's sample, the line of samples.jsonl; `ends` is asked after each token.
nlohmann::json drawSample(Executor &executor, const TrainingOptions &options,
                          const TrainingState &state, const std::function<bool()> &ends);

/// A hash of the first `tokens` tokens of held-out text, 0 for all: of what an evaluation scores.
std::string hashHeldOut(const HeldOut &heldOut, int64_t tokens);

/// What a user should know before the step after `done`. `data` is null where no step needs any.
std::vector<std::string> listNotes(const TrainingOptions &options, const TrainingSource *data,
                                   const HeldOut &heldOut, const Plan &plan, int64_t done,
                                   int64_t goal);

/// Why a run ends after `step`, before its goal.
std::string describeImpatience(int64_t step, int64_t goal, int64_t worse);
std::string describeBest(const MeasuredLoss &best);

/// The flags whose files the hash of the data is of.
std::string nameDataFlags(const SourceFiles &files);

/// Returns a note where this call evaluates no held-out text or another one than the run had, or
/// where the record before it has no hash of the text; else an empty string.
std::string describeHeldOutChange(const RunRecord &before, const RunRecord &now, bool isEvaluated);

/// How training data differ from those of the run that is resumed: the first file that does, where
/// the run's record has files, else the hashes.
std::string describeOtherTrainingData(const std::optional<RunCommand> &told,
                                      const std::optional<RunCommand> &now, const Path &run,
                                      const std::string &toldHash, const std::string &hash);

} // namespace sluice::runtime
