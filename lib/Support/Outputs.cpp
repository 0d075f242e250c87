// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Support/Outputs.h"

#include "sluice/Support/Error.h"
#include "sluice/Support/FileMixUp.h"
#include "sluice/Support/OutputFile.h"
#include "sluice/Support/Text.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace sluice {
namespace {

/// Names of a run's own files, which may have any contents.
constexpr std::array ownFiles = {"spec.json",     "costs.json",     "metrics.jsonl",
                                 "samples.jsonl", "run.json",       "eval.json",
                                 "latest",        "roll-back.json", "tokenizer.tok"};
/// Folders of a run in which no other files are written.
constexpr std::array ownFolders = {"checkpoints", "abandoned"};
constexpr std::array checkpointFiles = {"weights.safetensors", "optimizer.safetensors",
                                        "state.json"};

/// Checks for the name of a copy of a stream: a prefix and a number.
bool isStreamCopy(std::string_view name) {
  return std::ranges::any_of(
      std::array<std::string_view, 2>{trainingStream, heldOutStream}, [&](std::string_view prefix) {
        return name.starts_with(prefix) && name.size() > prefix.size() &&
               name.find_first_not_of("0123456789", prefix.size()) == std::string_view::npos;
      });
}

bool contains(const auto &all, const auto &one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

/// A file name extension, and the kinds of outputs that may have it.
struct Extension {
  std::string_view end;
  std::vector<FileKind> kinds;
};

const std::vector<Extension> &extensions() {
  static const std::vector<Extension> all = {
      {".svg", {FileKind::Svg}},
      {".html", {FileKind::Html}},
      {".htm", {FileKind::Html}},
      {".npy", {FileKind::Npy}},
      {".sla", {FileKind::Artifact}},
      {".smt2", {FileKind::Smt}},
      {".json", {FileKind::Tuning, FileKind::Spec, FileKind::Json}},
      {".jsonl", {FileKind::Trace, FileKind::Metrics}},
      {".safetensors", {FileKind::Weights, FileKind::Session}},
      {".png", {FileKind::Png}},
      {".jpg", {}},
      {".jpeg", {}},
      {".gif", {}},
      {".webp", {}},
      {".pdf", {}},
      {".npz", {}},
      {".csv", {}},
      {".zip", {}},
      {".gz", {}},
      {".pt", {}},
      {".pth", {}},
  };
  return all;
}

/// Returns the usual extension of this kind; empty if there is none.
std::string_view getUsualEnd(FileKind kind) {
  auto found = std::ranges::find_if(
      extensions(), [&](const Extension &each) { return contains(each.kinds, kind); });
  return found == extensions().end() ? "" : found->end;
}

[[noreturn]] void refuse(const Output &output, const std::string &expected,
                         const std::string &found, const std::string &remedy) {
  throw UserError(showPath(output.path.native()) + ": expected " + output.flag + " to name " +
                  expected + ", found " + found + "; " + remedy);
}

/// Returns the absolute path without links. The file need not exist.
Path computeRealPath(const Path &path) {
  std::error_code error;
  Path result = std::filesystem::weakly_canonical(std::filesystem::absolute(path, error), error);
  return error ? path : result;
}

bool isAnyName(const Path &path, const Path &folder, const auto &names) {
  return std::ranges::any_of(names,
                             [&](const char *name) { return isSameFile(path, folder / name); });
}

/// Checks for the files of a run or a checkpoint, including hard links in another folder.
bool isWithinFolder(const Path &path, const Path &folder) {
  if (isCheckpointFolder(folder)) {
    return isAnyName(path, folder, checkpointFiles);
  }
  if (!isRunFolder(folder)) {
    return false;
  }
  std::error_code error;
  std::filesystem::directory_iterator checkpoints(folder / "checkpoints", error),
      streams(folder / streamsFolder, error);
  return isAnyName(path, folder, ownFiles) ||
         std::any_of(begin(checkpoints), end(checkpoints),
                     [&](const auto &checkpoint) {
                       return isAnyName(path, checkpoint.path(), checkpointFiles);
                     }) ||
         std::any_of(begin(streams), end(streams), [&](const auto &stream) {
           return isStreamCopy(stream.path().filename().native()) &&
                  isSameFile(path, stream.path());
         });
}

void requireUnread(const Output &output, const std::vector<Path> &inputs, auto isRead) {
  for (const Path &input : inputs) {
    if (!input.empty() && isRead(output.path, input)) {
      refuse(output, "a new file", "one that this command reads", "name another file");
    }
  }
}

/// Describes the run or the checkpoint to which `path` belongs or would belong; empty if there is
/// none.
std::string findOwner(const Path &path, FileKind kind) {
  Path target = computeRealPath(resolveOutput(path));
  std::string name = target.filename().native();
  if (isCheckpointFolder(target.parent_path()) && contains(checkpointFiles, name)) {
    return "a part of the checkpoint " + showPath(target.parent_path().native());
  }
  for (Path folder = target.parent_path(); folder.has_relative_path();
       folder = folder.parent_path()) {
    if (!isRunFolder(folder)) {
      continue;
    }
    Path inside = target.lexically_relative(folder);
    std::string first = inside.begin()->native();
    FileKind found = recognizeFile(target);
    bool mayReplace = found == FileKind::Missing || found == FileKind::Empty || found == kind;
    bool isDirect = std::next(inside.begin()) == inside.end();
    bool isCopy = inside.parent_path() == streamsFolder && isStreamCopy(name);
    if (contains(ownFolders, first) || isCopy ||
        (isDirect && (contains(ownFiles, first) || !mayReplace))) {
      return "a part of the run " + showPath(folder.native());
    }
  }
  return "";
}

void requireUnowned(const Output &output) {
  if (std::string owner = findOwner(output.path, output.kind); !owner.empty()) {
    refuse(output, "a file of its own", owner, "name another file");
  }
}

void requireOwnName(const Output &output) {
  std::string end = output.path.extension().native();
  std::ranges::transform(end, end.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  auto found = std::ranges::find(extensions(), end, &Extension::end);
  if (found == extensions().end() || contains(found->kinds, output.kind)) {
    return;
  }
  std::string_view usual = getUsualEnd(output.kind);
  Path other = output.path;
  other.replace_extension(Path(usual));
  refuse(output, "a file for " + std::string(describe(output.kind)), "a name that ends in " + end,
         "name " + showPath(other.native()) + ", or give --force");
}

void requireSameKind(const Output &output) {
  FileKind found = recognizeFile(output.path);
  if (found != FileKind::Missing && found != FileKind::Empty && found != output.kind) {
    refuse(output, "a new file or " + std::string(describe(output.kind)) + " to replace",
           std::string(describe(found)), "name another file, or give --force");
  }
}

} // namespace

void checkOutputs(const std::vector<Output> &outputs, const std::vector<Path> &inputs, bool force) {
  for (auto output = outputs.begin(); output != outputs.end(); ++output) {
    if (output->path.empty()) {
      continue;
    }
    requireWritable(output->path);
    requireUnread(*output, inputs, isSameFile);
    for (auto other = outputs.begin(); other != output; ++other) {
      if (!other->path.empty() && computeRealPath(resolveOutput(other->path)) ==
                                      computeRealPath(resolveOutput(output->path))) {
        throw UserError("expected different files for " + other->flag + " and " + output->flag +
                        ", found both at " + showPath(output->path.native()) +
                        "; name another file");
      }
    }
    requireUnowned(*output);
    requireUnread(*output, inputs, isWithinFolder);
    if (!force) {
      requireSameKind(*output);
      requireOwnName(*output);
    }
  }
}

void checkOutputFolder(const std::string &flag, const Path &folder,
                       const std::vector<std::string> &names,
                       const std::function<bool()> &isEarlier, const std::vector<Path> &inputs,
                       bool force) {
  Output whole{flag, folder, FileKind::Folder};
  if (!folder.empty() && !isThere(folder)) {
    requireUnowned(whole);
    return;
  }
  if (names.empty()) {
    return;
  }
  if (folder.empty()) {
    throw UserError("expected " + flag + " to name a directory, found an empty name; name one");
  }
  if (!isFolder(folder)) {
    refuse(whole, "a directory", std::string(describe(recognizeFile(folder))),
           "name another directory");
  }
  if (isRunFolder(folder) || isCheckpointFolder(folder)) {
    refuse(whole, "a directory of its own", std::string(describe(recognizeFile(folder))),
           "name another directory");
  }
  bool isOwn = isEarlier && isEarlier();
  for (const std::string &name : names) {
    Output output{flag, folder / name, FileKind::Binary};
    requireUnowned(output);
    requireUnread(output, inputs, isSameFile);
    if (!isThere(output.path)) {
      continue;
    }
    if (!isOwn && !force) {
      throw UserError(showPath(folder.native()) + ": expected " + flag +
                      " to name a new directory, or one with files that it wrote before, "
                      "unchanged, found " +
                      name + " in it; name another directory, or give --force");
    }
    requireWritable(output.path);
  }
}

} // namespace sluice
