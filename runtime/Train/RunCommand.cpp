// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Train/RunCommand.h"

#include "sluice/Runtime/Processes/Launcher.h"
#include "sluice/Support/ByteString.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/Format.h"
#include "sluice/Support/Hash.h"
#include "sluice/Support/Json.h"
#include "sluice/Support/Shell.h"
#include "sluice/Support/Text.h"

#include <algorithm>
#include <array>

namespace sluice::runtime {
namespace {

/// The path of a stream.
constexpr const char *stream = "-";

constexpr std::array trainingData = {"--data", "--input", "--labels"};
constexpr std::array tokenData = {"--data", "--eval-data"};

/// Shows enough digits of a hash to distinguish files.
std::string showHash(const std::string &sha256) { return "SHA-256 " + sha256.substr(0, 16); }

std::string describe(const CommandFile &file, const Path &run) {
  return (run / file.path).string() + " of " + std::to_string(file.bytes) + " bytes (" +
         showHash(file.sha256) + ")";
}

/// Returns a remedy for a file of the run that has changed.
std::string remedyFor(const CommandFile &file, const Path &run, bool isThere) {
  std::string resume = describeResume(run);
  std::string restore =
      isThere ? "; restore it, or " : "; restore it, or name the place that it has moved to: ";
  if (file.flag == artifactFlag) {
    return restore + (isThere ? "name the artifact to continue with: " : "") + describeLaunch() +
           "sluice train ART --resume " + quoteForShell(run.string());
  }
  std::string value = file.name.empty() ? " FILE..." : " " + file.prefix() + "FILE";
  if (isThere && isTrainingData(file.flag)) {
    return restore + "begin a run on other data from this run's weights: sluice train ART " +
           file.flag + value + " --weights " + quoteForShell(run.string()) + " --out NEW";
  }
  return restore + (isThere ? "name the files to continue with: " : "") + resume + " " + file.flag +
         value;
}

/// Sets the size of a file and its SHA-256.
void measure(CommandFile &file, const Path &run) {
  HashedFile found = hashFile(run / file.path, "file of " + file.flag);
  file.bytes = found.bytes;
  file.sha256 = found.sha256;
}

int64_t getFileSize(const Path &path) {
  std::error_code ignored;
  return static_cast<int64_t>(std::filesystem::file_size(path, ignored));
}

} // namespace

std::string CommandFile::value(const Path &run) const {
  return prefix() + (isStream() ? path : std::filesystem::absolute(run / path).string());
}

std::string CommandFile::prefix() const {
  return name.empty() ? "" : name + (takesTokenIds(flag) ? ":" : "=");
}

bool CommandFile::isStream() const { return path == stream; }

std::vector<const CommandFile *> RunCommand::getFiles(const std::string &flag) const {
  std::vector<const CommandFile *> list;
  for (const CommandFile &file : files) {
    if (file.flag == flag) {
      list.push_back(&file);
    }
  }
  return list;
}

bool takesTokenIds(const std::string &flag) {
  return std::ranges::find(tokenData, flag) != tokenData.end();
}

bool isTrainingData(const std::string &flag) {
  return std::ranges::find(trainingData, flag) != trainingData.end();
}

std::string pathInCommand(const Path &run, const Path &path) {
  if (path == stream || (isThere(path) && !isRegularFile(path) && !isFolder(path))) {
    return stream;
  }
  std::error_code ignored; // for an empty path, which checkRunFolder rejects
  Path whole = std::filesystem::absolute(path, ignored).lexically_normal(),
       folder = std::filesystem::absolute(run / "", ignored).lexically_normal();
  Path inside = whole.lexically_relative(folder);
  bool isInside = !inside.empty() && *inside.begin() != ".." && inside != ".";
  return (isInside ? inside : whole).string();
}

void measureFiles(RunCommand &command, const Path &run, const std::optional<RunCommand> &told) {
  for (CommandFile &file : command.files) {
    if (!file.sha256.empty()) {
      continue; // a stream, which was measured when it was read
    }
    if (file.isStream()) {
      continue;
    }
    std::vector<const CommandFile *> known = told && isTrainingData(file.flag)
                                                 ? told->getFiles(file.flag)
                                                 : std::vector<const CommandFile *>();
    auto same = std::ranges::find_if(known, [&](const CommandFile *each) {
      return each->path == file.path && each->bytes == getFileSize(run / file.path);
    });
    if (same == known.end()) {
      measure(file, run);
    } else {
      file.bytes = (*same)->bytes;
      file.sha256 = (*same)->sha256;
    }
  }
}

void requireUnchanged(const CommandFile &file, const Path &run, bool areContentsRead) {
  if (file.isStream()) {
    return;
  }
  Path path = run / file.path;
  std::string start = showPath(path.native()) + ": expected ",
              given = "the file that the run " + run.string() + " was given as " + file.flag;
  if (!isThere(path)) {
    throw UserError(start + given + ", of " + std::to_string(file.bytes) + " bytes (" +
                    showHash(file.sha256) + "), found no such file" + remedyFor(file, run, false));
  }
  if (int64_t bytes = getFileSize(path); isRegularFile(path) && bytes != file.bytes) {
    throw UserError(start + std::to_string(file.bytes) + " bytes, as of " + given + ", found " +
                    std::to_string(bytes) + remedyFor(file, run, true));
  }
  if (!areContentsRead) {
    return;
  }
  CommandFile now = file;
  measure(now, run);
  if (now.sha256 != file.sha256) {
    throw UserError(start + showHash(file.sha256) + ", as of " + given + ", found " +
                    showHash(now.sha256) + remedyFor(file, run, true));
  }
}

std::string describeOtherData(const RunCommand &told, const RunCommand &now, const Path &run) {
  for (const char *flag : trainingData) {
    std::vector<const CommandFile *> before = told.getFiles(flag), found = now.getFiles(flag);
    for (size_t i = 0; i < std::min(before.size(), found.size()); ++i) {
      if (before[i]->sha256 != found[i]->sha256 || before[i]->name != found[i]->name) {
        return std::string(flag) + " " + describe(*found[i], run) + ", expected " +
               describe(*before[i], run);
      }
    }
    if (before.size() != found.size()) {
      return describeCount(std::ssize(found), "file") + " of " + flag + ", expected " +
             std::to_string(before.size());
    }
  }
  return "";
}

std::string describeResume(const Path &run) {
  return describeLaunch() + "sluice train --resume " + quoteForShell(run.string());
}

RunCommand parseCommand(const StrictJson &json) {
  json.keys({"files", "flags"}, {"flags_hex"});
  RunCommand command;
  for (const StrictJson &each : json.at("files").array()) {
    each.keys({"flag", "path", "bytes", "sha256"}, {"name", "path_hex"});
    command.files.push_back(
        {each.at("flag").string(), each.has("name") ? each.at("name").string() : "",
         getByteString(each, "path"), each.at("bytes").integer(), each.at("sha256").string()});
  }
  for (const auto &[flag, values] : json.at("flags").members()) {
    command.flags[flag] = values.strings();
  }
  if (json.has("flags_hex")) {
    for (const auto &[flag, values] : json.at("flags_hex").members()) {
      command.flags[flag].clear();
      for (const StrictJson &value : values.array()) {
        command.flags[flag].push_back(parseHex(value));
      }
    }
  }
  return command;
}

Json commandToJson(const RunCommand &command) {
  Json files = Json::array(), bytes;
  for (const CommandFile &file : command.files) {
    files.push_back({{"flag", file.flag}, {"bytes", file.bytes}, {"sha256", file.sha256}});
    setByteString(files.back(), "path", file.path);
    if (!file.name.empty()) {
      files.back()["name"] = file.name;
    }
  }
  for (const auto &[flag, values] : command.flags) {
    if (!std::ranges::all_of(values, isUtf8)) {
      for (const std::string &value : values) {
        bytes[flag].push_back(toHex(asBytes(value)));
      }
    }
  }
  Json json = {{"files", std::move(files)}, {"flags", command.flags}};
  if (!bytes.is_null()) {
    json["flags_hex"] = std::move(bytes);
  }
  return json;
}

} // namespace sluice::runtime
