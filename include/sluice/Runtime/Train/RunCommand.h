// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The files and flags of a run, from which `sluice train --resume RUN` continues it.
#pragma once

#include "sluice/Support/Files.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace sluice {
class StrictJson;
}

namespace sluice::runtime {

/// A file in the command line of `sluice train`.
struct CommandFile {
  std::string flag;   ///< "ART", "--data", "--eval-labels"
  std::string name;   ///< NAME in a value NAME=FILE, "uint16" in uint16:FILE, otherwise empty
  std::string path;   ///< absolute, or relative to the run's folder for files in it; "-": a stream
  int64_t bytes = 0;  ///< set by measureFiles
  std::string sha256; ///< hash of the contents

  /// Returns "NAME=" or "uint16:"; empty if there is no name.
  std::string prefix() const;
  /// Returns the value of the flag, with an absolute path.
  std::string value(const Path &run) const;
  /// Checks for a stream, which can only be read again from the run's copy.
  bool isStream() const;
};

/// The files and the other flags of the last `sluice train` command that trained a run.
struct RunCommand {
  std::vector<CommandFile> files; ///< in the order of each flag
  std::map<std::string, std::vector<std::string>> flags;

  std::vector<const CommandFile *> getFiles(const std::string &flag) const;
};

/// The name of the positional argument for the artifact.
inline constexpr const char *artifactFlag = "ART";

/// Checks for flags whose files may be token ids.
bool takesTokenIds(const std::string &flag);

/// Checks for flags whose files contribute to the hash of a run's training data.
bool isTrainingData(const std::string &flag);

/// Returns `path` in the form that CommandFile::path has for the run.
std::string pathInCommand(const Path &run, const Path &path);

/// Computes sizes and hashes. The hash of a file of training data is copied from `told` if the path
/// and the size match, since training verifies the hash of the data in any case. Throws UserError
/// if a file cannot be read.
void measureFiles(RunCommand &command, const Path &run, const std::optional<RunCommand> &told);

/// Throws UserError, with the old and the new value, if a file has changed since the run was given
/// it: it is missing, or has another size or, with `areContentsRead`, other contents.
void requireUnchanged(const CommandFile &file, const Path &run, bool areContentsRead);

/// Returns "found A of N bytes (SHA-256 ...), expected B of ..." for the first file of the training
/// data that differs; empty if none does.
std::string describeOtherData(const RunCommand &told, const RunCommand &now, const Path &run);

/// Returns the command that continues a run, with as many processes as this one is of.
std::string describeResume(const Path &run);

RunCommand parseCommand(const StrictJson &json);
nlohmann::json commandToJson(const RunCommand &command);

} // namespace sluice::runtime
