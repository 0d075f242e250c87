// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Several processes of the program, which a launcher started.
#pragma once

#include "Common.h"
#include "sluice/Runtime/Processes/Launcher.h"
#include "sluice/Spec/Override.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace sluice::cli {

/// Flags of a command that several processes may run.
struct ProcessOptions {
  int64_t waitLimit = 600; ///< seconds
  std::string logRanks = "first";
  /// A script of sbatch, which has the variables of several tasks, runs the command without srun.
  bool mayBeInScript = false;
  /// Seconds after the loss of a process until ranks other than 0 end, if rank 0 does not end them.
  /// A training saves a checkpoint first.
  int64_t reportTime = 60;
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

/// Runs the job of a command: alone, with null, or in the processes that the launcher started, with
/// their group. If a process fails, all end, and rank 0 reports it.
void runTogether(const ProcessOptions &options,
                 const std::function<void(runtime::ProcessGroup *)> &job);

/// Ends the group after a job that is complete on this process, when it is so on all of them. Does
/// nothing for null.
void finishTogether(runtime::ProcessGroup *group);

/// Checks for the process that prints and writes.
inline bool isFirstProcess(const runtime::ProcessGroup *group) {
  return !group || group->isFirst();
}

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

/// Prepares a job in which all processes read `files`, by their flags: rejects streams, and chooses
/// the device and the threads of this process. Throws UserError.
void shareFiles(runtime::ProcessGroup &group, DeviceOptions &device,
                const std::vector<std::pair<std::string, std::vector<std::string>>> &files);

/// Throws UserError for a stream, which only one process could read.
void refuseStreams(const std::string &flag, const std::vector<std::string> &files);

} // namespace sluice::cli
