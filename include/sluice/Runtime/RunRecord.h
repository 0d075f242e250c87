// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN/run.json: what a run was told, which a later `--resume` and a report want to know.
#pragma once

#include "sluice/Runtime/Files.h"
#include "sluice/Runtime/RunCommand.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sluice::runtime {

/// Settings of the spec that were changed in a run (`sluice train --set`).
struct SpecChange {
  int64_t step = 0;                  ///< finished steps when it was made
  std::vector<std::string> settings; ///< KEY=VALUE, as given
  std::string specHash;              ///< SHA-256 of the spec from here on
};

/// "training.learning_rate=1e-4, training.clip=2"
std::string listSettings(std::span<const std::string> settings);

/// Weights that a run began from.
struct StartingWeights {
  std::string file;                     ///< path
  std::vector<std::string> taken, left; ///< names of the model's tensors; `left`: as initialized
};

struct DataFile {
  std::string path;
  int64_t bytes = 0;
  bool used = true; ///< false: shorter than one row
};

struct RunRecord {
  int64_t steps = 0, seed = 0;     ///< steps in all, as last asked for
  std::string specHash;            ///< SHA-256 of the spec of the artifact that began the run
  std::vector<SpecChange> changes; ///< in order; each in force from its step on, and still
  std::vector<DataFile> data, heldOut;
  std::optional<StartingWeights> weights;
  std::optional<RunCommand> command = {}; ///< none of runs of older versions

  /// Of the spec that the run trains by now.
  const std::string &currentSpec() const {
    return changes.empty() ? specHash : changes.back().specHash;
  }
  /// Whether the run trained by this spec at any time.
  bool knows(const std::string &hash) const;
  /// The settings of all changes, in order.
  std::vector<std::string> settings() const;
};

/// None where the run has no such file: it was begun by an older version. Throws UserError where it
/// is damaged.
std::optional<RunRecord> readRunRecord(const Path &run);

void writeRunRecord(const Path &run, const RunRecord &record);

RunRecord parseRunRecord(const StrictJson &json);
nlohmann::json toJson(const RunRecord &record);

} // namespace sluice::runtime
