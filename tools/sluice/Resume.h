// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `sluice train --resume RUN`: omitted flags have the values of the run.
#pragma once

#include "sluice/Runtime/Train/RunRecord.h"

#include <CLI/CLI.hpp>

#include <map>
#include <string>
#include <vector>

namespace sluice::cli {

/// The values of the flags that name files, by flag. A flag whose values are NAME=FILE is in
/// `namedFlags`.
using FileValues = std::map<std::string, std::vector<std::string>>;

/// The parts of a call of `train` that determine which run is resumed, and how.
struct ResumeCall {
  std::string &artifact, &out; ///< "" if not given
  std::string value;           ///< of --resume
};

/// Classifies the words of the command line: `--resume RUN`, `--out RUN --resume`, and a value of
/// --resume that is the artifact, as in `--resume ART --out RUN`. Throws UserError if --resume and
/// --out name different runs, and CLI::RequiredError if none names one.
void settleResumedRun(const ResumeCall &call);

/// Sets every flag of `train` that the call omits to the run's value. Returns the set words as
/// text; empty if there are none. Throws UserError if a set file is missing or has changed, or if
/// the run's record lacks an omitted flag.
std::string fillFromRecord(CLI::App &train, const ResumeCall &call);

/// Returns the files and flags of a call of `train`, for the record of its run. `files` has the
/// flags whose values the program may have replaced; the values of others are unchanged.
runtime::RunCommand describeCommand(const CLI::App &train, const std::string &artifact,
                                    const FileValues &files, const Path &run);

} // namespace sluice::cli
