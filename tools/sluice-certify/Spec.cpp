// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From a spec to the graph of its values: a second reading of docs/spec.md. Read is what decides
// the graph: stages, their order and names, factors, shifts, masks, placement, activation, dropout.
#include "Deriver.h"

#include <regex>

using namespace certify;

namespace {

const std::set<std::string> layerKeys = {
    "heads",        "key_value_heads", "head_size",         "norm",   "placement", "epsilon",
    "activation",   "dropout",         "attention_dropout", "mask",   "rotary",    "bias",
    "feed_forward", "relative",        "distances",         "scales", "lsh"};

const std::map<std::string, std::set<std::string>> ownKeys = {
    {"embedding", {"input", "positions", "dropout", "ngrams", "ngram_rows", "document_end", "to"}},
    {"layer", {"over", "attention_norm", "first", "from", "to"}},
    {"norm", {"norm", "epsilon", "from", "to"}},
    {"shift", {"by", "start", "from", "to"}},
    {"shorten", {"factor", "method", "window", "segments", "width", "from", "to"}},
    {"upsample", {"factor", "method", "window", "segments", "by", "width", "from", "to"}},
    {"boundaries",
     {"name", "rule", "factor", "predictor", "prior", "temperature", "weight", "capacity", "at",
      "loss", "threshold", "rise", "epsilon", "window", "document_end", "ratio", "mode", "from"}},
    {"add", {"with", "from", "to"}},
    {"replace", {"with", "block", "start", "from", "to"}},
    {"attend",
     {"over", "segments", "heads", "head_size", "parts", "by", "norm", "epsilon", "bias", "from",
      "to"}},
    {"dropout", {"rate", "from", "to"}},
    {"head", {"tied", "bias", "label_smoothing", "shift", "first", "from"}},
    {"loss", {"name", "factor", "shift", "first", "tied", "bias", "label_smoothing", "from"}},
    {"layers", {"count", "first", "from", "to"}},
    {"hourglass",
     {"hierarchy", "shorten", "shorten_window", "shorten_keys", "upsample", "shift", "shifted",
      "start", "from", "to"}},
    {"project", {"with", "activation", "bias", "width", "from", "to"}},
    {"top_down",
     {"hierarchy", "shorten", "shorten_window", "upsample", "projection_activation", "bags",
      "start", "from", "to"}},
    {"bottom_up", {"hierarchy", "shorten", "shorten_window", "pooling", "from", "to"}}};

void checkKeys(const json &object, const std::set<std::string> &known, const std::string &where) {
  for (const auto &[key, value] : object.items()) {
    if (!known.contains(key)) {
      fail(where, "a key that this checker knows", "\"" + key + "\"");
    }
  }
}

/// In the order of their names.
std::vector<std::string> namesOfInputs(const json &spec) {
  std::vector<std::string> names;
  if (spec.contains("inputs")) {
    for (const auto &[name, input] : spec["inputs"].items()) {
      if (!input.is_object()) {
        fail("inputs", "objects", input.dump());
      }
      checkKeys(input, {"context", "vocabulary"}, "inputs." + name);
      names.push_back(name);
    }
  }
  return names;
}

} // namespace

size_t Deriver::embedding(const Fields &fields, const std::string &path) {
  axis = fields.find("input") ? fields.text("input") : "";
  auto input = inputs.find(axis);
  fields.refuse(!axis.empty() && input == inputs.end(), "the name of an input", "\"" + axis + "\"");
  size_t tokens = axis.empty() ? 0 : input->second;
  std::vector<size_t> terms = {make(Kind::Embed, path + ".token", {tokens})}, last = {tokens};
  for (const json &n : fields.find("ngrams") ? *fields.find("ngrams") : json::array()) {
    for (int64_t by = last.size(), to = fields.integerOf(n, "ngrams", 2);
         by < std::min(to, int64_t{16}); ++by) {
      last.push_back(make(Kind::Shift, path + ".before." + std::to_string(by), {tokens}, by));
    }
    size_t hash = make(Kind::Map, path + ".ngram." + n.dump() + ".hash", last);
    terms.push_back(make(Kind::Embed, path + ".ngram." + n.dump(), {hash}));
  }
  if (fields.choice("positions", {"none", "learned", "sinusoidal"}) != 0) {
    terms.push_back(make(Kind::Position, path + ".position", {}));
  }
  bool drops = dropoutOf(fields, "dropout");
  return terms.size() > 1 || drops ? make(Kind::Map, path + ".sum", terms) : terms[0];
}

size_t Deriver::shorten(const std::string &path, int64_t k, int64_t window, bool linear, size_t x) {
  if (graph.values[x].factor * k > largestNumber) { // both are below 2^31
    fail(path, "scales of at most 2^31 - 1 tokens a position", "more");
  }
  if (k > 1 || window > 1) {
    x = linear ? make(Kind::Fold, path + ".fold", {x}, k)
               : make(Kind::Shorten, path + ".shorten", {x}, k);
    graph.values[x].window = window == k ? 0 : window;
  }
  return linear ? make(Kind::Linear, path + ".linear", {x}) : x;
}

/// A linear map of each row of a group, side by side; or of each part of a group's row.
size_t Deriver::inParts(const std::string &op, const Fields &fields, const std::string &path,
                        size_t x) {
  int64_t k = fields.integer("factor", 1), factor = graph.values[x].factor;
  bool divides = op == "shorten" ? factor * k <= largestNumber : factor % k == 0;
  fields.refuse(!divides || fields.find("window"), "a factor of the scale, without \"window\"",
                std::to_string(k));
  if (op == "upsample" && k > 1) {
    x = make(Kind::Unfold, path + ".unfold", {stored(path + ".groups", x)}, k);
  }
  x = make(Kind::Linear, path + ".linear", {stored(path + ".rows", x)});
  return op == "shorten" && k > 1 ? make(Kind::Fold, path + ".fold", {x}, k) : x;
}

size_t Deriver::upsample(const std::string &path, int64_t k, bool linear, size_t x,
                         const Fields &fields) {
  fields.refuse(graph.values[x].factor % k != 0, "a factor that divides the scale's",
                std::to_string(k));
  int64_t window = fields.integer("window", 1, k);
  fields.refuse(window % k != 0 || (!linear && window != k),
                "a window of whole groups, for a linear upsample", std::to_string(window));
  if (window > k) { // a transposed convolution: a linear map of several groups
    x = make(Kind::Fold, path + ".window", {x}, 1);
    graph.values[x].window = window / k;
  }
  if (linear) {
    x = make(Kind::Linear, path + ".linear", {x});
  }
  return k == 1   ? x
         : linear ? make(Kind::Unfold, path + ".unfold", {x}, k)
                  : make(Kind::Upsample, path + ".upsample", {x}, k);
}

size_t Deriver::stored(const std::string &name, size_t value) {
  return graph.values[value].isLazy() ? make(Kind::Map, name, {value}) : value;
}

size_t Deriver::project(const std::string &path, size_t x, std::optional<size_t> with,
                        bool activated) {
  std::vector<size_t> terms = {make(Kind::Linear, path + ".linear", {stored(path + ".rows", x)})};
  if (with) {
    terms.push_back(make(Kind::Linear, path + ".with", {stored(path + ".with.rows", *with)}));
  }
  return with || activated ? make(Kind::Map, path + ".project", terms) : terms[0];
}

/// Scales from the coarsest down: groups of the stage's own input, beside them what the scale above
/// made of the last group that ended.
size_t Deriver::topDown(const Fields &fields, const std::string &path, size_t input) {
  std::vector<Level> levels = readOneWay(fields, false);
  Layer settings = readLayer(fields);
  fields.refuse(!settings.groups.empty(), "no \"scales\" in a top_down stage", "both");
  bool folds = isLinear(fields.choice("shorten", shortenMethods));
  bool unfolds = fields.choice("upsample", {"repeat", "linear"}) == 1;
  bool activated = isActivated(fields, "projection_activation"), learns = learnsStart(fields);
  Names next{path};
  int64_t before = 0;
  size_t above = input;
  for (const Level &level : levels) {
    bool joins = before > 0;
    int64_t ratio = joins ? before / level.factor : 1;
    if (joins) {
      above = upsample(next(), ratio, unfolds, above, fields);
      above = shift(next(), ratio - 1, learns, above);
    }
    int64_t k = level.factor, window = fields.integer("shorten_window", 1, k);
    size_t x = k > 1 ? shorten(next(), k, window, folds, input) : input;
    x = joins ? project(next(), x, above, activated) : x;
    settings.mask.from = learns ? 0 : levels[0].factor / level.factor - 1;
    x = stack(settings, level.layers, next, x);
    if (level.factor > 1 && fields.find("bags")) {
      nameLoss("bag_" + std::to_string(level.factor), fields, x);
      score(Fields(json::object(), nullptr, path), next(), "loss", x);
    }
    above = x;
    before = level.factor;
  }
  return above;
}

void Deriver::nameLoss(const std::string &name, const Fields &fields, size_t x) {
  bool isWord = name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == name.npos;
  fields.refuse(!isWord || name.empty() || name == "next" || !lossRows.emplace(name, x).second,
                "a name of small letters, digits and underscores that no other loss has",
                "\"" + name + "\"");
}

/// Row t reads group (t - shift) div k. Rows that are not scored are held to the theorem too.
void Deriver::score(const Fields &fields, const std::string &path, const std::string &what,
                    size_t x) {
  dropoutOf(fields, "label_smoothing");
  fields.integer("first", 0, 0);
  int64_t k = graph.values[x].factor, by = fields.integer("shift", 0, k - 1);
  if (k > 1) {
    x = make(Kind::Upsample, path + ".upsample", {x}, k);
  }
  if (by > 0) {
    x = make(Kind::Shift, path + ".shift", {x}, by);
  }
  graph.losses.push_back({path + "." + what, x});
}

size_t Deriver::stream(const std::string &name, const Fields &fields) const {
  auto found = streams.find(name);
  fields.refuse(found == streams.end(), "the name of an earlier stage's result",
                "\"" + name + "\"");
  return found->second;
}

/// On an input's axis nothing groups or delays, and no head reads it.
void Deriver::checkGiven(const std::string &op, const Fields &fields, size_t x) const {
  static const std::set<std::string> ofTokens = {"shift",    "shorten",   "upsample", "hourglass",
                                                 "top_down", "bottom_up", "head",     "loss"};
  bool isRelative = (op == "layer" || op == "layers") && fields.find("relative") &&
                    *fields.find("relative") != "none";
  fields.refuse(graph.values[x].isGiven() && (isRelative || ofTokens.contains(op)),
                "a stream of the tokens for " + op + (isRelative ? " with \"relative\"" : ""),
                "one of " + graph.values[x].input);
}

size_t Deriver::stage(const std::string &op, const Fields &fields, const std::string &path,
                      size_t x) {
  if (op == "boundaries") {
    boundaries(fields, path, x);
    return x;
  }
  if (op == "attend") {
    return attendCut(fields, path, x);
  }
  if ((op == "shorten" || op == "upsample") && fields.find("segments")) {
    return throughCut(op, fields, path, x);
  }
  const json *method = op == "shorten" || op == "upsample" ? fields.find("method") : nullptr;
  if (method && *method == (op == "shorten" ? "concatenate" : "split")) {
    return inParts(op, fields, path, x);
  }
  using Composite = size_t (Deriver::*)(const Fields &, const std::string &, size_t);
  static const std::map<std::string, Composite> composites = {{"layer", &Deriver::singleLayer},
                                                              {"hourglass", &Deriver::hourglass},
                                                              {"top_down", &Deriver::topDown},
                                                              {"bottom_up", &Deriver::bottomUp}};
  if (auto own = composites.find(op); own != composites.end()) {
    return (this->*own->second)(fields, path, x);
  }
  if (op == "embedding" || op == "norm") {
    return op == "norm" ? norm(path, x) : embedding(fields, path);
  }
  bool linear = op == "upsample" ? fields.choice("method", {"repeat", "linear", "transposed"}) > 0
                                 : isLinear(fields.choice("method", shortenMethods));
  if (op == "layers") {
    Layer settings = readLayer(fields);
    settings.mask.from = readFirst(fields, settings);
    for (int64_t i = 0; i < fields.integer("count", 1); ++i) {
      x = layer(settings, path + ".inside." + std::to_string(i), x);
    }
    return x;
  }
  if (op == "shift") {
    int64_t by = fields.integer("by", 0);
    fields.refuse(by == 0 && learnsStart(fields), "a shift of 1 or more for \"start\": \"null\"",
                  "0");
    return shift(path, by, learnsStart(fields), x);
  }
  if (op == "shorten") {
    int64_t k = fields.integer("factor", 1);
    return shorten(path, k, fields.integer("window", 1, k), linear, x);
  }
  if (op == "upsample") {
    return upsample(path, fields.integer("factor", 1), linear, x, fields);
  }
  if (op == "project" && !fields.find("with")) {
    return project(path, x, {}, isActivated(fields, "activation"));
  }
  if (op == "add" || op == "project" || op == "replace") {
    size_t y = stream(fields.text("with"), fields);
    const Value &one = graph.values[x], &other = graph.values[y];
    fields.refuse(std::tie(one.input, one.factor, one.segments) !=
                      std::tie(other.input, other.factor, other.segments),
                  "two streams of one scale", "two scales");
    if (op == "replace") { // the same rows of both
      readBlock(fields);
      return make(Kind::Map, path + ".replace", {y, x});
    }
    return op == "add" ? add(path, x, y) : project(path, x, y, isActivated(fields, "activation"));
  }
  if (op == "dropout") {
    return dropoutOf(fields, "rate") ? make(Kind::Map, path + ".dropout", {x}) : x;
  }
  if (op == "loss") {
    nameLoss(fields.text("name"), fields, x);
  }
  score(fields, path, op, x);
  return x;
}

Graph Deriver::run() {
  size_t previous = make(Kind::Tokens, "tokens", {});
  for (const std::string &name : namesOfInputs(spec)) {
    axis = name;
    inputs[name] = make(Kind::Tokens, name, {});
  }
  axis.clear();
  const json *defaults = spec.contains("defaults") ? &spec["defaults"] : nullptr;
  checkKeys(defaults ? *defaults : json::object(), layerKeys, "defaults");
  const json &stages = spec["stages"];
  for (size_t i = 0; i < stages.size(); ++i) {
    const json &stage = stages[i];
    std::string path = "stages." + std::to_string(i), op = Fields(stage, nullptr, path).text("op");
    auto known = ownKeys.find(op);
    bool embeds = op == "embedding" && !stage.contains("input");
    if (known == ownKeys.end() || (i == 0 && !embeds) ||
        (op == "head") != (i + 1 == stages.size())) {
      fail(path, "the kind of a stage, an embedding first and a head last", "\"" + op + "\"");
    }
    bool layered = op == "layer" || op == "layers" || op == "hourglass" || op == "top_down" ||
                   op == "bottom_up";
    std::set<std::string> keys = known->second;
    keys.insert({"op", "frozen"});
    keys.insert(layerKeys.begin(), layered ? layerKeys.end() : layerKeys.begin());
    checkKeys(stage, keys, path);
    Fields fields(stage, layered ? defaults : nullptr, path);
    size_t input = stage.contains("from") ? stream(fields.text("from"), fields) : previous;
    if (op != "embedding") {
      checkGiven(op, fields, input);
    }
    size_t made = this->stage(op, fields, path, input);
    previous = op == "loss" || op == "boundaries" ? previous : made;
    if (stage.contains("to") && !streams.try_emplace(fields.text("to"), previous).second) {
      fail(path, "a name that no earlier result has", "\"" + fields.text("to") + "\"");
    }
  }
  keepLive(graph);
  return std::move(graph);
}

/// Writes factor i of those that an hourglass draws, as in "2@1 8@{2,3} 2@1", in their place, and
/// returns it: 0 where it draws none, -1 behind the last.
static int64_t chooseFactor(json &spec, size_t i) {
  static const std::regex braces(R"(\{(\d+(,\d+)+)\})");
  int64_t factor = 0;
  for (json &stage : spec["stages"]) {
    std::string text = stage.value("op", "") == "hourglass" ? stage.value("hierarchy", "") : "",
                word;
    for (std::smatch set; std::regex_search(text, set, braces); stage["hierarchy"] = text) {
      std::istringstream words(set[1].str());
      for (size_t n = 0; n <= i && factor >= 0; ++n) {
        factor = std::getline(words, word, ',') ? std::stoll(word) : -1;
      }
      text = set.prefix().str() + std::to_string(factor) + set.suffix().str();
    }
  }
  return factor;
}

std::vector<Model> certify::deriveModels(const std::string &text) {
  json spec = parseSpec(text);
  auto isObject = [](const json &stage) { return stage.is_object(); };
  bool known = spec.is_object() && spec.contains("sluice") && spec["sluice"] == 1 &&
               spec.contains("stages") && spec["stages"].is_array() && spec["stages"].size() >= 2 &&
               std::ranges::all_of(spec["stages"], isObject);
  if (!known || (spec.contains("defaults") && !spec["defaults"].is_object())) {
    throw BadInput(
        "expected a spec of version 1, an object with \"sluice\", \"stages\" of at least "
        "two objects, and perhaps \"defaults\", found another value");
  }
  checkKeys(spec,
            {"sluice", "name", "vocabulary", "context", "batch", "width", "seed", "inputs",
             "defaults", "stages", "precision", "training"},
            "the spec");
  for (std::vector<Model> models;;) {
    json chosen = spec;
    int64_t factor = chooseFactor(chosen, models.size());
    if (factor < 0 || (factor == 0 && !models.empty())) {
      return models;
    }
    Deriver evaluate(chosen, false);
    models.push_back({namesOfInputs(spec), evaluate.run(), std::nullopt, factor});
    if (evaluate.trainsOtherwise()) {
      models.back().train = Deriver(chosen, true).run();
    }
  }
}
