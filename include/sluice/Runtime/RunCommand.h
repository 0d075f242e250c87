// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The files and flags that a run was given, from which `sluice train --resume RUN` continues it.
#pragma once

#include "sluice/Runtime/Files.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace sluice::runtime {

class StrictJson;

/// A file that a call of `sluice train` named.
struct CommandFile {
  std::string flag;   ///< "ART", "--data", "--eval-labels"
  std::string name;   ///< NAME of a value NAME=FILE, else empty
  std::string path;   ///< absolute; of a file in the run's folder relative to that; "-": a stream
  int64_t bytes = 0;  ///< where it was measured
  std::string sha256; ///< of its contents

  /// The value of the flag, with an absolute path.
  std::string value(const Path &run) const;
  /// Whether the file was a stream, which cannot be read again but from the run's copy.
  bool isStream() const;
};

/// The files and the other flags of the last call of `sluice train` that trained a run.
struct RunCommand {
  std::vector<CommandFile> files; ///< in the order of each flag
  std::map<std::string, std::vector<std::string>> flags;

  std::vector<const CommandFile *> filesOf(const std::string &flag) const;
};

/// The flag of the artifact, which is positional.
inline constexpr const char *artifactFlag = "ART";

/// Flags whose files are in the hash of a run's training data.
bool isTrainingData(const std::string &flag);

/// `path` as a CommandFile of the run holds it.
std::string pathInCommand(const Path &run, const Path &path);

/// Fills in sizes and hashes. A file of the training data that `told` has with the same path and
/// size keeps its hash there, as training compares the data's hash anyway. Throws UserError where
/// one cannot be read.
void measureFiles(RunCommand &command, const Path &run, const std::optional<RunCommand> &told);

/// Throws UserError where a file is no longer what the run was given: it is not there, or has
/// another size or, where `areContentsRead`, other contents. The message has both values.
void requireUnchanged(const CommandFile &file, const Path &run, bool areContentsRead);

/// "found A of N bytes (SHA-256 ...), expected B of ...": the first file of the training data that
/// differs; empty where none does.
std::string describeOtherData(const RunCommand &told, const RunCommand &now, const Path &run);

/// The command that continues a run.
std::string describeResume(const Path &run);

/// `text` as a word of a shell's command line.
std::string quoteForShell(const std::string &text);

RunCommand parseCommand(const StrictJson &json);
nlohmann::json commandToJson(const RunCommand &command);

} // namespace sluice::runtime
