// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The file of `generate --trace`.
#pragma once

#include "sluice/Runtime/Execute/Executor.h"
#include "sluice/Runtime/Generate/Generator.h"
#include "sluice/Support/OutputFile.h"

#include <optional>
#include <string>

namespace sluice::cli {

/// One line per read token: its effect on segments.
class Trace {
public:
  /// Forwards to `sink` from now on; the file appears with `close`. Does nothing if `name` is
  /// empty. Throws UserError if the model has no segments or no step.
  Trace(const std::string &name, const runtime::Executor &executor, bool isCached,
        runtime::TextSink &sink);

  /// Moves the complete trace to its path. Throws JobError if it could not be written.
  void close();

private:
  void flush();

  std::optional<OutputFile> file;
  std::string lines; ///< not written yet
};

} // namespace sluice::cli
