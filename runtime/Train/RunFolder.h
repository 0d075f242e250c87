// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The folder of a run: its lock, and the checks before training starts or continues.
#pragma once

#include "sluice/Support/Files.h"

#include <string>

namespace sluice::runtime {

/// Locks the run's folder for one process: two processes that train the same run would mix their
/// metrics.
class RunLock {
public:
  explicit RunLock(const Path &run);
  RunLock(const RunLock &) = delete;
  RunLock &operator=(const RunLock &) = delete;
  ~RunLock();

private:
  int fd;
};

/// Returns whether the folder has a run to continue. False if training of `spec` starts from the
/// beginning: also with --resume if the folder is missing or empty, or if the run was killed before
/// its first checkpoint. Throws if the folder does not match --resume.
bool checkRunFolder(const Path &run, bool resume, const std::string &spec);

/// Removes the files that a run writes before its first checkpoint; with `withFolder`, also the
/// folder.
void forgetRun(const Path &run, bool withFolder);

} // namespace sluice::runtime
