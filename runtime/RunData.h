// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The data of a run: opened as the run that is resumed read them, and with the run's own copies of
// streams.
#pragma once

#include "sluice/Runtime/RunRecord.h"
#include "sluice/Runtime/Sources.h"

namespace sluice::runtime {

class RunData {
public:
  RunData(const Path &run, bool isResumed);

  /// Opens the training data. Files that are text now and were read raw when the run began (by an
  /// older version, or with --raw) are read raw again: the hash in the run's checkpoint shows it.
  std::unique_ptr<TrainingSource> openTraining(SourceFiles files, const Plan &plan, uint64_t seed);
  /// Opens the held-out data; `told` has the sizes that they had.
  HeldOut openHeldOut(SourceFiles files, const Plan &plan, const std::optional<RunRecord> &told);

  /// Puts the copies of streams, with their sizes and hashes, in the place of the streams in a
  /// command.
  void nameCopies(RunCommand &command) const;
  /// Writes the copies of streams into the run's folder.
  void saveStreams() const;
  /// What a user should know of how data were opened, a line each.
  const std::vector<std::string> &notes() const { return lines; }

private:
  /// Throws UserError: a stream has no copy, and other bytes than those that the run began with.
  void refuseOtherStream() const;
  std::shared_ptr<StreamCopies> makeCopies(const std::string &prefix) const;

  Path run;
  bool isResumed;
  std::shared_ptr<StreamCopies> training, heldOut;
  std::vector<std::string> lines;
};

} // namespace sluice::runtime
