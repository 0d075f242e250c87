// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From a spec to the graph of its values: a second reading of docs/spec.md. Read is what decides
// the graph: stages, their order and names, factors, shifts, masks, placement, activation, dropout.
#include "Certify.h"
#include "Graph.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <sstream>

using namespace certify;
using nlohmann::json;

namespace {

constexpr int64_t largestNumber = (int64_t{1} << 31) - 1;
constexpr size_t mostValues = size_t{1} << 20;

/// What a `layer` is, as far as the graph goes.
struct Layer {
  bool preNorm = true, gated = false, dropsOut = false;
  Mask mask;
};

struct Level {
  int64_t layers, factor;
};

const std::set<std::string> layerKeys = {
    "heads",   "key_value_heads",   "head_size", "norm",   "placement", "epsilon",     "activation",
    "dropout", "attention_dropout", "mask",      "rotary", "bias",      "feed_forward"};

const std::map<std::string, std::set<std::string>> ownKeys = {
    {"embedding", {"positions", "dropout", "to"}},
    {"layer", {"from", "to"}},
    {"norm", {"norm", "epsilon", "from", "to"}},
    {"shift", {"by", "from", "to"}},
    {"shorten", {"factor", "method", "from", "to"}},
    {"upsample", {"factor", "method", "from", "to"}},
    {"add", {"with", "from", "to"}},
    {"dropout", {"rate", "from", "to"}},
    {"head", {"tied", "bias", "from"}},
    {"layers", {"count", "from", "to"}},
    {"hourglass", {"hierarchy", "shorten", "upsample", "shift", "from", "to"}}};

[[noreturn]] void fail(const std::string &where, const std::string &expected,
                       const std::string &found) {
  throw BadInput(where + ": expected " + expected + ", found " + found);
}

/// A stage's settings: its own keys, then those of `defaults` where the stage has layer settings.
class Fields {
public:
  Fields(const json &own, const json *defaults, std::string where)
      : own(own), defaults(defaults), where(std::move(where)) {}

  const json *find(const std::string &key) const {
    for (const json *object : {&own, defaults}) {
      if (object && object->contains(key)) {
        return &object->at(key);
      }
    }
    return nullptr;
  }

  int64_t integer(const std::string &key, int64_t least,
                  std::optional<int64_t> otherwise = {}) const {
    const json *value = find(key);
    if (!value && otherwise) {
      return *otherwise;
    }
    return integerOf(value ? *value : json(), key, least);
  }

  int64_t integerOf(const json &value, const std::string &key, int64_t least) const {
    bool fits = value.is_number_integer() && value >= least && value <= largestNumber;
    if (!fits) {
      fail(where, "an integer from " + std::to_string(least) + " for \"" + key + "\"",
           value.dump());
    }
    return value.get<int64_t>();
  }

  /// A probability that is not 0.
  bool dropsOut(const std::string &key) const {
    const json *value = find(key);
    if (!value) {
      return false;
    }
    if (!value->is_number() || *value < 0 || *value >= 1) {
      fail(where, "a number >= 0 and < 1 for \"" + key + "\"", value->dump());
    }
    return *value > 0;
  }

  /// The index of the value among `names`; the first where there is none.
  size_t choice(const std::string &key, const std::vector<std::string> &names) const {
    const json *value = find(key);
    auto found = value ? std::find(names.begin(), names.end(),
                                   value->is_string() ? value->get<std::string>() : "")
                       : names.begin();
    if (found == names.end()) {
      fail(where, "a known value for \"" + key + "\"", value->dump());
    }
    return static_cast<size_t>(found - names.begin());
  }

  std::string text(const std::string &key) const {
    const json *value = find(key);
    if (!value || !value->is_string() || value->get<std::string>().empty()) {
      fail(where, "a string that is not empty for \"" + key + "\"", value ? value->dump() : "none");
    }
    return value->get<std::string>();
  }

  [[noreturn]] void mismatch(const std::string &expected, const std::string &found) const {
    fail(where, expected, found);
  }

private:
  const json &own;
  const json *defaults;
  std::string where;
};

Mask readMask(const Fields &fields) {
  const json *value = fields.find("mask");
  if (!value || *value == "causal") {
    return {};
  }
  if (*value == "bidirectional") {
    return {Mask::Bidirectional};
  }
  const char *expected =
      R"("causal", "bidirectional" or {"window": [a, b]}, 0 <= a < b, for "mask")";
  if (!value->is_object() || value->size() != 1 || !value->contains("window") ||
      !value->at("window").is_array() || value->at("window").size() != 2) {
    fields.mismatch(expected, value->dump());
  }
  Mask mask = {Mask::Window, fields.integerOf(value->at("window")[0], "window", 0),
               fields.integerOf(value->at("window")[1], "window", 0)};
  if (mask.begin >= mask.end) {
    fields.mismatch(expected, value->dump());
  }
  return mask;
}

Layer readLayer(const Fields &fields) {
  Layer layer;
  layer.preNorm = fields.choice("placement", {"pre", "post"}) == 0;
  layer.gated = fields.choice("activation", {"gelu", "relu", "gelu_tanh", "swiglu"}) == 3;
  bool blocks = fields.dropsOut("dropout"), weights = fields.dropsOut("attention_dropout");
  layer.dropsOut = blocks || weights;
  layer.mask = readMask(fields);
  return layer;
}

/// "2@1 8@4 2@1"
std::vector<Level> readHierarchy(const Fields &fields) {
  std::string text = fields.text("hierarchy"), word;
  std::vector<Level> levels;
  auto number = [&](std::string_view digits, int64_t least, int64_t most) {
    int64_t value = 0;
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size() || value < least ||
        value > most) {
      fields.mismatch("levels LAYERS@FACTOR", text);
    }
    return value;
  };
  for (std::istringstream words(text); words >> word;) {
    size_t at = std::min(word.find('@'), word.size() - 1);
    std::string_view view = word;
    levels.push_back(
        {number(view.substr(0, at), 0, 10000), number(view.substr(at + 1), 1, largestNumber)});
  }
  bool good = levels.size() % 2 == 1 && levels.size() <= 63 && levels[0].factor == 1 &&
              (levels.size() > 1 || levels[0].layers > 0);
  for (size_t i = 0; good && i < levels.size() / 2; ++i) {
    good = levels[levels.size() - 1 - i].factor == levels[i].factor &&
           levels[i + 1].factor % levels[i].factor == 0;
  }
  if (!good) {
    fields.mismatch(
        "an odd number of levels from factor 1 inwards and back, each factor a multiple "
        "of the one outside it",
        text);
  }
  return levels;
}

/// Derives one graph.
class Deriver {
public:
  Deriver(const json &spec, bool train) : spec(spec), train(train) {}

  Graph run();
  bool hasDropout() const { return dropout; } ///< known after run()

private:
  size_t stage(const std::string &op, const Fields &fields, const std::string &path, size_t input);
  size_t embedding(const Fields &fields, const std::string &path);
  size_t layer(const Layer &settings, const std::string &path, size_t x);
  size_t shorten(const std::string &path, int64_t k, bool linear, size_t x);
  size_t upsample(const std::string &path, int64_t k, bool linear, size_t x, const Fields &fields);
  size_t add(const std::string &path, size_t x, size_t y, const Fields &fields);
  size_t hourglass(const Fields &fields, const std::string &path, size_t x);
  size_t stream(const std::string &name, const Fields &fields) const;

  /// Appends a value on its first operand's scale.
  size_t make(Kind kind, const std::string &name, std::vector<size_t> operands,
              int64_t number = 0) {
    if (graph.values.size() >= mostValues) {
      throw BadInput("expected a model of fewer than " + std::to_string(mostValues) + " values");
    }
    int64_t factor = operands.empty() ? 1 : graph.values[operands[0]].factor;
    graph.values.push_back({name, kind, number, {}, std::move(operands), factor});
    return graph.values.size() - 1;
  }
  size_t rescale(size_t value, int64_t factor) {
    graph.values[value].factor = factor;
    return value;
  }

  const json &spec;
  bool train, dropout = false;
  Graph graph;
  std::map<std::string, size_t> streams;
};

size_t Deriver::embedding(const Fields &fields, const std::string &path) {
  std::vector<size_t> terms = {make(Kind::Embed, path + ".token", {0})};
  if (fields.choice("positions", {"none", "learned", "sinusoidal"}) != 0) {
    terms.push_back(make(Kind::Position, path + ".position", {}));
  }
  bool drops = fields.dropsOut("dropout");
  dropout |= drops;
  return terms.size() > 1 || (train && drops) ? make(Kind::Map, path + ".sum", terms) : terms[0];
}

size_t Deriver::layer(const Layer &settings, const std::string &path, size_t x) {
  dropout |= settings.dropsOut;
  auto block = [&](const std::string &name, auto inner) {
    size_t branch = inner(settings.preNorm ? make(Kind::Norm, name + ".norm", {x}) : x);
    x = make(Kind::Map, name + ".sum", {x, branch});
    x = settings.preNorm ? x : make(Kind::Norm, name + ".norm", {x});
  };
  block(path + ".attention", [&](size_t v) {
    v = make(Kind::Linear, path + ".attention.qkv", {v});
    v = make(Kind::Attention, path + ".attention.mix", {v, v, v});
    graph.values[v].mask = settings.mask;
    return make(Kind::Linear, path + ".attention.output", {v});
  });
  block(path + ".feed_forward", [&](size_t v) {
    std::vector<size_t> in;
    if (settings.gated) {
      in.push_back(make(Kind::Linear, path + ".feed_forward.gate", {v}));
    }
    in.push_back(make(Kind::Linear, path + ".feed_forward.in", {v}));
    v = make(Kind::Map, path + ".feed_forward.activation", in);
    return make(Kind::Linear, path + ".feed_forward.out", {v});
  });
  return x;
}

size_t Deriver::shorten(const std::string &path, int64_t k, bool linear, size_t x) {
  int64_t factor = graph.values[x].factor * k; // both below 2^31
  if (factor > largestNumber) {
    throw BadInput(path + ": expected scales of at most " + std::to_string(largestNumber) +
                   " tokens a position, found " + std::to_string(factor));
  }
  if (k > 1) {
    x = linear ? make(Kind::Fold, path + ".fold", {x}, k)
               : make(Kind::Shorten, path + ".shorten", {x}, k);
    rescale(x, factor);
  }
  return linear ? make(Kind::Linear, path + ".linear", {x}) : x;
}

size_t Deriver::upsample(const std::string &path, int64_t k, bool linear, size_t x,
                         const Fields &fields) {
  int64_t factor = graph.values[x].factor;
  if (factor % k != 0) {
    fields.mismatch("a factor that divides the scale's, " + std::to_string(factor),
                    std::to_string(k));
  }
  if (linear) {
    x = make(Kind::Linear, path + ".linear", {x});
  }
  if (k == 1) {
    return x;
  }
  x = linear ? make(Kind::Unfold, path + ".unfold", {x}, k)
             : make(Kind::Upsample, path + ".upsample", {x}, k);
  return rescale(x, factor / k);
}

size_t Deriver::add(const std::string &path, size_t x, size_t y, const Fields &fields) {
  if (graph.values[x].factor != graph.values[y].factor) {
    fields.mismatch("two streams of one scale",
                    "factors " + std::to_string(graph.values[x].factor) + " and " +
                        std::to_string(graph.values[y].factor));
  }
  return make(Kind::Map, path + ".add", {x, y});
}

size_t Deriver::hourglass(const Fields &fields, const std::string &path, size_t x) {
  std::vector<Level> levels = readHierarchy(fields);
  Layer settings = readLayer(fields);
  bool folds = fields.choice("shorten", {"average", "linear"}) == 1;
  bool unfolds = fields.choice("upsample", {"repeat", "linear"}) == 1;
  size_t middle = levels.size() / 2;
  auto level = [&](auto &self, size_t depth, const std::string &prefix) -> void {
    int64_t count = 0;
    auto next = [&] { return prefix + ".inside." + std::to_string(count++); };
    auto stack = [&](int64_t layers) {
      for (int64_t i = 0; i < layers; ++i) {
        x = layer(settings, next(), x);
      }
      if (layers > 0 && settings.preNorm) {
        x = make(Kind::Norm, next() + ".norm", {x});
      }
    };
    stack(levels[depth].layers);
    if (depth == middle) {
      return;
    }
    size_t skip = x;
    int64_t k = levels[depth + 1].factor / levels[depth].factor;
    x = make(Kind::Shift, next() + ".shift", {x}, fields.integer("shift", 0, k - 1));
    x = shorten(next(), k, folds, x);
    if (depth + 1 == middle) {
      stack(levels[middle].layers);
    } else {
      self(self, depth + 1, next());
    }
    x = upsample(next(), k, unfolds, x, fields);
    x = add(next(), x, skip, fields);
    stack(levels[levels.size() - 1 - depth].layers);
  };
  level(level, 0, path);
  return x;
}

size_t Deriver::stream(const std::string &name, const Fields &fields) const {
  auto found = streams.find(name);
  if (found == streams.end()) {
    fields.mismatch("the name of an earlier stage's result", "\"" + name + "\"");
  }
  return found->second;
}

size_t Deriver::stage(const std::string &op, const Fields &fields, const std::string &path,
                      size_t x) {
  if (op == "embedding") {
    return embedding(fields, path);
  }
  if (op == "layer") {
    return layer(readLayer(fields), path, x);
  }
  if (op == "layers") {
    Layer settings = readLayer(fields);
    int64_t count = fields.integer("count", 1);
    for (int64_t i = 0; i < count; ++i) {
      x = layer(settings, path + ".inside." + std::to_string(i), x);
    }
    return x;
  }
  if (op == "hourglass") {
    return hourglass(fields, path, x);
  }
  if (op == "norm") {
    return make(Kind::Norm, path + ".norm", {x});
  }
  if (op == "shift") {
    return make(Kind::Shift, path + ".shift", {x}, fields.integer("by", 0));
  }
  if (op == "shorten") {
    bool linear = fields.choice("method", {"average", "linear"}) == 1;
    return shorten(path, fields.integer("factor", 1), linear, x);
  }
  if (op == "upsample") {
    bool linear = fields.choice("method", {"repeat", "linear"}) == 1;
    return upsample(path, fields.integer("factor", 1), linear, x, fields);
  }
  if (op == "add") {
    return add(path, x, stream(fields.text("with"), fields), fields);
  }
  if (op == "dropout") {
    bool drops = fields.dropsOut("rate");
    dropout |= drops;
    return train && drops ? make(Kind::Map, path + ".dropout", {x}) : x;
  }
  graph.loss = path + ".head";
  graph.row = x;
  if (graph.values[x].factor != 1) {
    fields.mismatch("a head that reads factor 1", std::to_string(graph.values[x].factor));
  }
  return x;
}

/// Keeps what the loss is computed from, in order.
void keepLive(Graph &graph) {
  std::vector<bool> live(graph.values.size());
  live[graph.row] = true;
  for (size_t i = graph.values.size(); i-- > 0;) {
    for (size_t operand : graph.values[i].operands) {
      live[operand] = live[operand] || live[i];
    }
  }
  std::vector<size_t> numbers(graph.values.size());
  std::vector<Value> kept;
  for (size_t i = 0; i < graph.values.size(); ++i) {
    if (live[i]) {
      numbers[i] = kept.size();
      kept.push_back(std::move(graph.values[i]));
      for (size_t &operand : kept.back().operands) {
        operand = numbers[operand];
      }
    }
  }
  graph.row = numbers[graph.row];
  graph.values = std::move(kept);
}

Graph Deriver::run() {
  size_t previous = make(Kind::Tokens, "tokens", {});
  const json *defaults = spec.contains("defaults") ? &spec["defaults"] : nullptr;
  const json &stages = spec["stages"];
  for (size_t i = 0; i < stages.size(); ++i) {
    const json &stage = stages[i];
    std::string path = "stages." + std::to_string(i), op = Fields(stage, nullptr, path).text("op");
    auto known = ownKeys.find(op);
    if (known == ownKeys.end() || (op == "embedding") != (i == 0) ||
        (op == "head") != (i + 1 == stages.size())) {
      fail(path, "the kind of a stage, an embedding first and a head last", "\"" + op + "\"");
    }
    bool layered = op == "layer" || op == "layers" || op == "hourglass";
    for (const auto &[key, value] : stage.items()) {
      if (key != "op" && !known->second.contains(key) && !(layered && layerKeys.contains(key))) {
        fail(path, "a key of " + op, "\"" + key + "\"");
      }
    }
    Fields fields(stage, layered ? defaults : nullptr, path);
    size_t input = stage.contains("from") ? stream(fields.text("from"), fields) : previous;
    previous = this->stage(op, fields, path, input);
    if (stage.contains("to") && !streams.try_emplace(fields.text("to"), previous).second) {
      fail(path, "a name that no earlier result has", "\"" + fields.text("to") + "\"");
    }
  }
  keepLive(graph);
  return std::move(graph);
}

/// JSON in which no object has a key twice: which of the two holds would be anyone's guess.
json parseSpec(const std::string &text) {
  std::vector<std::set<std::string>> open;
  auto watch = [&](int, json::parse_event_t event, json &parsed) {
    if (event == json::parse_event_t::object_start) {
      open.emplace_back();
    } else if (event == json::parse_event_t::object_end) {
      open.pop_back();
    } else if (event == json::parse_event_t::key && !open.back().insert(parsed).second) {
      throw BadInput("expected keys that stand once, found " + parsed.dump() + " twice");
    }
    return true;
  };
  try {
    return json::parse(text, watch);
  } catch (const json::exception &error) {
    throw BadInput(std::string("expected JSON, found ") + error.what());
  }
}

} // namespace

Model certify::deriveModel(const std::string &text) {
  json spec = parseSpec(text);
  bool known = spec.is_object() && spec.contains("sluice") && spec["sluice"] == 1 &&
               spec.contains("stages") && spec["stages"].is_array() && spec["stages"].size() >= 2;
  if (!known || (spec.contains("defaults") && !spec["defaults"].is_object())) {
    throw BadInput(
        "expected a spec of version 1, an object with \"sluice\", \"stages\" of at least "
        "two, and perhaps \"defaults\", found another value");
  }
  for (const json &stage : spec["stages"]) {
    if (!stage.is_object()) {
      fail("stages", "objects", stage.dump());
    }
  }
  Deriver evaluate(spec, false);
  Model model = {evaluate.run(), std::nullopt};
  if (evaluate.hasDropout()) {
    model.train = Deriver(spec, true).run();
  }
  return model;
}
