// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Train/Checkpoint.h"

#include "sluice/Runtime/Data/Safetensors.h"
#include "sluice/Runtime/Train/RunRecord.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/FileKind.h"
#include "sluice/Support/FileMixUp.h"
#include "sluice/Support/Hash.h"
#include "sluice/Support/OutputFile.h"
#include "sluice/Support/StrictJson.h"
#include "sluice/Support/Text.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <tuple>
#include <unistd.h>

namespace sluice::runtime {
namespace {

constexpr const char *weightsName = "weights.safetensors";
constexpr const char *optimizerName = "optimizer.safetensors";
constexpr const char *stateName = "state.json";
const std::string damagedCheckpointRemedy =
    "; restore it, or take an older checkpoint: --step STEP, or of train --resume RUN --from STEP";

std::vector<NamedTensor> weights(Executor &executor, Access access) {
  std::vector<NamedTensor> list;
  for (const Tensor &tensor : executor.plan().tensors) {
    list.push_back({tensor.name, tensor.shape, executor.tensor(tensor, access)});
  }
  return list;
}

std::vector<NamedTensor> optimizerStates(Executor &executor, Access access) {
  std::vector<NamedTensor> list;
  for (const Tensor &tensor : executor.plan().tensors) {
    for (const auto &[name, ignored] : tensor.states) {
      list.push_back(
          {tensor.name + "." + name, tensor.shape, executor.state(tensor, name, access)});
    }
  }
  return list;
}

/// Throws NotFiniteError if a tensor is not finite. A step checks its values before the update;
/// this checks the values that the update wrote.
void requireFinite(const std::vector<NamedTensor> &tensors) {
  for (const NamedTensor &tensor : tensors) {
    auto wrong = std::find_if(tensor.data.begin(), tensor.data.end(),
                              [](float value) { return !std::isfinite(value); });
    if (wrong != tensor.data.end()) {
      throw NotFiniteError("expected finite numbers to save, found " + std::to_string(*wrong) +
                           " in \"" + tensor.name + "\" at element " +
                           std::to_string(wrong - tensor.data.begin()));
    }
  }
}

/// Returns the checksum of state.json: over its other members as printed by nlohmann, with sorted
/// keys and no spaces.
std::string checksum(Json state) {
  state.erase("checksum");
  return sha256Hex(state.dump());
}

Json readState(const Path &folder) {
  Path path = folder / stateName;
  const std::string expected = "the state of a checkpoint";
  Json json = readJson(readText(path, "checkpoint's state"), path.string(), expected,
                       damagedCheckpointRemedy);
  if (!json.is_object() || !json.contains("checksum") || json["checksum"] != checksum(json)) {
    throw UserError(path.string() + ": expected " + expected + ", found a damaged file" +
                    damagedCheckpointRemedy);
  }
  StrictJson state(json, path.string(), damagedCheckpointRemedy);
  state.keys({"format", "version", "step", "seed", "data", "spec_sha256", "files", "checksum"},
             {"losses"});
  state.at("format").matchChoice({"sluice-checkpoint"});
  state.at("version").integer(1, 2); // version 1 has no losses
  return json;
}

TrainingState parseState(const Json &json, const Path &folder) {
  StrictJson state(json, (folder / stateName).string(), damagedCheckpointRemedy);
  state.at("data").keys({"epoch", "index", "sha256"}, {"batch_tokens"});
  TrainingState result;
  result.step = state.at("step").integer();
  result.seed = state.at("seed").integer();
  result.position = {state.at("data").at("epoch").integer(),
                     state.at("data").at("index").integer()};
  result.dataHash = state.at("data").at("sha256").string();
  result.batchTokens =
      state.at("data").has("batch_tokens") ? state.at("data").at("batch_tokens").integer(1) : 0;
  result.specHash = state.at("spec_sha256").string();
  if (state.has("losses")) {
    result.losses = parseRunLosses(state.at("losses"));
  }
  return result;
}

/// Reads one file of a checkpoint and compares it with the size and hash in state.json.
FileMemory readPart(const Path &folder, const char *name, const Json &json) {
  StrictJson state(json, (folder / stateName).string(), damagedCheckpointRemedy);
  state.at("files").keys({weightsName, optimizerName});
  StrictJson part = state.at("files").at(name);
  part.keys({"bytes", "sha256"});
  Path path = folder / name;
  FileMemory memory(FileContents::open(path, "part of a checkpoint"));
  auto expected = static_cast<size_t>(part.at("bytes").integer());
  if (memory.bytes().size() != expected) {
    throw UserError(path.string() + ": expected " + std::to_string(expected) + " bytes, found " +
                    std::to_string(memory.bytes().size()) + damagedCheckpointRemedy);
  }
  if (sha256Hex(memory.bytes()) != part.at("sha256").string()) {
    throw UserError(path.string() +
                    ": the file is damaged (its SHA-256 differs from state.json's)" +
                    damagedCheckpointRemedy);
  }
  return memory;
}

/// Describes the remedy for a file "latest" that names a missing checkpoint.
std::string describeOthers(const Path &run) {
  std::vector<int64_t> steps = checkpointSteps(run);
  return steps.empty() ? "restore it, or train into a new run"
                       : "restore it, or write " + std::to_string(steps.back()) +
                             ", the newest one that exists, into the run's file \"latest\"";
}

Path checkpointFolder(const Path &run, int64_t step) {
  return run / "checkpoints" / std::to_string(step);
}

/// Returns the folder of the checkpoint of `step`; throws if it is missing.
Path requireCheckpoint(const Path &run, int64_t step) {
  Path folder = checkpointFolder(run, step);
  if (!isFolder(folder)) {
    std::string list;
    for (int64_t each : checkpointSteps(run)) {
      list += (list.empty() ? "" : ", ") + std::to_string(each);
    }
    throw UserError(run.string() + ": expected a run with a checkpoint of step " +
                    std::to_string(step) + ", found " +
                    (list.empty() ? "no checkpoint; name the --out of a training that saved one"
                     : list.find(',') == std::string::npos
                         ? "step " + list + "; name that"
                         : "steps " + list + "; name one of them"));
  }
  return folder;
}

Path latestFolder(const Path &run) {
  int64_t step = latestStep(run);
  if (step < 0) {
    throw UserError(run.string() +
                    ": expected a run with a checkpoint, found no file \"latest\" in it; " +
                    "name the --out of a training that saved one");
  }
  Path folder = checkpointFolder(run, step);
  if (!isFolder(folder)) {
    throw UserError(folder.string() +
                    ": expected the checkpoint that \"latest\" names, found none; " +
                    describeOthers(run));
  }
  return folder;
}

} // namespace

std::vector<int64_t> checkpointSteps(const Path &run) {
  std::vector<int64_t> steps;
  Path folder = run / "checkpoints";
  if (!isFolder(folder)) {
    return steps;
  }
  for (const std::string &name : listFolder(folder)) {
    int64_t step = 0;
    auto [end, problem] = std::from_chars(name.data(), name.data() + name.size(), step);
    if (problem == std::errc() && end == name.data() + name.size()) {
      steps.push_back(step);
    }
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

// Errors are ignored: a remaining checkpoint only takes disk space.
void pruneCheckpoints(const Path &run, int64_t keep) {
  std::error_code ignored;
  std::vector<int64_t> steps = checkpointSteps(run);
  std::erase_if(steps, [newest = latestStep(run)](int64_t step) { return step > newest; });
  if (std::ssize(steps) <= keep) {
    return;
  }
  std::vector<CheckpointLosses> losses = readCheckpointLosses(run);
  auto isChosen = [](const CheckpointLosses *chosen, int64_t step) {
    return chosen && chosen->losses && chosen->step == step;
  };
  for (size_t i = 0; i + static_cast<size_t>(keep) < steps.size(); ++i) {
    if (!isChosen(chooseBest(losses), steps[i]) && !isChosen(chooseSound(losses), steps[i])) {
      std::filesystem::remove_all(checkpointFolder(run, steps[i]), ignored);
    }
  }
}

void removeUnfinishedSaves(const Path &run) {
  Path folder = run / "checkpoints";
  if (!isFolder(folder)) {
    return;
  }
  for (const std::string &name : listFolder(folder)) {
    if (name.starts_with(".tmp-")) {
      removeAll(folder / name);
    }
  }
}

int64_t latestStep(const Path &run) {
  Path path = run / "latest";
  if (!isThere(path)) {
    return -1;
  }
  std::string text = readText(path, "name of the latest checkpoint");
  int64_t step = -1;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), step);
  std::string_view rest(end, text.data() + text.size());
  // Editors append a newline.
  if (error != std::errc() || step < 0 || (rest != "\n" && !rest.empty())) {
    throw UserError(path.string() + ": expected the step of a checkpoint, found " +
                    quote(text, 20) + "; write the name of a folder in checkpoints/ into it");
  }
  return step;
}

namespace {

/// Writes the files of a checkpoint into a new folder.
void writeParts(const Path &temporary, Executor &executor, const TrainingState &state) {
  makeFolder(temporary);
  Json json = {{"format", "sluice-checkpoint"},
               {"version", state.losses ? 2 : 1},
               {"step", state.step},
               {"seed", state.seed},
               {"spec_sha256", state.specHash}};
  if (state.losses) {
    json["losses"] = toJson(*state.losses);
  }
  json["data"] = {
      {"epoch", state.position.epoch}, {"index", state.position.index}, {"sha256", state.dataHash}};
  if (state.batchTokens > 0) {
    json["data"]["batch_tokens"] = state.batchTokens;
  }
  std::map<std::string, std::string> metadata;
  if (!state.tokenizer.empty()) {
    metadata[tokenizerKey] = state.tokenizer;
  }
  for (auto [name, tensors] : {std::pair(weightsName, weights(executor, Access::Read)),
                               std::pair(optimizerName, optimizerStates(executor, Access::Read))}) {
    requireFinite(tensors);
    HashedFile written = writeSafetensors(temporary / name, tensors, metadata);
    json["files"][name] = {{"bytes", written.bytes}, {"sha256", written.sha256}};
  }
  json["checksum"] = checksum(json);
  writeSynced(temporary / stateName, asBytes(json.dump(2) + "\n"));
  syncFolder(temporary);
}

} // namespace

void saveCheckpoint(const Path &run, Executor &executor, const TrainingState &state, int64_t keep) {
  Path parent = run / "checkpoints", target = parent / std::to_string(state.step);
  Path temporary =
      parent / (".tmp-" + std::to_string(state.step) + "-" + std::to_string(::getpid()));
  makeFolder(parent);
  std::error_code ignored;
  std::filesystem::remove_all(temporary, ignored);
  try {
    writeParts(temporary, executor, state);
  } catch (...) {
    std::filesystem::remove_all(temporary, ignored); // mainly for a full disk
    throw;
  }
  // If a folder of this step exists, `latest` does not name it yet, or it has the same state.
  if (isThere(target)) {
    Path old = parent / (".tmp-old-" + std::to_string(state.step));
    std::filesystem::remove_all(old, ignored);
    std::filesystem::rename(target, old, ignored);
  }
  if (::rename(temporary.c_str(), target.c_str()) != 0) {
    int error = errno;
    removeAll(temporary);
    failWith(target.string() + ": cannot write the checkpoint: " + std::strerror(error), error);
  }
  syncFolder(parent);
  replaceFile(run / "latest", asBytes(std::to_string(state.step) + "\n"));
  pruneCheckpoints(run, keep);
  removeUnfinishedSaves(run); // includes the previous folder of this step
}

int64_t newestCheckpoint(const Path &run) {
  int64_t named = latestStep(run);
  std::vector<int64_t> steps = checkpointSteps(run);
  return named >= 0 || steps.empty() ? named : steps.back();
}

bool adoptNewestCheckpoint(const Path &run) {
  int64_t step = newestCheckpoint(run);
  if (step == latestStep(run)) {
    return false;
  }
  replaceFile(run / "latest", asBytes(std::to_string(step) + "\n"));
  return true;
}

TrainingState readTrainingState(const Path &run, std::optional<int64_t> step) {
  Path folder = step ? requireCheckpoint(run, *step) : latestFolder(run);
  return parseState(readState(folder), folder);
}

TrainingState loadCheckpoint(const Path &run, Executor &executor, std::optional<int64_t> step) {
  Path folder = step ? requireCheckpoint(run, *step) : latestFolder(run);
  Json json = readState(folder);
  TrainingState state = parseState(json, folder);
  auto load = [&](const char *name, const std::vector<NamedTensor> &tensors) {
    FileMemory memory = readPart(folder, name, json);
    decodeSafetensors(memory.bytes(), (folder / name).string(), tensors, {}, {},
                      [&](std::span<const uint8_t> copied) { memory.release(copied); });
  };
  load(weightsName, weights(executor, Access::Edit));
  load(optimizerName, optimizerStates(executor, Access::Edit));
  executor.prepare();
  return state;
}

namespace {

/// Reads the latest weights of a run, and returns them with their path. A concurrent training may
/// remove a checkpoint at any moment, but only after `latest` names a newer one.
std::pair<Path, FileMemory> readLatestWeights(const Path &run) {
  for (;;) {
    int64_t step = latestStep(run);
    try {
      Path folder = latestFolder(run);
      return {folder / weightsName, readPart(folder, weightsName, readState(folder))};
    } catch (const UserError &) {
      if (latestStep(run) == step) {
        throw;
      }
    }
  }
}

/// Returns the run if `path` is its file "latest", otherwise `path`.
Path resolveLatest(const Path &path) {
  Path folder = path.has_parent_path() ? path.parent_path() : Path(".");
  return path.filename() == "latest" && isRegularFile(path) && isRunFolder(folder) ? folder : path;
}

} // namespace

std::pair<Path, FileMemory> readWeights(const Path &given, std::optional<int64_t> step) {
  const Path path = step ? given : resolveLatest(given);
  if (step) {
    if (!isFolder(path) || isThere(path / stateName)) {
      throw UserError(path.string() + ": expected a run with --step, found " +
                      (!isThere(path)   ? "nothing of this name"
                       : isFolder(path) ? "a checkpoint"
                                        : "a file") +
                      "; name the run's folder, or leave --step out");
    }
    Path folder = requireCheckpoint(path, *step);
    return {folder / weightsName, readPart(folder, weightsName, readState(folder))};
  }
  if (!isFolder(path)) {
    requireKind(path, FileKind::Weights, "weights");
    return {path, FileMemory(FileContents::open(path, "weights"))};
  }
  if (isThere(path / stateName)) {
    return {path / weightsName, readPart(path, weightsName, readState(path))};
  }
  if (!isRunFolder(path)) {
    for (const std::string &name : listFolder(path)) {
      if (name.ends_with(".safetensors")) {
        throw UserError(path.string() +
                        ": expected a run, a checkpoint or a safetensors file, found a directory "
                        "with " +
                        name + "; name " + (path / name).string());
      }
    }
  }
  return readLatestWeights(path);
}

std::string readTokenizerHash(const Path &weights, std::optional<int64_t> step) {
  Path path = step ? weights : resolveLatest(weights);
  if (isFolder(path) && !isThere(path / stateName)) {
    int64_t named = step ? *step : newestCheckpoint(path);
    path = named < 0 ? Path() : checkpointFolder(path, named);
  }
  return readMetadata(isFolder(path) ? path / weightsName : path, tokenizerKey);
}

std::string describeMissingChecksum(const Path &file) {
  return file.string() + ": the file holds no checksum, so damage to its numbers would not show";
}

void noteWorseLatest(const Path &given, const Notice &notice) {
  const Path path = resolveLatest(given);
  if (notice && isFolder(path) && !isThere(path / stateName)) {
    if (std::string worse = describeWorseLatest(path); !worse.empty()) {
      notice(worse);
    }
  }
}

/// Notes that a run's spec is not the artifact's.
static void noteOtherSpec(const Path &path, const Executor &executor, const Notice &notice) {
  const Path run = resolveLatest(path);
  if (!notice || !isFolder(run)) {
    return;
  }
  std::optional<RunRecord> record;
  try {
    record = readRunRecord(run);
  } catch (const FormatError &) { // damaged: weights need no record
    return;
  }
  if (record && !record->knows(sha256Hex(executor.plan().model.spec))) {
    notice(
        "note: " + showPath(path.native()) +
        " was trained with another spec than the artifact's; only the shapes of the weights were "
        "compared");
  }
}

Path loadWeights(const Path &path, Executor &executor, const Notice &notice,
                 std::optional<int64_t> step, const WeightNames &names) {
  auto [file, memory] = readWeights(path, step);
  bool checked = decodeSafetensors(
      memory.bytes(), file.string(), weights(executor, Access::Edit), names, notice,
      [&memory = memory](std::span<const uint8_t> copied) { memory.release(copied); });
  if (!checked && notice) {
    notice(describeMissingChecksum(file));
  }
  if (!step) {
    noteWorseLatest(path, notice);
  }
  noteOtherSpec(path, executor, notice);
  executor.prepare();
  return file;
}

} // namespace sluice::runtime
