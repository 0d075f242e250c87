// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ApplySettings.h"
#include "Numbers.h"
#include "Stages.h"
#include "StreamWidths.h"
#include "sluice/Runtime/Error.h"
#include "sluice/Runtime/Files.h"
#include "sluice/Runtime/Format.h"
#include "sluice/Runtime/Limits.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>

namespace sluice::spec {
namespace {

constexpr int64_t formatVersion = 1;
constexpr size_t largestFile = size_t(16) << 20;

/// Sets the second phase of a schedule.
void readFall(const Fields &fields, Schedule &schedule) {
  fields.allowOnly({"steps", "floor"});
  fields.need("steps", "the steps over which the rate falls");
  schedule.then = {fields.integer("steps", {}), fields.number("floor", {0, 1}, 0)};
  if (schedule.then->floor > schedule.last()) {
    fields.mismatch(
        *fields.find("floor"), "floor",
        format("a number of at most %g, the rate where this phase begins", schedule.last()),
        "a phase lets the rate fall");
  }
}

Schedule readSchedule(const JsonValue &value, const std::string &file) {
  Fields fields(value, file, "a schedule");
  fields.allowOnly({"kind", "warmup", "steps", "floor", "then"});
  Schedule schedule;
  schedule.kind = fields.choice("kind", scheduleNames, schedule.kind);
  schedule.steps = fields.integer("steps", {}, schedule.steps);
  schedule.warmup = fields.integer("warmup", {0}, std::min(schedule.warmup, schedule.steps));
  schedule.floor = fields.number("floor", {0, 1}, schedule.floor);
  if (schedule.warmup > schedule.steps) {
    fields.fail(fields.position("warmup"), "expected \"warmup\" to be at most \"steps\", found " +
                                               std::to_string(schedule.warmup) + " of " +
                                               std::to_string(schedule.steps) +
                                               " steps; warm up for fewer steps or train for more");
  }
  if (const JsonValue *then = fields.find("then")) {
    readFall(Fields(*then, file, "a second phase"), schedule);
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

/// Distances in rows that defaults say are of the layers which count any: one must.
void checkDistancesAreCounted(const std::optional<Fields> &defaults, const Model &model) {
  const JsonValue *said = defaults ? defaults->find("distances") : nullptr;
  auto counts = [](const auto &settings) {
    if constexpr (requires { settings.countsRows; }) {
      return settings.countsRows;
    } else if constexpr (requires { settings.layer.countsRows; }) {
      return settings.layer.countsRows;
    } else {
      return false;
    }
  };
  if (said && said->text == "rows" && std::ranges::none_of(model.stages, [&](const Stage &stage) {
        return std::visit(counts, stage.settings);
      })) {
    defaults->fail(said->position,
                   "expected a stage with Transformer-XL's \"relative\" terms where the defaults "
                   "say \"distances\": \"rows\", found none; leave \"distances\" out");
  }
}

void readSizes(const Fields &top, Model &model) {
  model.vocabulary = top.integer("vocabulary", {2});
  model.context = top.integer("context", {});
  model.batch = top.integer("batch", {});
  model.width = top.integer("width", {});
  model.seed = top.integer("seed", {0, std::numeric_limits<int64_t>::max()}, 0);
}

} // namespace

/// Names become those of functions' neighbours and of a plan's inputs.
bool isInputName(std::string_view name) {
  constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyz";
  constexpr std::array<std::string_view, 18> taken = {
      "tokens",   "target",  "last",    "prompt",   "text",       "take",
      "evaluate", "predict", "train",   "gradient", "accumulate", "initialize",
      "prepare",  "update",  "prefill", "reset",    "step",       "sinusoidal"};
  bool isWord = !name.empty() && letters.find(name.front()) != letters.npos &&
                name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == name.npos;
  bool isScale = name.size() > 1 && name.front() == 's' &&
                 name.find_first_not_of("0123456789", 1) == name.npos;
  return isWord && !isScale && std::ranges::find(taken, name) == taken.end();
}

namespace {

void readInputs(const Fields &top, Model &model) {
  const JsonValue *list = top.find("inputs");
  if (list && list->kind != JsonKind::Object) {
    top.mismatch(*list, "inputs", "an object of inputs by name",
                 R"(as in {"source": {"context": 64}})");
  }
  for (const JsonMember &member : list ? list->members : std::vector<JsonMember>()) {
    if (!isInputName(member.key)) {
      top.fail(member.position,
               "expected the name of an input: a lower-case letter, then such letters, digits and "
               "_, and no word that sluice uses itself, found " +
                   quote(member.key) + "; choose another, such as \"source\"");
    }
    Fields fields(member.value, top.fileName(), "the input " + quote(member.key));
    SourceLocation place = top.locate(member.position);
    if (std::optional<Numbers> numbers = readNumbers(fields, member.key, place, model.vocabulary)) {
      model.numbers.push_back(*numbers);
      continue;
    }
    model.inputs.push_back({member.key, place, fields.integer("context", {}),
                            fields.integer("vocabulary", {2}, model.vocabulary)});
  }
  std::ranges::sort(model.inputs, {}, &Input::name);
  std::ranges::sort(model.numbers, {}, &Numbers::name);
  if (!model.inputs.empty() && !model.numbers.empty()) {
    throw Failure{{model.numbers.front().location,
                   "expected no input on the axis \"tokens\" beside inputs that have axes of their "
                   "own, found " +
                       quote(model.numbers.front().name) + " and " +
                       quote(model.inputs.front().name) +
                       "; lines of such inputs take no rows of numbers yet: leave one out"}};
  }
}

void checkInput(const Embedding &embedding, const Stage &stage, const Model &model) {
  if (const Numbers *numbers = model.findNumbers(embedding.input)) {
    return checkEmbedsNumbers(embedding, stage, *numbers);
  }
  if (model.findInput(embedding.input)) {
    return;
  }
  std::vector<std::string_view> known;
  for (const Input &input : model.inputs) {
    known.push_back(input.name);
  }
  throw Failure{
      {stage.at("input"), "expected the name of an input, found " + quote(embedding.input) + "; " +
                              (known.empty() ? R"(the spec has none: add it to "inputs")"
                                             : suggestion(embedding.input, known, "inputs"))}};
}

void checkVocabulary(const Stage &stage, int64_t vocabulary) {
  if (const Composed *composed = composedOf(stage.settings)) {
    for (const Stage &inner : composed->stages) {
      checkVocabulary(inner, vocabulary);
    }
  }
  const auto *embedding = std::get_if<Embedding>(&stage.settings);
  const auto *made = std::get_if<Boundaries>(&stage.settings);
  std::optional<int64_t> token = embedding ? embedding->documentEnd
                                 : made    ? made->documentEnd
                                           : std::nullopt;
  if (token && *token >= vocabulary) {
    throw Failure{{stage.at("document_end"), "expected a token below the vocabulary of " +
                                                 std::to_string(vocabulary) +
                                                 " for \"document_end\", found " +
                                                 std::to_string(*token) + "; name another"}};
  }
}

/// An input that no stage embeds is a slip.
void checkInputsAreRead(const Model &model) {
  for (const Input &input : model.inputs) {
    auto embeds = [&](const Stage &stage) {
      const auto *embedding = std::get_if<Embedding>(&stage.settings);
      return embedding && embedding->input == input.name;
    };
    if (std::ranges::none_of(model.stages, embeds)) {
      throw Failure{{input.location, "expected a stage that embeds the input " + quote(input.name) +
                                         R"(, found none; add {"op": "embedding", "input": ")" +
                                         input.name + "\"}, or leave the input out"}};
    }
  }
}

/// Names the stage's weights, and those of the stages that it is made of.
void setPrefix(Stage &stage, std::string prefix) {
  if (Composed *composed = composedOf(stage.settings)) {
    for (size_t i = 0; i < composed->stages.size(); ++i) {
      setPrefix(composed->stages[i], prefix + ".inside." + std::to_string(i));
    }
  }
  stage.prefix = std::move(prefix);
}

void readStages(const Fields &top, const Fields *defaults, Model &model) {
  const JsonValue &list = top.need("stages", "an array of stages");
  if (list.kind != JsonKind::Array || list.items.size() < 2) {
    std::string items = list.kind == JsonKind::Array && !list.items.empty() ? "one stage" : "";
    top.fail(list.position, "expected an array of at least two stages for \"stages\", found " +
                                (items.empty() ? describe(list) : items) +
                                "; begin with an embedding and end with a head");
  }
  StreamWidths widths(model.width);
  for (size_t i = 0; i < list.items.size(); ++i) {
    int64_t width = widths.before(list.items[i]);
    Stage stage = readStage(list.items[i], top.fileName(), defaults, width, model.context);
    widths.add(stage, width);
    setPrefix(stage, "stages." + std::to_string(i));
    bool first = i == 0, last = i + 1 == list.items.size();
    Op op = stage.op();
    const auto *embedding = std::get_if<Embedding>(&stage.settings);
    if (embedding && !embedding->input.empty()) {
      checkInput(*embedding, stage, model);
    }
    checkVocabulary(stage, model.vocabulary);
    checkNumbersOfLoss(stage, model);
    bool isOfTokens = embedding && embedding->input.empty();
    if ((first && !isOfTokens) || last != (op == Op::Head)) {
      std::string expected = first  ? "an embedding of the tokens as the first stage"
                             : last ? "a head as the last stage"
                                    : "only the last stage to be a head";
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
  top.allowOnly({"sluice", "name", "vocabulary", "context", "batch", "width", "seed", "inputs",
                 "defaults", "stages", "precision", "training"});
  checkVersion(top);
  Model model;
  model.location = top.locate(root.position);
  model.keys = top.locations();
  model.name = top.text("name", std::filesystem::path(file).stem().string());
  readSizes(top, model);
  readInputs(top, model);
  std::optional<Fields> defaults;
  checkDefaultsOf(top, defaults);
  readStages(top, defaults ? &*defaults : nullptr, model);
  checkDistancesAreCounted(defaults, model);
  checkInputsAreRead(model);
  checkNumbersAreRead(model);
  if (const JsonValue *precision = top.find("precision")) {
    model.precision = readPrecision(Fields(*precision, file, "the precision"));
  }
  if (const JsonValue *training = top.find("training")) {
    model.training = readTraining(Fields(*training, file, "the training settings"));
  }
  model.text = std::move(text);
  checkVariants(model);
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

double Schedule::last() const {
  auto peak = static_cast<double>(std::max<int64_t>(1, warmup));
  return warmup == steps || kind == ScheduleKind::Constant ? 1
         : kind == ScheduleKind::Cosine
             ? floor
             : std::max(floor, std::sqrt(peak / static_cast<double>(steps)));
}

Training readTraining(const Fields &fields) {
  fields.allowOnly({"optimizer", "learning_rate", "betas", "epsilon", "weight_decay", "clip",
                    "accumulate", "schedule", "order"});
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
  training.cyclic = fields.choice<bool>("order", {{"cut", false}, {"cyclic", true}}, false);
  training.accumulate =
      static_cast<int32_t>(fields.integer("accumulate", {1, mostAccumulated}, training.accumulate));
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
    blameSettings(failure.diagnostic, changed, settings, [&] {
      Diagnostic ignored;
      return readText(text, file, ignored).has_value();
    });
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

const Input *Model::findInput(std::string_view name) const {
  auto found = std::ranges::find(inputs, name, &Input::name);
  return found == inputs.end() ? nullptr : &*found;
}

const Numbers *Model::findNumbers(std::string_view name) const {
  auto found = std::ranges::find(numbers, name, &Numbers::name);
  return found == numbers.end() ? nullptr : &*found;
}

int64_t Model::contextOf(std::string_view input) const {
  const Input *found = findInput(input);
  return found ? found->context : context;
}

const SourceLocation &Stage::at(std::string_view key) const {
  auto found = keys.find(key);
  return found == keys.end() ? location : found->second;
}

} // namespace sluice::spec
