// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ApplySettings.h"
#include "Stages.h"
#include "sluice/Runtime/Error.h"
#include "sluice/Runtime/Files.h"

#include <filesystem>

namespace sluice::spec {
namespace {

constexpr int64_t formatVersion = 1;
constexpr size_t largestFile = size_t(16) << 20;

Schedule readSchedule(const JsonValue &value, const std::string &file) {
  Fields fields(value, file, "a schedule");
  fields.allowOnly({"kind", "warmup", "steps", "floor"});
  Schedule schedule;
  schedule.kind = fields.choice<ScheduleKind>(
      "kind", {{"cosine", ScheduleKind::Cosine}, {"constant", ScheduleKind::Constant}},
      schedule.kind);
  schedule.steps = fields.integer("steps", {}, schedule.steps);
  schedule.warmup = fields.integer("warmup", {0}, std::min(schedule.warmup, schedule.steps));
  schedule.floor = fields.number("floor", {0, 1}, schedule.floor);
  if (schedule.warmup > schedule.steps) {
    fields.fail(fields.position("warmup"), "expected \"warmup\" to be at most \"steps\", found " +
                                               std::to_string(schedule.warmup) + " of " +
                                               std::to_string(schedule.steps) +
                                               " steps; warm up for fewer steps or train for more");
  }
  return schedule;
}

Precision readPrecision(const Fields &fields) {
  fields.allowOnly({"compute", "residual"});
  Names<NumberType> names = {{"f32", NumberType::F32}, {"bf16", NumberType::Bf16}};
  Precision precision;
  precision.compute = fields.choice<NumberType>("compute", names, precision.compute);
  precision.residual = fields.choice<NumberType>("residual", names, precision.residual);
  if (precision.residual == NumberType::Bf16 && precision.compute == NumberType::F32) {
    fields.fail(fields.position("residual"),
                "expected \"residual\" to be \"f32\" where \"compute\" is \"f32\", found \"bf16\"; "
                "set \"compute\": \"bf16\" too, or leave \"residual\" out");
  }
  return precision;
}

void checkDefaultsOf(const Fields &top, std::optional<Fields> &defaults) {
  if (const JsonValue *value = top.find("defaults")) {
    defaults.emplace(*value, top.fileName(), "the defaults");
    checkDefaults(*defaults);
  }
}

void readSizes(const Fields &top, Model &model) {
  model.vocabulary = top.integer("vocabulary", {2});
  model.context = top.integer("context", {});
  model.batch = top.integer("batch", {});
  model.width = top.integer("width", {});
  model.seed = top.integer("seed", {0, std::numeric_limits<int64_t>::max()}, 0);
}

void readStages(const Fields &top, const Fields *defaults, Model &model) {
  const JsonValue &list = top.need("stages", "an array of stages");
  if (list.kind != JsonKind::Array || list.items.size() < 2) {
    std::string items = list.kind == JsonKind::Array && !list.items.empty() ? "one stage" : "";
    top.fail(list.position, "expected an array of at least two stages for \"stages\", found " +
                                (items.empty() ? describe(list) : items) +
                                "; begin with an embedding and end with a head");
  }
  for (size_t i = 0; i < list.items.size(); ++i) {
    Stage stage = readStage(list.items[i], top.fileName(), defaults, model.width);
    stage.prefix = "stages." + std::to_string(i);
    bool first = i == 0, last = i + 1 == list.items.size();
    Op op = stage.op();
    if (first != (op == Op::Embedding) || last != (op == Op::Head)) {
      std::string expected =
          first  ? "an embedding as the first stage"
          : last ? "a head as the last stage"
                 : "only the first stage to be an embedding and only the last a head";
      top.fail({stage.at("op").line, stage.at("op").column},
               "expected " + expected + ", found " + quote(name(op)) + " as stage " +
                   std::to_string(i + 1) + " of " + std::to_string(list.items.size()));
    }
    model.stages.push_back(std::move(stage));
  }
}

void checkVersion(const Fields &top) {
  const JsonValue &version = top.need("sluice", "1, the version of the spec's format");
  if (version.kind != JsonKind::Integer || version.integer != formatVersion) {
    top.mismatch(version, "sluice", "1, the version of the spec's format",
                 "this program reads no other version");
  }
}

Model readModel(std::string text, const std::string &file) {
  JsonValue root = parseJson(text, file);
  if (root.kind != JsonKind::Object) {
    throw Failure{{{file, root.position.line, root.position.column},
                   "expected an object with the model's spec ({ ... }), found " + describe(root)}};
  }
  Fields top(root, file, "the spec");
  top.allowOnly({"sluice", "name", "vocabulary", "context", "batch", "width", "seed", "defaults",
                 "stages", "precision", "training"});
  checkVersion(top);
  Model model;
  model.location = top.locate(root.position);
  model.keys = top.locations();
  model.name = top.text("name", std::filesystem::path(file).stem().string());
  readSizes(top, model);
  std::optional<Fields> defaults;
  checkDefaultsOf(top, defaults);
  readStages(top, defaults ? &*defaults : nullptr, model);
  if (const JsonValue *precision = top.find("precision")) {
    model.precision = readPrecision(Fields(*precision, file, "the precision"));
  }
  if (const JsonValue *training = top.find("training")) {
    model.training = readTraining(Fields(*training, file, "the training settings"));
  }
  model.text = std::move(text);
  checkExpansion(model);
  return model;
}

std::string readWhole(const std::string &path) {
  try {
    return runtime::readText(path, "spec", largestFile);
  } catch (const runtime::UserError &error) {
    throw Failure{{{}, error.what()}}; // it begins with the path
  }
}

} // namespace

Training readTraining(const Fields &fields) {
  fields.allowOnly(
      {"optimizer", "learning_rate", "betas", "epsilon", "weight_decay", "clip", "schedule"});
  Training training;
  training.optimizer = fields.choice<Optimizer>(
      "optimizer", {{"adamw", Optimizer::AdamW}, {"adam", Optimizer::Adam}}, training.optimizer);
  training.learningRate = fields.number("learning_rate", positive, training.learningRate);
  if (const JsonValue *betas = fields.find("betas")) {
    constexpr std::string_view type = "an array of two numbers >= 0 and < 1";
    const std::vector<JsonValue> &items = fields.itemsAt(*betas, "betas", 2, type);
    training.beta1 = fields.numberAt(items[0], "betas", probability);
    training.beta2 = fields.numberAt(items[1], "betas", probability);
  }
  training.epsilon = fields.number("epsilon", positive, training.epsilon);
  training.weightDecay = fields.number("weight_decay", {}, training.weightDecay);
  training.clip = fields.number("clip", {}, training.clip);
  if (const JsonValue *schedule = fields.find("schedule")) {
    training.schedule = readSchedule(*schedule, fields.fileName());
  }
  return training;
}

std::optional<Model> readText(std::string text, const std::string &file, Diagnostic &error) {
  try {
    return readModel(std::move(text), file);
  } catch (Failure &failure) {
    error = std::move(failure.diagnostic);
    return std::nullopt;
  }
}

std::optional<Model> readFile(const std::string &path, Diagnostic &error) {
  try {
    return readModel(readWhole(path), path);
  } catch (Failure &failure) {
    error = std::move(failure.diagnostic);
    return std::nullopt;
  }
}

static Model readWith(const std::string &text, const std::string &file,
                      const std::vector<Setting> &settings) {
  std::string changed = withSettings(text, file, settings);
  try {
    return readModel(changed, file);
  } catch (Failure &failure) {
    blameSettings(failure.diagnostic, text, changed, settings);
    throw;
  }
}

std::optional<Model> readTextWith(const std::string &text, const std::string &file,
                                  const std::vector<Setting> &settings, Diagnostic &error) {
  try {
    return readWith(text, file, settings);
  } catch (Failure &failure) {
    error = std::move(failure.diagnostic);
    return std::nullopt;
  }
}

std::optional<Model> readFileWith(const std::string &path, const std::vector<Setting> &settings,
                                  Diagnostic &error) {
  try {
    return readWith(readWhole(path), path, settings);
  } catch (Failure &failure) {
    error = std::move(failure.diagnostic);
    return std::nullopt;
  }
}

std::string toString(const SourceLocation &location) {
  std::string file = showPath(location.file);
  if (location.line == 0) {
    return file;
  }
  return file + ":" + std::to_string(location.line) + ":" + std::to_string(location.column);
}

std::string Diagnostic::format() const {
  std::string place = toString(location);
  return place.empty() ? message : place + ": " + message;
}

const SourceLocation &Stage::at(std::string_view key) const {
  auto found = keys.find(key);
  return found == keys.end() ? location : found->second;
}

} // namespace sluice::spec
