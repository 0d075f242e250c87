// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Processes.h"

#include "CommandLine.h"
#include "Commands.h"
#include "Failures.h"
#include "Progress.h"
#include "sluice/Driver/SpecFacts.h"
#include "sluice/Runtime/Data/TokenIds.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/Hash.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <thread>
#include <unistd.h>

namespace sluice::cli {

using namespace sluice::runtime;

void addProcessOptions(CLI::App &command, ProcessOptions &options) {
  command
      .add_option("--wait-limit", options.waitLimit,
                  "Under mpirun: seconds that a process waits for a silent one before the job ends "
                  "with an error; more than a step takes")
      ->type_name("SECONDS")
      ->check(wholeNumber(1, 1000000));
  command
      .add_option(
          "--log-ranks", options.logRanks,
          "Under mpirun: whose messages are printed; first: those of rank 0; all: each with "
          "its rank")
      ->check(matchChoice({"first", "all"}));
}

int64_t launchedRank() {
  std::optional<Launcher> launcher = findLauncher();
  return launcher ? launcher->rank : 0;
}

bool isLaunchedTogether() {
  std::optional<Launcher> launcher = findLauncher();
  return launcher && launcher->isParallel();
}

/// Checks for a script of sbatch, which is one process; srun sets another variable.
static bool isInScript(const Launcher &launcher) { return launcher.variable == "SLURM_NTASKS"; }

void requireOneProcess(const std::string &command) {
  std::optional<Launcher> launcher = findLauncher();
  if (launcher && launcher->size > 1 && !isInScript(*launcher)) {
    throw UserError("sluice " + command + ": expected one process, found " +
                    std::to_string(launcher->size) + " (" + launcher->variable +
                    "); only sluice train, eval and logits run under " + launcher->name +
                    ": start this command without it");
  }
}

std::unique_ptr<ProcessGroup> joinProcesses(const ProcessOptions &options) {
  std::optional<Launcher> launcher = findLauncher();
  if (!launcher || !launcher->isParallel() || (options.mayBeInScript && isInScript(*launcher))) {
    return nullptr;
  }
  setMessageRank(launcher->rank, /*isMuted=*/false); // the cause may be on one machine
  auto group =
      std::make_unique<ProcessGroup>(joinByMpi(*launcher), std::chrono::seconds(options.waitLimit));
  bool showsAll = options.logRanks == "all";
  setMessageRank(group->rank(), !showsAll && !group->isFirst(), showsAll);
  setLineStart(showsAll ? "rank " + std::to_string(group->rank()) + ": " : "");
  installFailureHandlers(); // MPI has some of its own
  if (group->size() == 1) {
    group->end();
    return nullptr;
  }
  return group;
}

/// Reports a failure to the other processes, if any. Rank 0 prints it, or this process if the
/// others did not answer: they may wait for data.
static void failTogether(ProcessGroup *group, const std::string &message) {
  group->fail(message);
  if (group->isLost()) {
    setMessageRank(group->rank(), /*isMuted=*/false);
  }
}

/// Reports a failure and prints it, while the group exists: its processes end together. The
/// launcher ends all of them once one has ended.
[[noreturn]] static void endTogether(ProcessGroup *group, const std::string &message,
                                     int64_t reportTime) {
  if (!group) {
    throw;
  }
  failTogether(group, message);
  int status = explainException();
  if (group->isIncomplete() && !group->isFirst()) { // rank 0 may be saving
    std::this_thread::sleep_for(std::chrono::seconds(reportTime));
  }
  throw ExitStatus{status};
}

void runTogether(const ProcessOptions &options, const std::function<void(ProcessGroup *)> &job) {
  std::unique_ptr<ProcessGroup> group = joinProcesses(options);
  try {
    job(group.get());
  } catch (const LostPeerError &) {
    setMessageRank(group->rank(), /*isMuted=*/false); // rank 0 may be the lost one
    if (!group->isFirst()) {
      std::this_thread::sleep_for(std::chrono::seconds(options.reportTime));
    }
    throw;
  } catch (const std::bad_alloc &) {
    endTogether(group.get(), "out of memory", options.reportTime);
  } catch (const std::exception &error) {
    endTogether(group.get(), error.what(), options.reportTime);
  }
}

void finishTogether(ProcessGroup *group) {
  if (group) {
    group->agree(Intent::Finish);
    group->end();
  }
}

/// Returns the first line of a file; empty if it cannot be read.
static std::string readLine(const char *path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// The text that processes have in common if they see the same GPUs: containers share the boot of
/// their machine, and machines may have one name.
static std::string describeMachine() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  const char *visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return sha256Hex(name + ("\n" + readLine("/proc/sys/kernel/random/boot_id")) + "\n" +
                   (visible ? visible : "all"));
}

void shareDevices(DeviceOptions &device, ProcessGroup &group) {
  if (device.device == "emulator") {
    throw UserError("expected --device cpu or cuda for several processes, found --device " +
                    device.device + "; start sluice without a launcher");
  }
  std::string own = device.device + "\n" + describeMachine();
  std::vector<std::string> texts = group.agree(Intent::Continue, own).texts;
  auto getDevice = [](const std::string &text) { return text.substr(0, text.find('\n')); };
  for (size_t rank = 1; rank < texts.size(); ++rank) {
    if (getDevice(texts[rank]) != getDevice(texts.front())) {
      throw UserError("rank " + std::to_string(rank) + ": expected the --device of rank 0, " +
                      getDevice(texts.front()) + ", found " + getDevice(texts[rank]) +
                      "; give all processes the same --device");
    }
  }
  device.gpu.number = std::count(texts.begin(), texts.begin() + group.rank(), own);
  device.gpu.processes = std::ranges::count(texts, own);
}

void shareThreads(DeviceOptions &device) {
  std::optional<Launcher> launcher = findLauncher();
  int available = availableThreads();
  bool isBound = available < ::sysconf(_SC_NPROCESSORS_ONLN); // by the launcher
  if (device.threads == 0 && launcher && launcher->localSize > 1 && !isBound) {
    device.threads = std::max(1, available / static_cast<int>(launcher->localSize));
  }
}

/// Checks for a stage whose loss depends on the texts of its batch.
static bool hasContrast(const nlohmann::json &json) {
  if (json.is_object() && json.value("op", nlohmann::json()) == "contrast") {
    return true;
  }
  return json.is_structured() && std::ranges::any_of(json, hasContrast);
}

std::vector<spec::SpecOverride> divideBatches(const Plan &plan,
                                              const std::vector<spec::SpecOverride> &settings,
                                              int64_t processes) {
  int64_t batch = plan.model.batch, batches = plan.accumulate, batchTokens = plan.batchTokens;
  if (!settings.empty()) { // checked before
    driver::SpecDescription spec = *driver::describeSpecText(plan.model.spec, settings);
    batch = spec.model.batch;
    batches = spec.accumulate;
    batchTokens = spec.batchTokens;
  }
  int64_t parts = processes / std::gcd(processes, batches);
  if (parts == 1) {
    if (settings.empty() && !plan.gradientSumsOffset) {
      throw UserError(
          "expected a plan with the place of the sums of gradients, found an artifact of "
          "an earlier version; compile the spec again");
    }
    return {};
  }
  std::string found = std::to_string(processes) + " processes for ";
  if (batchTokens > 0) {
    throw UserError(
        "expected a number of processes that divides \"accumulate\", as batches by length "
        "have no fixed rows, found " +
        found + std::to_string(batches) +
        " batches; give --set training.accumulate=" + std::to_string(std::lcm(batches, processes)) +
        " with batches of fewer tokens, or another number of processes");
  }
  if (batch % parts != 0) {
    throw UserError(
        "expected a number of processes that divides the rows of an update, \"batch\" times "
        "\"accumulate\", found " +
        found + std::to_string(batch) + " x " + std::to_string(batches) +
        " rows; start another number of processes");
  }
  if (hasContrast(nlohmann::json::parse(plan.model.spec, nullptr, false))) {
    throw UserError(
        "expected a number of processes that divides \"accumulate\", as the losses of a "
        "contrast depend on all rows of a batch, found " +
        found + std::to_string(batches) + " batches; start another number of processes");
  }
  return {{"", {"batch"}, std::to_string(batch / parts)},
          {"", {"training", "accumulate"}, std::to_string(batches * parts)}};
}

void refuseStreams(const std::string &flag, const std::vector<std::string> &files) {
  for (const std::string &file : files) {
    size_t equals = file.find('=');
    bool isNamed =
        (flag.ends_with("input") || flag.ends_with("labels")) && equals != std::string::npos;
    Path path = splitTokenPath(isNamed ? file.substr(equals + 1) : file).second;
    bool isStream = path == "-" || (isThere(path) && !isRegularFile(path) && !isFolder(path));
    if (isStream) {
      throw UserError(flag + ": expected files, which all processes can read, found the stream " +
                      path.string() + "; write it to a file");
    }
  }
}

void shareFiles(ProcessGroup &group, DeviceOptions &device,
                const std::vector<std::pair<std::string, std::vector<std::string>>> &files) {
  for (const auto &[flag, paths] : files) {
    refuseStreams(flag, paths);
  }
  shareDevices(device, group);
  shareThreads(device);
}

} // namespace sluice::cli
