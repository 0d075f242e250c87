// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Train/RunRecord.h"
#include "sluice/Support/OutputFile.h"

#include "sluice/Support/ByteString.h"
#include "sluice/Support/Json.h"

#include <algorithm>

namespace sluice::runtime {
namespace {

const std::string damagedRecordRemedy =
    "; restore the file, or remove it: the run then counts as one that was given no flags";

Path getRecordPath(const Path &run) { return run / "run.json"; }

std::vector<DataFile> readFiles(const StrictJson &json) {
  std::vector<DataFile> files;
  for (const StrictJson &each : json.array()) {
    each.keys({"path", "bytes", "used"}, {"path_hex", "tokens"});
    files.push_back(
        {getByteString(each, "path"), each.at("bytes").integer(), each.at("used").boolean()});
    if (each.has("tokens")) {
      files.back().tokens = each.at("tokens").integer();
    }
  }
  return files;
}

Json filesToJson(const std::vector<DataFile> &files) {
  Json list = Json::array();
  for (const DataFile &file : files) {
    list.push_back({{"bytes", file.bytes}, {"used", file.used}});
    if (file.tokens) {
      list.back()["tokens"] = *file.tokens;
    }
    setByteString(list.back(), "path", file.path);
  }
  return list;
}

} // namespace

RunRecord parseRunRecord(const StrictJson &json) {
  json.keys({"format", "version", "steps", "seed", "spec_sha256", "changes", "data", "held_out"},
            {"weights", "command", "epochs"});
  json.at("format").matchChoice({"sluice-run"});
  json.at("version").integer(1, 1);
  RunRecord record;
  record.steps = json.at("steps").integer();
  if (json.has("epochs")) {
    record.epochs = json.at("epochs").integer(1);
  }
  record.seed = json.at("seed").integer();
  record.specHash = json.at("spec_sha256").string();
  for (const StrictJson &change : json.at("changes").array()) {
    change.keys({"step", "settings", "spec_sha256"});
    record.changes.push_back({change.at("step").integer(), change.at("settings").strings(),
                              change.at("spec_sha256").string()});
  }
  record.data = readFiles(json.at("data"));
  record.heldOut = readFiles(json.at("held_out"));
  if (json.has("command")) {
    record.command = parseCommand(json.at("command"));
  }
  if (json.has("weights")) {
    StrictJson weights = json.at("weights");
    weights.keys({"file", "taken", "left"}, {"file_hex"});
    record.weights = {getByteString(weights, "file"), weights.at("taken").strings(),
                      weights.at("left").strings()};
  }
  return record;
}

std::string listSettings(std::span<const std::string> settings) {
  std::string list;
  for (const std::string &setting : settings) {
    list += (list.empty() ? "" : ", ") + setting;
  }
  return list;
}

bool RunRecord::knows(const std::string &hash) const {
  return hash == specHash || std::any_of(changes.begin(), changes.end(), [&](const auto &change) {
           return change.specHash == hash;
         });
}

std::vector<std::string> RunRecord::settings() const {
  std::vector<std::string> all;
  for (const SpecChange &change : changes) {
    all.insert(all.end(), change.settings.begin(), change.settings.end());
  }
  return all;
}

std::optional<RunRecord> readRunRecord(const Path &run) {
  Path path = getRecordPath(run);
  if (!isThere(path)) {
    return std::nullopt;
  }
  Json json = readJson(readText(path, "record of a run"), path.string(), "the record of a run",
                       damagedRecordRemedy);
  return parseRunRecord(StrictJson(json, path.string(), damagedRecordRemedy));
}

Json toJson(const RunRecord &record) {
  Json json = {{"format", "sluice-run"},
               {"version", 1},
               {"steps", record.steps},
               {"seed", record.seed},
               {"spec_sha256", record.specHash},
               {"changes", Json::array()},
               {"data", filesToJson(record.data)},
               {"held_out", filesToJson(record.heldOut)}};
  if (record.epochs) {
    json["epochs"] = *record.epochs;
  }
  for (const SpecChange &change : record.changes) {
    json["changes"].push_back(
        {{"step", change.step}, {"settings", change.settings}, {"spec_sha256", change.specHash}});
  }
  if (record.command) {
    json["command"] = commandToJson(*record.command);
  }
  if (record.weights) {
    json["weights"] = {{"taken", record.weights->taken}, {"left", record.weights->left}};
    setByteString(json["weights"], "file", record.weights->file);
  }
  return json;
}

void writeRunRecord(const Path &run, const RunRecord &record) {
  replaceFile(getRecordPath(run),
              asBytes(toJson(record).dump(2, ' ', false, Json::error_handler_t::replace) + "\n"));
}

} // namespace sluice::runtime
