// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The file of `generate --trace`.
#pragma once

#include "sluice/Runtime/Executor.h"
#include "sluice/Runtime/Generator.h"

#include <fstream>
#include <string>
#include <vector>

namespace sluice::cli {

/// A line for each token that is read: what it did to segments.
class Trace {
public:
  /// `sink` tells it from now on; nothing happens where `name` is empty. Throws UserError where the
  /// model has no segments or no step.
  Trace(const std::string &name, const runtime::Executor &executor, bool isCached,
        runtime::TextSink &sink);

  /// Throws JobError where a line could not be written.
  void close();

private:
  void requireWritten() const;

  std::string name;
  std::ofstream file;
};

/// Throws UserError where a trace would replace one of the files that are read, or the session that
/// is saved.
void checkTrace(const std::string &name, const std::vector<std::string> &read,
                const std::string &saved);

} // namespace sluice::cli
