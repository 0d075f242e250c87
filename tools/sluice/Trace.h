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

/// A line for each token that is read: its effect on segments.
class Trace {
public:
  /// `sink` forwards to it from now on, and the file appears with `close`; nothing happens where
  /// `name` is empty. Throws UserError where the model has no segments or no step.
  Trace(const std::string &name, const runtime::Executor &executor, bool isCached,
        runtime::TextSink &sink);

  /// Puts the whole trace in its place. Throws JobError where it could not be written.
  void close();

private:
  void flush();

  std::optional<OutputFile> file;
  std::string lines; ///< not written yet
};

} // namespace sluice::cli
