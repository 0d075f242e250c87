// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Opens the data of a run. A resumed run reads the same data, and streams from their copies.
#pragma once

#include "sluice/Runtime/Execute/HeldOut.h"
#include "sluice/Runtime/Train/RunRecord.h"

namespace sluice::runtime {

class RunData {
public:
  RunData(const Path &run, bool isResumed);

  /// Opens the training data. If the hash in the run's checkpoint is the hash of the raw bytes, as
  /// in an older version or with --raw, the files are read raw again.
  std::unique_ptr<TrainingSource> openTraining(SourceFiles files, const Plan &plan, uint64_t seed);
  /// Opens the held-out data; `recorded` has its previous sizes.
  HeldOut openHeldOut(SourceFiles files, const Plan &plan,
                      const std::optional<RunRecord> &recorded);

  /// Replaces the streams in a command by their copies, with sizes and hashes.
  void nameCopies(RunCommand &command) const;
  /// Writes the copies of streams into the run's folder.
  void saveStreams() const;
  /// Returns remarks for the user on how data was opened, one per line.
  const std::vector<std::string> &notes() const { return lines; }

private:
  /// Throws UserError for a stream without a copy whose bytes differ from the bytes that the run
  /// started with.
  void refuseOtherStream() const;
  std::shared_ptr<StreamCopies> makeCopies(const std::string &prefix) const;

  Path run;
  bool isResumed;
  std::shared_ptr<StreamCopies> training, heldOut;
  std::vector<std::string> lines;
};

} // namespace sluice::runtime
