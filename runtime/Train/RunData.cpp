// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "RunData.h"

#include "RunFolder.h"
#include "sluice/Runtime/Train/Checkpoint.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/Outputs.h"
#include "sluice/Support/Text.h"

#include <algorithm>
#include <exception>

namespace sluice::runtime {
namespace {

/// Returns the run's folder or, before it exists, its parent folder, which is on the same disk.
Path findExistingFolder(const Path &run) {
  std::error_code ignored;
  Path folder = std::filesystem::absolute(run, ignored);
  while (folder.has_relative_path() && !std::filesystem::is_directory(folder, ignored)) {
    folder = folder.parent_path();
  }
  return folder;
}

/// Returns the hash of the training data in the run's checkpoint; empty if there is none.
std::string readDataHash(const Path &run) {
  try {
    return isFolder(run) && newestCheckpoint(run) >= 0 ? readTrainingState(run).dataHash : "";
  } catch (const UserError &) { // loading the checkpoint reports damage
    return "";
  }
}

bool hasUnpacked(const std::vector<ByteFile> &files) {
  return std::ranges::any_of(files, [](const ByteFile &file) { return file.isDecompressed; });
}

/// Checks that the files have the sizes that the run recorded.
bool haveSizes(const std::vector<ByteFile> &files, const std::vector<DataFile> &recorded) {
  std::vector<int64_t> before;
  for (const DataFile &file : recorded) {
    if (file.used) {
      before.push_back(file.bytes);
    }
  }
  return std::ranges::equal(files, before, [](const ByteFile &file, int64_t bytes) {
    return std::ssize(file.bytes) == bytes;
  });
}

const std::string rawNote = " read as their own bytes, as when the run began (--raw): ";

/// Names the first file and counts the others.
std::string nameFiles(const std::vector<ByteFile> &files) {
  return showPath(files.front().path.native()) +
         (files.size() > 1 ? " and " + std::to_string(files.size() - 1) + " more" : "");
}

} // namespace

RunData::RunData(const Path &run, bool isResumed)
    : run(run), isResumed(isResumed), training(makeCopies(trainingStream)),
      heldOut(makeCopies(heldOutStream)) {}

std::shared_ptr<StreamCopies> RunData::makeCopies(const std::string &prefix) const {
  return std::make_shared<StreamCopies>(run / streamsFolder, prefix, findExistingFolder(run),
                                        isResumed);
}

std::unique_ptr<TrainingSource> RunData::openTraining(SourceFiles files, const Plan &plan,
                                                      uint64_t seed) {
  files.reading.streams = training;
  std::string saved = isResumed && !files.reading.isRaw ? readDataHash(run) : "";
  std::unique_ptr<TrainingSource> data;
  std::exception_ptr refused;
  try {
    data = runtime::openTraining(files, plan, seed);
  } catch (const FormatError &) {
    refused = std::current_exception();
  }
  bool mayBeRaw = refused || data->hash() != saved;
  if (mayBeRaw && !saved.empty() && !training->hasRead() &&
      (refused || lackText(data->usedFiles()) || hasUnpacked(data->usedFiles()) ||
       hasUnpacked(data->skippedFiles()))) {
    files.reading.isRaw = true;
    files.reading.streams = training = makeCopies(trainingStream); // numbers restart at 1
    try {
      std::unique_ptr<TrainingSource> raw = runtime::openTraining(files, plan, seed);
      if (raw->hash() == saved) {
        lines.push_back("training data are" + rawNote + nameFiles(raw->usedFiles()));
        return raw;
      }
    } catch (const UserError &) { // the first attempt has the better message
    }
  }
  if (refused) {
    std::rethrow_exception(refused);
  }
  if (!saved.empty() && data->hash() != saved && training->hasRead()) {
    refuseOtherStream();
  }
  return data;
}

void RunData::refuseOtherStream() const {
  for (const StreamCopies::Copy &copy : training->all()) {
    if (!copy.isReused) {
      throw UserError(showPath(run.native()) +
                      ": expected the same training data as when the run began, found others in " +
                      (copy.stream == "-" ? "standard input" : showPath(copy.stream.native())) +
                      ", and no copy of the stream, " + showPath(copy.path.native()) +
                      "; restore that file, or name one that has the same bytes");
    }
  }
}

HeldOut RunData::openHeldOut(SourceFiles files, const Plan &plan,
                             const std::optional<RunRecord> &recorded) {
  files.reading.streams = heldOut;
  if (!isResumed || files.reading.isRaw || !recorded || recorded->heldOut.empty()) {
    return HeldOut(files, plan);
  }
  std::optional<HeldOut> text;
  std::exception_ptr refused;
  try {
    text.emplace(files, plan);
    if (!hasUnpacked(text->usedFiles()) || haveSizes(text->usedFiles(), recorded->heldOut)) {
      return std::move(*text);
    }
  } catch (const FormatError &) {
    refused = std::current_exception();
  }
  if (!heldOut->hasRead()) {
    files.reading.isRaw = true;
    files.reading.streams = heldOut = makeCopies(heldOutStream);
    HeldOut raw(files, plan);
    if (haveSizes(raw.usedFiles(), recorded->heldOut)) {
      lines.push_back("held-out data are" + rawNote + nameFiles(raw.usedFiles()));
      return raw;
    }
  }
  if (refused) {
    std::rethrow_exception(refused);
  }
  return std::move(*text);
}

void RunData::nameCopies(RunCommand &command) const {
  for (const auto &copies : {heldOut, training}) {
    for (const StreamCopies::Copy &copy : copies->all()) {
      std::string stream = pathInCommand(run, copy.stream);
      auto file = std::ranges::find_if(command.files, [&](const CommandFile &each) {
        return each.path == stream && (copies == heldOut) == each.flag.starts_with("--eval-");
      });
      if (file != command.files.end()) {
        file->path = pathInCommand(run, copy.path);
        file->bytes = std::ssize(copy.contents);
        file->sha256 = copy.contents.sha256Hex();
      }
    }
  }
}

void RunData::saveStreams() const {
  training->save();
  heldOut->save();
}

} // namespace sluice::runtime
