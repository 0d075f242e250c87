// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Resume.h"

#include "sluice/Runtime/Data/TokenIds.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/Shell.h"

#include <algorithm>
#include <array>
#include <optional>

namespace sluice::cli {

using namespace sluice;
using namespace sluice::runtime;

namespace {

/// Flags of one call, or whose values are elsewhere in the run's record and its checkpoints.
constexpr std::array callFlags = {
    "--help", "--resume",       "--out",     "--steps",     "--epochs",         "--seed",
    "--set",  "--match",        "--weights", "--from",      "--weights-prefix", "--ignore",
    "--step", "--kernel-cache", "--force",   "--tokenizer", "--wait-limit",     "--log-ranks"};
constexpr std::array heldOutFlags = {"--eval-data", "--eval-input", "--eval-labels"};
constexpr std::array namedFlags = {"--input", "--labels", "--eval-input", "--eval-labels"};

template <typename List> bool holds(const List &list, const std::string &flag) {
  return std::ranges::find(list, flag) != list.end();
}

/// Returns the long name of a flag; empty for a positional.
std::string longName(const CLI::Option &option) {
  return option.get_lnames().empty() ? "" : "--" + option.get_lnames().front();
}

bool namesFiles(const CLI::Option &option) {
  return option.get_type_name() == "FILE" || holds(namedFlags, longName(option));
}

/// Returns true if a run stores the flag for later calls.
bool isKept(const CLI::Option &option) {
  std::string flag = longName(option);
  return !flag.empty() && !holds(callFlags, flag);
}

CommandFile parseFile(const std::string &flag, const std::string &value, const Path &run) {
  if (auto [type, path] = splitTokenPath(value); !type.empty() && takesTokenIds(flag)) {
    return {flag, type, pathInCommand(run, path), 0, ""};
  }
  size_t equals = holds(namedFlags, flag) ? value.find('=') : std::string::npos;
  bool isNamed = equals != std::string::npos;
  return {flag, isNamed ? value.substr(0, equals) : "",
          pathInCommand(run, isNamed ? value.substr(equals + 1) : value), 0, ""};
}

void set(CLI::Option &option, const std::vector<std::string> &values, std::string &words) {
  for (const std::string &value : values) {
    option.add_result(value);
    words += " " + longName(option);
    bool isFlag = option.get_expected_max() == 0;
    words += !isFlag ? " " + quoteForShell(value) : value == "true" ? "" : "=" + value;
  }
  option.run_callback();
}

/// Flags of a run of an older version that the call must repeat, as far as its record names them.
[[noreturn]] void refuseOldRun(const Path &run, const std::optional<RunRecord> &record) {
  std::string data, heldOut;
  for (const DataFile &file : record ? record->data : std::vector<DataFile>()) {
    data += " " + quoteForShell(file.path);
  }
  for (const DataFile &file : record ? record->heldOut : std::vector<DataFile>()) {
    heldOut += " " + quoteForShell(file.path);
  }
  throw UserError((run / "run.json").string() +
                  ": expected the artifact, data and flags of the run, found none, as an earlier "
                  "version wrote it; give them: sluice train ART --data" +
                  (data.empty() ? " FILE..." : data) +
                  (heldOut.empty() ? "" : " --eval-data" + heldOut) + " --resume " +
                  quoteForShell(run.string()));
}

/// Requires the record of a run, which can then be resumed without an artifact.
void requireRecorded(const Path &run, const std::optional<RunRecord> &record) {
  if (!isThere(run)) {
    throw UserError(run.string() +
                    ": expected a run to resume, found no such directory; name the --out of a "
                    "training, or begin one: sluice train ART --data FILE --out " +
                    quoteForShell(run.string()));
  }
  if (!record && !isThere(run / "checkpoints")) {
    throw UserError(run.string() +
                    ": expected a run to resume, found no run.json in it; name the --out of a "
                    "training, or begin one: sluice train ART --data FILE --out NEW");
  }
  if (!record || !record->command) {
    refuseOldRun(run, record);
  }
}

} // namespace

void settleResumedRun(const ResumeCall &call) {
  std::string value = call.value;
  if (!value.empty() && call.artifact.empty() && !call.out.empty() && isRegularFile(value)) {
    call.artifact = value; // --resume ART --out RUN
    value.clear();
  }
  if (value.empty() && call.out.empty() && !call.artifact.empty() &&
      !isRegularFile(call.artifact)) {
    value = call.artifact; // the parser leaves the last word to the artifact
    call.artifact.clear();
  }
  if (!value.empty() && !call.out.empty() && Path(value) != Path(call.out) &&
      !isSameFile(value, call.out)) {
    throw UserError("sluice train: expected one run, found --resume " + value + " and --out " +
                    call.out + "; a resumed run stays where it is: leave --out out");
  }
  if (call.artifact.empty() && value.empty()) {
    throw UserError("sluice train: expected a run to resume, found none; name it: " +
                    (call.out.empty() ? "sluice train --resume RUN" : describeResume(call.out)));
  }
  call.out = value.empty() ? call.out : value;
  if (call.out.empty()) {
    throw CLI::RequiredError("--out");
  }
}

std::string fillFromRecord(CLI::App &train, const ResumeCall &call) {
  Path run = call.out;
  std::optional<RunRecord> record = isFolder(run) ? readRunRecord(run) : std::nullopt;
  if (call.artifact.empty()) {
    requireRecorded(run, record);
  }
  if (!record || !record->command) {
    return "";
  }
  const RunCommand &command = *record->command;
  std::string words;
  auto take = [&](const CommandFile &file) {
    requireUnchanged(file, run, /*areContentsRead=*/!isTrainingData(file.flag));
    return file.value(run);
  };
  // A call that names the artifact needs no held-out text, so the recorded one may be missing or
  // changed.
  bool takesHeldOut = true;
  for (const char *flag : heldOutFlags) {
    for (const CommandFile *file : command.getFiles(flag)) {
      try {
        requireUnchanged(*file, run, /*areContentsRead=*/true);
      } catch (const UserError &) {
        takesHeldOut = call.artifact.empty();
      }
    }
  }
  if (std::vector<const CommandFile *> files = command.getFiles(artifactFlag);
      call.artifact.empty() && !files.empty()) {
    call.artifact = take(*files.front());
    words += " " + quoteForShell(call.artifact);
  }
  for (CLI::Option *option : train.get_options()) {
    if (!isKept(*option) || option->count() > 0) {
      continue;
    }
    std::string flag = longName(*option);
    if (!takesHeldOut && holds(heldOutFlags, flag)) {
      continue;
    }
    std::vector<std::string> values;
    for (const CommandFile *file : command.getFiles(flag)) {
      values.push_back(take(*file));
    }
    if (auto found = command.flags.find(flag); found != command.flags.end()) {
      values = found->second;
    }
    if (!values.empty()) {
      set(*option, values, words);
    }
  }
  return words;
}

RunCommand describeCommand(const CLI::App &train, const std::string &artifact,
                           const FileValues &files, const Path &run) {
  RunCommand command;
  command.files.push_back({artifactFlag, "", pathInCommand(run, artifact), 0, ""});
  for (const CLI::Option *option : train.get_options()) {
    std::string flag = longName(*option);
    auto replaced = files.find(flag);
    std::vector<std::string> values =
        replaced != files.end() ? replaced->second : option->results();
    if (!isKept(*option) || values.empty()) {
      continue;
    }
    if (!namesFiles(*option)) {
      command.flags[flag] = values;
      continue;
    }
    for (const std::string &value : values) {
      command.files.push_back(parseFile(flag, value, run));
    }
  }
  return command;
}

} // namespace sluice::cli
