// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Checkpoint.h"

#include "StrictJson.h"
#include "sluice/Runtime/Error.h"
#include "sluice/Runtime/Hash.h"
#include "sluice/Runtime/Safetensors.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <unistd.h>

namespace sluice::runtime {
namespace {

using Json = nlohmann::json;
constexpr const char *weightsName = "weights.safetensors";
constexpr const char *optimizerName = "optimizer.safetensors";
constexpr const char *stateName = "state.json";
const std::string remedy =
    "; remove the damaged checkpoint and name an older one in the run's file \"latest\"";

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

/// The checksum covers state.json's other members as nlohmann prints them: keys sorted, no spaces.
std::string checksum(Json state) {
  state.erase("checksum");
  return sha256Hex(state.dump());
}

void writePart(const Path &folder, const char *name, std::span<const uint8_t> bytes, Json &state) {
  writeSynced(folder / name, bytes);
  state["files"][name] = {{"bytes", bytes.size()}, {"sha256", sha256Hex(bytes)}};
}

/// Steps of the checkpoints that exist, ascending.
std::vector<int64_t> checkpointSteps(const Path &folder) {
  std::vector<int64_t> steps;
  std::error_code error;
  for (const auto &entry : std::filesystem::directory_iterator(folder, error)) {
    std::string name = entry.path().filename().string();
    int64_t step = 0;
    auto [end, problem] = std::from_chars(name.data(), name.data() + name.size(), step);
    if (problem == std::errc() && end == name.data() + name.size()) {
      steps.push_back(step);
    }
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

/// Removes all but the newest checkpoints up to `newest`, and what an interrupted save left behind.
/// Failures are of no consequence: what stays is only disk space.
void prune(const Path &folder, int64_t newest, int64_t keep) {
  std::error_code ignored;
  std::vector<int64_t> steps = checkpointSteps(folder);
  std::erase_if(steps, [&](int64_t step) { return step > newest; });
  for (size_t i = 0; i + static_cast<size_t>(keep) < steps.size(); ++i) {
    std::filesystem::remove_all(folder / std::to_string(steps[i]), ignored);
  }
  for (const auto &entry : std::filesystem::directory_iterator(folder, ignored)) {
    if (entry.path().filename().string().starts_with(".tmp-")) {
      std::filesystem::remove_all(entry.path(), ignored);
    }
  }
}

Json readState(const Path &folder) {
  Path path = folder / stateName;
  Json json = Json::parse(readText(path, "checkpoint's state"), nullptr, false);
  if (!json.is_object() || !json.contains("checksum") || json["checksum"] != checksum(json)) {
    throw UserError(path.string() + ": expected the state of a checkpoint, found a damaged file" +
                    remedy);
  }
  StrictJson state(json, path.string(), remedy);
  state.keys({"format", "version", "step", "seed", "data", "spec_sha256", "files", "checksum"});
  state.at("format").oneOf({"sluice-checkpoint"});
  state.at("version").integer(1, 1);
  return json;
}

TrainingState parseState(const Json &json, const Path &folder) {
  StrictJson state(json, (folder / stateName).string(), remedy);
  state.at("data").keys({"epoch", "index", "sha256"});
  TrainingState result;
  result.step = state.at("step").integer();
  result.seed = state.at("seed").integer();
  result.position = {state.at("data").at("epoch").integer(),
                     state.at("data").at("index").integer()};
  result.dataHash = state.at("data").at("sha256").string();
  result.specHash = state.at("spec_sha256").string();
  return result;
}

/// Reads one file of a checkpoint and compares it with the size and hash that state.json names.
std::vector<uint8_t> readPart(const Path &folder, const char *name, const Json &json) {
  StrictJson state(json, (folder / stateName).string(), remedy);
  state.at("files").keys({weightsName, optimizerName});
  StrictJson part = state.at("files").at(name);
  part.keys({"bytes", "sha256"});
  Path path = folder / name;
  std::vector<uint8_t> bytes = readBytes(path, "part of a checkpoint");
  auto expected = static_cast<size_t>(part.at("bytes").integer());
  if (bytes.size() != expected) {
    throw UserError(path.string() + ": expected " + std::to_string(expected) + " bytes, found " +
                    std::to_string(bytes.size()) + remedy);
  }
  if (sha256Hex(bytes) != part.at("sha256").string()) {
    throw UserError(path.string() +
                    ": the file is damaged (its SHA-256 differs from state.json's)" + remedy);
  }
  return bytes;
}

Path latestFolder(const Path &run) {
  int64_t step = latestStep(run);
  if (step < 0) {
    throw UserError(run.string() +
                    ": expected a run with a checkpoint, found no file \"latest\" in it; " +
                    "name the --out of a training that saved one");
  }
  Path folder = run / "checkpoints" / std::to_string(step);
  if (!std::filesystem::is_directory(folder)) {
    throw UserError(folder.string() +
                    ": expected the checkpoint that \"latest\" names, found none" + remedy);
  }
  return folder;
}

} // namespace

int64_t latestStep(const Path &run) {
  Path path = run / "latest";
  if (!std::filesystem::exists(path)) {
    return -1;
  }
  std::string text = readText(path, "name of the latest checkpoint");
  int64_t step = -1;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), step);
  if (error != std::errc() || step < 0 ||
      std::string_view(end, text.data() + text.size()) != "\n") {
    throw UserError(path.string() + ": expected the step of a checkpoint, found \"" +
                    text.substr(0, 20) +
                    "\"; write the name of a folder in checkpoints/ and a newline into it");
  }
  return step;
}

namespace {

/// Writes the files of a checkpoint into a new folder.
void writeParts(const Path &temporary, Executor &executor, const TrainingState &state) {
  makeFolder(temporary);
  Json json = {{"format", "sluice-checkpoint"},
               {"version", 1},
               {"step", state.step},
               {"seed", state.seed},
               {"spec_sha256", state.specHash}};
  json["data"] = {
      {"epoch", state.position.epoch}, {"index", state.position.index}, {"sha256", state.dataHash}};
  writePart(temporary, weightsName, encodeSafetensors(weights(executor, Access::Read)), json);
  writePart(temporary, optimizerName, encodeSafetensors(optimizerStates(executor, Access::Read)),
            json);
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
    std::filesystem::remove_all(temporary, ignored); // on a full disk above all
    throw;
  }
  // A folder of this step can only be one that `latest` does not name yet, or the same state saved
  // again.
  if (std::filesystem::exists(target)) {
    Path old = parent / (".tmp-old-" + std::to_string(state.step));
    std::filesystem::remove_all(old, ignored);
    std::filesystem::rename(target, old, ignored);
  }
  if (::rename(temporary.c_str(), target.c_str()) != 0) {
    throw UserError(target.string() + ": cannot write the checkpoint: " + std::strerror(errno));
  }
  syncFolder(parent);
  replaceFile(run / "latest", asBytes(std::to_string(state.step) + "\n"));
  prune(parent, state.step, keep);
}

TrainingState readTrainingState(const Path &run) {
  Path folder = latestFolder(run);
  return parseState(readState(folder), folder);
}

TrainingState loadCheckpoint(const Path &run, Executor &executor) {
  Path folder = latestFolder(run);
  Json json = readState(folder);
  TrainingState state = parseState(json, folder);
  std::vector<uint8_t> weightBytes = readPart(folder, weightsName, json);
  std::vector<uint8_t> optimizerBytes = readPart(folder, optimizerName, json);
  decodeSafetensors(weightBytes, (folder / weightsName).string(), weights(executor, Access::Edit));
  decodeSafetensors(optimizerBytes, (folder / optimizerName).string(),
                    optimizerStates(executor, Access::Edit));
  executor.prepare();
  return state;
}

Path loadWeights(const Path &path, Executor &executor) {
  if (!std::filesystem::is_directory(path)) {
    decodeSafetensors(readBytes(path, "weights"), path.string(), weights(executor, Access::Edit));
    executor.prepare();
    return path;
  }
  Path folder = std::filesystem::exists(path / stateName) ? path : latestFolder(path);
  std::vector<uint8_t> bytes = readPart(folder, weightsName, readState(folder));
  decodeSafetensors(bytes, (folder / weightsName).string(), weights(executor, Access::Edit));
  executor.prepare();
  return folder / weightsName;
}

} // namespace sluice::runtime
