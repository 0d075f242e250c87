// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads and writes RUN/run.json, the parameters of a run, for `--resume` and reports.
#pragma once

#include "sluice/Runtime/Train/RunCommand.h"
#include "sluice/Support/Files.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sluice::runtime {

/// Settings of the spec that `sluice train --set` changed in a run.
struct SpecChange {
  int64_t step = 0;                  ///< number of finished steps at the change
  std::vector<std::string> settings; ///< KEY=VALUE, as given
  std::string specHash;              ///< SHA-256 of the changed spec
};

/// Returns "training.learning_rate=1e-4, training.clip=2".
std::string listSettings(std::span<const std::string> settings);

/// The initial weights of a run.
struct StartingWeights {
  std::string file; ///< path
  /// Names of the model's tensors; `left`: initialized at random.
  std::vector<std::string> taken, left;
};

struct DataFile {
  std::string path;
  int64_t bytes = 0;
  bool used = true;                   ///< false: too short for one row
  std::optional<int64_t> tokens = {}; ///< number of token ids; empty for a text

  int64_t tokenCount() const { return tokens.value_or(bytes); }
};

struct RunRecord {
  int64_t steps = 0, seed = 0;        ///< `steps`: total number, as last requested
  std::optional<int64_t> epochs = {}; ///< that `steps` was counted from
  std::string specHash;               ///< SHA-256 of the spec of the artifact that started the run
  std::vector<SpecChange> changes;    ///< in order; each is in force from its step on
  std::vector<DataFile> data, heldOut;
  std::optional<StartingWeights> weights;
  std::optional<RunCommand> command = {}; ///< empty for runs of older versions

  /// Returns the hash of the spec that the run uses now.
  const std::string &currentSpec() const {
    return changes.empty() ? specHash : changes.back().specHash;
  }
  /// Checks for a spec that the run has used at any time.
  bool knows(const std::string &hash) const;
  /// Returns the settings of all changes, in order.
  std::vector<std::string> settings() const;
};

/// Reads the record of a run. Empty if the file is missing, as in runs of older versions. Throws
/// UserError if it is damaged.
std::optional<RunRecord> readRunRecord(const Path &run);

void writeRunRecord(const Path &run, const RunRecord &record);

RunRecord parseRunRecord(const StrictJson &json);
nlohmann::json toJson(const RunRecord &record);

} // namespace sluice::runtime
