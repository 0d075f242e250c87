// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From a spec to the graph of its values: a second reading of docs/spec.md. Read is what decides
// the graph: stages, their order and names, factors, shifts, masks, placement, activation, dropout.
#include "Fields.h"
#include "Hourglass.h"

#include <map>
#include <numeric>
#include <set>

using namespace certify;

namespace {

constexpr size_t mostValues = size_t{1} << 20;

const std::set<std::string> layerKeys = {
    "heads",        "key_value_heads", "head_size",         "norm", "placement", "epsilon",
    "activation",   "dropout",         "attention_dropout", "mask", "rotary",    "bias",
    "feed_forward", "relative"};

const std::map<std::string, std::set<std::string>> ownKeys = {
    {"embedding", {"input", "positions", "dropout", "to"}},
    {"layer", {"over", "attention_norm", "from", "to"}},
    {"norm", {"norm", "epsilon", "from", "to"}},
    {"shift", {"by", "from", "to"}},
    {"shorten", {"factor", "method", "from", "to"}},
    {"upsample", {"factor", "method", "from", "to"}},
    {"add", {"with", "from", "to"}},
    {"dropout", {"rate", "from", "to"}},
    {"head", {"tied", "bias", "label_smoothing", "from"}},
    {"loss", {"name", "factor", "shift", "tied", "bias", "label_smoothing", "from"}},
    {"layers", {"count", "from", "to"}},
    {"hourglass", {"hierarchy", "shorten", "shorten_keys", "upsample", "shift", "from", "to"}}};

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

/// Derives one graph.
class Deriver {
public:
  Deriver(const json &spec, bool train) : spec(spec), train(train) {}

  Graph run();
  /// Whether what is trained is not what is evaluated; known after run().
  bool trainsOtherwise() const { return dropout; }

private:
  size_t stage(const std::string &op, const Fields &fields, const std::string &path, size_t input);
  size_t embedding(const Fields &fields, const std::string &path);
  void checkGiven(const std::string &op, const Fields &fields, size_t x) const;
  /// With keys and values of stream `over`, or of the layer's own.
  size_t layer(const Layer &settings, const std::string &path, size_t x,
               std::optional<size_t> over = {});
  size_t mix(const Layer &settings, const std::string &path, size_t x, std::optional<size_t> over);
  size_t shorten(const std::string &path, int64_t k, bool linear, size_t x);
  size_t upsample(const std::string &path, int64_t k, bool linear, size_t x, const Fields &fields);
  void loss(const Fields &fields, const std::string &path, size_t x);
  size_t hourglass(const Fields &fields, const std::string &path, size_t x);
  size_t stream(const std::string &name, const Fields &fields) const;

  /// Appends a value, on its first operand's scale unless it changes that.
  size_t make(Kind kind, const std::string &name, std::vector<size_t> operands,
              int64_t number = 0) {
    if (graph.values.size() >= mostValues) {
      throw BadInput("expected a model of fewer than " + std::to_string(mostValues) + " values");
    }
    int64_t factor = operands.empty() ? 1 : graph.values[operands[0]].factor;
    factor *= kind == Kind::Shorten || kind == Kind::Fold ? number : 1;
    factor /= kind == Kind::Upsample || kind == Kind::Unfold ? number : 1;
    std::string input = operands.empty() ? axis : graph.values[operands[0]].input;
    graph.values.push_back({name, kind, number, {}, std::move(operands), factor, 1, input});
    return graph.values.size() - 1;
  }
  /// Whether this graph drops out here; notes that some graph does.
  bool dropoutOf(const Fields &fields, const std::string &key) {
    bool drops = fields.dropsOut(key);
    dropout |= drops;
    return train && drops;
  }

  const json &spec;
  bool train, dropout = false;
  Graph graph;
  std::string axis; ///< of what is made from nothing
  std::map<std::string, size_t> streams, inputs;
  std::set<std::string> lossNames;
};

size_t Deriver::embedding(const Fields &fields, const std::string &path) {
  axis = fields.find("input") ? fields.text("input") : "";
  auto input = inputs.find(axis);
  if (!axis.empty() && input == inputs.end()) {
    fields.mismatch("the name of an input", "\"" + axis + "\"");
  }
  size_t tokens = axis.empty() ? 0 : input->second;
  std::vector<size_t> terms = {make(Kind::Embed, path + ".token", {tokens})};
  if (fields.choice("positions", {"none", "learned", "sinusoidal"}) != 0) {
    terms.push_back(make(Kind::Position, path + ".position", {}));
  }
  bool drops = dropoutOf(fields, "dropout");
  return terms.size() > 1 || drops ? make(Kind::Map, path + ".sum", terms) : terms[0];
}

size_t Deriver::mix(const Layer &settings, const std::string &path, size_t x,
                    std::optional<size_t> over) {
  size_t keys = 0;
  std::vector<size_t> terms;
  if (over && settings.preNorm && settings.attentionNorm) {
    over = make(Kind::Norm, path + ".over.norm", {*over});
  }
  if (settings.isXl) {
    size_t content = make(Kind::Linear, path + ".query", {x});
    terms.push_back(make(Kind::Linear, path + ".query_position", {x}));
    keys = make(Kind::Linear, path + ".kv", {over.value_or(x)});
    size_t distance = make(Kind::Position, path + ".distance", {});
    // A row by distance is a step that queries and keys are whole numbers of.
    graph.values[distance].factor = std::gcd(graph.values[x].factor, graph.values[keys].factor);
    graph.values[distance].input = graph.values[x].input;
    terms.push_back(make(Kind::Linear, path + ".relative", {distance}));
    x = content;
  } else if (over) {
    keys = *over;
    x = make(Kind::Linear, path + ".query", {x});
    keys = make(Kind::Linear, path + ".kv", {keys});
  } else {
    x = keys = make(Kind::Linear, path + ".qkv", {x});
  }
  std::vector<size_t> operands = {x, keys, keys};
  operands.insert(operands.end(), terms.begin(), terms.end());
  size_t result = make(Kind::Attention, path + ".mix", operands);
  Value &value = graph.values[result];
  value.mask = settings.mask;
  value.keyFactor = graph.values[keys].factor;
  if (graph.values[keys].input != value.input) { // what is given is read whole, by tokens alone
    if (value.isGiven()) {
      fail(path, "a layer of the tokens over another axis", "one of the input " + value.input);
    }
    value.mask = {Mask::Bidirectional, 0, 0};
  }
  if (value.mask.kind == Mask::Complete && value.keyFactor == value.factor) {
    value.mask.kind = Mask::Causal; // of one scale they are one
  }
  return result;
}

size_t Deriver::layer(const Layer &settings, const std::string &path, size_t x,
                      std::optional<size_t> over) {
  dropout |= settings.dropsOut;
  auto block = [&](const std::string &name, auto inner) {
    bool norms = settings.preNorm && (settings.attentionNorm || name != path + ".attention");
    size_t branch = inner(norms ? make(Kind::Norm, name + ".norm", {x}) : x);
    x = make(Kind::Map, name + ".sum", {x, branch});
    x = settings.preNorm ? x : make(Kind::Norm, name + ".norm", {x});
  };
  block(path + ".attention", [&](size_t v) {
    v = mix(settings, path + ".attention", v, over);
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
  if (graph.values[x].factor * k > largestNumber) { // both are below 2^31
    fail(path, "scales of at most 2^31 - 1 tokens a position", "more");
  }
  if (k > 1) {
    x = linear ? make(Kind::Fold, path + ".fold", {x}, k)
               : make(Kind::Shorten, path + ".shorten", {x}, k);
  }
  return linear ? make(Kind::Linear, path + ".linear", {x}) : x;
}

size_t Deriver::upsample(const std::string &path, int64_t k, bool linear, size_t x,
                         const Fields &fields) {
  if (graph.values[x].factor % k != 0) {
    fields.mismatch("a factor that divides the scale's", std::to_string(k));
  }
  if (linear) {
    x = make(Kind::Linear, path + ".linear", {x});
  }
  return k == 1   ? x
         : linear ? make(Kind::Unfold, path + ".unfold", {x}, k)
                  : make(Kind::Upsample, path + ".upsample", {x}, k);
}

size_t Deriver::hourglass(const Fields &fields, const std::string &path, size_t x) {
  using Name = const std::string &;
  StageMaker stages;
  stages.norm = [&](Name at, size_t v) { return make(Kind::Norm, at + ".norm", {v}); };
  stages.shift = [&](Name at, int64_t by, size_t v) {
    return make(Kind::Shift, at + ".shift", {v}, by);
  };
  stages.shorten = [&](Name at, int64_t k, bool linear, size_t v) {
    return shorten(at, k, linear, v);
  };
  stages.upsample = [&](Name at, int64_t k, bool linear, size_t v) {
    return upsample(at, k, linear, v, fields);
  };
  stages.add = [&](Name at, size_t v, size_t w) { return make(Kind::Map, at + ".add", {v, w}); };
  stages.layer = [&](const Layer &settings, Name at, size_t v, std::optional<size_t> over) {
    return layer(settings, at, v, over);
  };
  return Hourglass(fields, stages).expand(path, x);
}

/// Row t reads group (t - shift) div k.
void Deriver::loss(const Fields &fields, const std::string &path, size_t x) {
  std::string name = fields.text("name");
  for (char c : name) {
    if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '_') {
      fields.mismatch("a name of small letters, digits and underscores", "\"" + name + "\"");
    }
  }
  if (name.empty() || name == "next" || !lossNames.insert(name).second) {
    fields.mismatch("a name that no other loss has", "\"" + name + "\"");
  }
  dropoutOf(fields, "label_smoothing");
  int64_t k = graph.values[x].factor, by = fields.integer("shift", 0, k - 1);
  if (k > 1) {
    x = make(Kind::Upsample, path + ".upsample", {x}, k);
  }
  if (by > 0) {
    x = make(Kind::Shift, path + ".shift", {x}, by);
  }
  graph.losses.push_back({path + ".loss", x});
}

size_t Deriver::stream(const std::string &name, const Fields &fields) const {
  auto found = streams.find(name);
  if (found == streams.end()) {
    fields.mismatch("the name of an earlier stage's result", "\"" + name + "\"");
  }
  return found->second;
}

/// On an input's axis nothing groups or delays, and no head reads it.
void Deriver::checkGiven(const std::string &op, const Fields &fields, size_t x) const {
  static const std::set<std::string> ofTokens = {"shift",     "shorten", "upsample",
                                                 "hourglass", "head",    "loss"};
  if (graph.values[x].isGiven() && ofTokens.contains(op)) {
    fields.mismatch("a stream of the tokens for " + op, "one of " + graph.values[x].input);
  }
  bool isRelative = (op == "layer" || op == "layers") && fields.find("relative") &&
                    *fields.find("relative") != "none";
  if (graph.values[x].isGiven() && isRelative) {
    fields.mismatch("no \"relative\" on the axis of an input", fields.find("relative")->dump());
  }
}

size_t Deriver::stage(const std::string &op, const Fields &fields, const std::string &path,
                      size_t x) {
  bool linear = op == "upsample" ? fields.choice("method", {"repeat", "linear"}) == 1
                                 : fields.choice("method", shortenMethods) == 1;
  if (op == "embedding") {
    return embedding(fields, path);
  }
  if (op == "layer") {
    std::optional<size_t> over;
    Layer settings = readLayer(fields);
    if (fields.find("over")) {
      over = stream(fields.text("over"), fields);
      bool isRelative = fields.find("relative") && *fields.find("relative") != "none";
      if (isRelative && graph.values[*over].input != graph.values[x].input) {
        fields.mismatch("no \"relative\" over the axis of an input", "both");
      }
    }
    settings.attentionNorm = fields.boolean("attention_norm", true);
    if (!settings.attentionNorm && !settings.preNorm) {
      fields.mismatch("norms of a post-norm attention block", "\"attention_norm\": false");
    }
    return layer(settings, path, x, over);
  }
  for (int64_t i = 0; op == "layers" && i < fields.integer("count", 1); ++i) {
    x = layer(readLayer(fields), path + ".inside." + std::to_string(i), x);
  }
  if (op == "layers") {
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
    return shorten(path, fields.integer("factor", 1), linear, x);
  }
  if (op == "upsample") {
    return upsample(path, fields.integer("factor", 1), linear, x, fields);
  }
  if (op == "add") {
    size_t y = stream(fields.text("with"), fields);
    if (graph.values[x].input != graph.values[y].input) {
      fields.mismatch("two streams of one axis", "two axes");
    }
    if (graph.values[x].factor != graph.values[y].factor) {
      fields.mismatch("two streams of one scale", "two scales");
    }
    return make(Kind::Map, path + ".add", {x, y});
  }
  if (op == "dropout") {
    return dropoutOf(fields, "rate") ? make(Kind::Map, path + ".dropout", {x}) : x;
  }
  if (op == "loss") {
    loss(fields, path, x);
    return x;
  }
  dropoutOf(fields, "label_smoothing");
  graph.losses.push_back({path + ".head", x});
  if (graph.values[x].factor != 1) {
    fields.mismatch("a head that reads factor 1", std::to_string(graph.values[x].factor));
  }
  return x;
}

/// Which values `rows` are computed from.
std::vector<bool> findLive(const Graph &graph, const std::vector<size_t> &rows) {
  std::vector<bool> live(graph.values.size());
  for (size_t row : rows) {
    live[row] = true;
  }
  for (size_t i = graph.values.size(); i-- > 0;) {
    for (size_t operand : graph.values[i].operands) {
      live[operand] = live[operand] || live[i];
    }
  }
  return live;
}

/// Keeps what the losses are computed from, in order.
void keepLive(Graph &graph) {
  std::vector<size_t> rows;
  for (const Loss &loss : graph.losses) {
    rows.push_back(loss.row);
  }
  std::vector<bool> live = findLive(graph, rows), sampled = findLive(graph, {graph.head().row});
  std::vector<size_t> numbers(graph.values.size());
  std::vector<Value> kept;
  for (size_t i = 0; i < graph.values.size(); ++i) {
    if (live[i]) {
      numbers[i] = kept.size();
      kept.push_back(std::move(graph.values[i]));
      kept.back().isSampled = sampled[i];
      for (size_t &operand : kept.back().operands) {
        operand = numbers[operand];
      }
    }
  }
  for (Loss &loss : graph.losses) {
    loss.row = numbers[loss.row];
  }
  graph.values = std::move(kept);
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
    if (known == ownKeys.end() || embeds != (i == 0) ||
        (op == "head") != (i + 1 == stages.size())) {
      fail(path, "the kind of a stage, an embedding first and a head last", "\"" + op + "\"");
    }
    bool layered = op == "layer" || op == "layers" || op == "hourglass";
    std::set<std::string> keys = known->second;
    keys.insert("op");
    keys.insert(layerKeys.begin(), layered ? layerKeys.end() : layerKeys.begin());
    checkKeys(stage, keys, path);
    Fields fields(stage, layered ? defaults : nullptr, path);
    size_t input = stage.contains("from") ? stream(fields.text("from"), fields) : previous;
    if (op != "embedding") {
      checkGiven(op, fields, input);
    }
    size_t made = this->stage(op, fields, path, input);
    previous = op == "loss" ? previous : made;
    if (stage.contains("to") && !streams.try_emplace(fields.text("to"), previous).second) {
      fail(path, "a name that no earlier result has", "\"" + fields.text("to") + "\"");
    }
  }
  keepLive(graph);
  return std::move(graph);
}

/// JSON in which no object has a key twice: which of the two holds would be anyone's guess. Nor
/// does it nest deeper than a spec may (docs/spec.md), as copies of a value recurse.
json parseSpec(const std::string &text) {
  constexpr int deepest = 64;
  std::vector<std::set<std::string>> open;
  auto watch = [&](int depth, json::parse_event_t event, json &parsed) {
    if (depth > deepest) {
      throw BadInput("expected at most 64 levels of nesting, found more");
    }
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
  checkKeys(spec,
            {"sluice", "name", "vocabulary", "context", "batch", "width", "seed", "inputs",
             "defaults", "stages", "precision", "training"},
            "the spec");
  for (const json &stage : spec["stages"]) {
    if (!stage.is_object()) {
      fail("stages", "objects", stage.dump());
    }
  }
  Deriver evaluate(spec, false);
  Model model = {namesOfInputs(spec), evaluate.run(), std::nullopt};
  if (evaluate.trainsOtherwise()) {
    model.train = Deriver(spec, true).run();
  }
  return model;
}
