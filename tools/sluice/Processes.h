// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Several processes of the program, which a launcher started.
#pragma once

#include "Common.h"
#include "sluice/Runtime/Processes/Launcher.h"
#include "sluice/Spec/Override.h"

#include <memory>
#include <string>
#include <vector>

namespace sluice::cli {

/// Flags of a command that several processes may run.
struct ProcessOptions {
  int64_t waitLimit = 600; ///< seconds
  std::string logRanks = "first";
};
void addProcessOptions(CLI::App &command, ProcessOptions &options);

/// Returns the rank in the launcher's environment; 0 without a launcher.
int64_t launchedRank();

/// Checks for a launcher that started several processes.
bool isLaunchedTogether();

/// Throws UserError if a launcher started several processes.
void requireOneProcess(const std::string &command);

/// Joins the processes that the launcher started; null if there is one. Messages of ranks other
/// than 0 are muted, unless `options` shows all. Throws UserError if they cannot be joined.
std::unique_ptr<runtime::ProcessGroup> joinProcesses(const ProcessOptions &options);

/// Checks that all processes of the group run on the same kind of device, and chooses the GPU of
/// this one: its rank among the processes that see the same GPUs. Throws UserError on all
/// processes.
void shareDevices(DeviceOptions &device, runtime::ProcessGroup &group);

/// Sets the number of threads for a process of the group if no flag set it, so that the processes
/// of a machine share its processors.
void shareThreads(DeviceOptions &device);

/// Returns the settings that divide the batches of a spec with `settings` among the processes:
/// batches of fewer rows, and more of them in an update. Empty if the processes can share the
/// batches as they are. Throws UserError if the processes do not divide the rows of an update, or
/// if a division would change the loss.
std::vector<spec::SpecOverride> divideBatches(const runtime::Plan &plan,
                                              const std::vector<spec::SpecOverride> &settings,
                                              int64_t processes);

/// Throws UserError for a stream, which only one process could read.
void refuseStreams(const std::string &flag, const std::vector<std::string> &files);

} // namespace sluice::cli
