// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The folder of a run: who holds it, and what it must hold before training begins or goes on.
#pragma once

#include "sluice/Runtime/Files.h"

#include <string>

namespace sluice::runtime {

/// The folder in a run for its copies of streams.
inline constexpr const char *streamsFolder = "data";

/// Holds the run's folder for one process: two that train into one run would mix their metrics.
class RunLock {
public:
  explicit RunLock(const Path &run);
  RunLock(const RunLock &) = delete;
  RunLock &operator=(const RunLock &) = delete;
  ~RunLock();

private:
  int fd;
};

/// Whether the folder holds a run to go on with; false where training of `spec` begins: also with
/// --resume where there is no folder, an empty one, or a run that was killed before its first
/// checkpoint. Throws where the folder and --resume do not fit one another.
bool checkRunFolder(const Path &run, bool resume, const std::string &spec);

/// Takes away what a run writes before its first checkpoint; the folder too, where asked for.
void forgetRun(const Path &run, bool withFolder);

} // namespace sluice::runtime
