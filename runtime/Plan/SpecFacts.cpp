// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Plan/SpecFacts.h"

#include "sluice/Support/Limits.h"
#include "sluice/Support/StrictJson.h"

#include <limits>

namespace sluice::runtime {

static OptimizerFacts readOptimizer(const StrictJson &json) {
  json.keys({"kind", "learning_rate", "beta1", "beta2", "epsilon", "weight_decay", "clip"});
  auto number = [&](const char *key) { return json.at(key).number(0); };
  return {json.at("kind").matchChoice({"adamw", "adam"}),
          number("learning_rate"),
          number("beta1"),
          number("beta2"),
          number("epsilon"),
          number("weight_decay"),
          number("clip")};
}

static ScheduleFacts readSchedule(const StrictJson &json) {
  json.keys({"kind", "warmup", "steps", "floor"}, {"then"});
  ScheduleFacts schedule{json.at("kind").matchChoice({"cosine", "constant", "inverse_root"}),
                         json.at("warmup").integer(0), json.at("steps").integer(0),
                         json.at("floor").number(0), std::nullopt};
  if (json.has("then")) {
    StrictJson then = json.at("then");
    then.keys({"steps", "floor"});
    schedule.then = {then.at("steps").integer(0), then.at("floor").number(0)};
  }
  return schedule;
}

static StreamFacts readStream(const StrictJson &json) {
  json.keys({"stage", "factor"}, {"rows", "of", "value", "op"});
  std::string rows =
      json.has("rows") ? json.at("rows").matchChoice({"input", "segments", "none"}) : "tokens";
  bool isNamed = rows == "input" || rows == "segments";
  if (isNamed != json.has("of")) {
    json.fail(isNamed ? "\"of\" beside \"rows\"" : "no \"of\"", isNamed ? "none" : "one");
  }
  return {json.at("stage").string(),
          rows == "tokens"     ? StreamFacts::RowAxis::tokens
          : rows == "input"    ? StreamFacts::RowAxis::input
          : rows == "segments" ? StreamFacts::RowAxis::segments
                               : StreamFacts::RowAxis::none,
          isNamed ? json.at("of").string() : "",
          json.at("factor").integer(1, mostSize),
          json.at(json.has("value") ? "value" : "stage").string(),
          json.has("op") ? json.at("op").string() : ""};
}

static BoundaryFacts readBoundaries(const StrictJson &json) {
  json.keys({"name", "value", "numbers", "factor"}, {"shift", "parent", "begins", "document_end"});
  BoundaryFacts facts;
  facts.name = json.at("name").string();
  facts.value = json.at("value").string();
  std::string numbers = json.at("numbers").matchChoice({"bits", "probabilities", "logits"});
  facts.numbers = numbers == "bits"            ? BoundaryFacts::BoundaryEncoding::bits
                  : numbers == "probabilities" ? BoundaryFacts::BoundaryEncoding::probabilities
                                               : BoundaryFacts::BoundaryEncoding::logits;
  if (json.has("shift")) {
    facts.shift = json.at("shift").number(std::numeric_limits<double>::lowest());
  }
  facts.parent = json.has("parent") ? json.at("parent").string() : "";
  facts.factor = json.at("factor").integer(1, mostSize);
  facts.begins = json.has("begins") && json.at("begins").boolean();
  if (json.has("document_end")) {
    facts.documentEnd = json.at("document_end").integer(0, mostSize);
  }
  return facts;
}

static InputFacts readInput(const StrictJson &json) {
  json.keys({"name"}, {"end", "derived", "rule", "pattern"});
  InputFacts facts{json.at("name").string(), json.has("end") && json.at("end").boolean(), "", "",
                   ""};
  if (json.has("derived")) {
    facts.derived = json.at("derived").matchChoice({"word_end", "word_split", "shuffled_end"});
    facts.rule = json.at("rule").matchChoice({"pieces", "whitespace", "file"});
  }
  if (json.has("pattern")) {
    facts.pattern = json.at("pattern").matchChoice({"chain", "random", "half"});
  }
  return facts;
}

SpecFacts readSpecFacts(const StrictJson &json) {
  json.keys({"precision", "optimizer", "schedule", "streams", "names", "boundaries"}, {"inputs"});
  StrictJson precision = json.at("precision");
  precision.keys({"compute", "residual"}, {"weights"});
  SpecFacts facts;
  facts.compute = precision.at("compute").matchChoice({"f32", "bf16"});
  facts.residual = precision.at("residual").matchChoice({"f32", "bf16"});
  if (precision.has("weights")) {
    facts.weights = precision.at("weights").matchChoice({"bf16", "int8", "int4"});
  }
  facts.optimizer = readOptimizer(json.at("optimizer"));
  facts.schedule = readSchedule(json.at("schedule"));
  for (const StrictJson &stream : json.at("streams").array()) {
    facts.streams.push_back(readStream(stream));
  }
  for (const StrictJson &each : json.at("names").array()) {
    each.keys({"name", "stage"});
    facts.names.push_back({each.at("name").string(), each.at("stage").string()});
  }
  for (const StrictJson &each : json.at("boundaries").array()) {
    facts.boundaries.push_back(readBoundaries(each));
  }
  for (const StrictJson &each :
       json.has("inputs") ? json.at("inputs").array() : std::vector<StrictJson>()) {
    facts.inputs.push_back(readInput(each));
  }
  return facts;
}

SpecFacts parseSpecFacts(std::string_view text, const std::string &origin) {
  static const std::string remedy = "; compile the spec again with this version of sluice";
  nlohmann::json json = readJson(text, origin + ": facts", "JSON", remedy);
  return readSpecFacts(StrictJson(json, origin + ": facts", remedy));
}

} // namespace sluice::runtime
