// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From a spec to the graph of its values: a second reading of docs/spec.md. Read is what decides
// the graph: stages, their order and names, factors, shifts, masks, placement, activation, dropout.
#include "HeadGroups.h"
#include "Hourglass.h"

#include <map>
#include <numeric>
#include <set>

using namespace certify;

namespace {

constexpr size_t mostValues = size_t{1} << 20;

const std::set<std::string> layerKeys = {"heads",        "key_value_heads", "head_size",
                                         "norm",         "placement",       "epsilon",
                                         "activation",   "dropout",         "attention_dropout",
                                         "mask",         "rotary",          "bias",
                                         "feed_forward", "relative",        "scales"};

const std::map<std::string, std::set<std::string>> ownKeys = {
    {"embedding", {"input", "positions", "dropout", "to"}},
    {"layer", {"over", "attention_norm", "first", "from", "to"}},
    {"norm", {"norm", "epsilon", "from", "to"}},
    {"shift", {"by", "from", "to"}},
    {"shorten", {"factor", "method", "window", "from", "to"}},
    {"upsample", {"factor", "method", "window", "from", "to"}},
    {"add", {"with", "from", "to"}},
    {"dropout", {"rate", "from", "to"}},
    {"head", {"tied", "bias", "label_smoothing", "shift", "first", "from"}},
    {"loss", {"name", "factor", "shift", "first", "tied", "bias", "label_smoothing", "from"}},
    {"layers", {"count", "first", "from", "to"}},
    {"hourglass", {"hierarchy", "shorten", "shorten_keys", "upsample", "shift", "from", "to"}},
    {"project", {"with", "activation", "bias", "from", "to"}},
    {"top_down",
     {"hierarchy", "shorten", "upsample", "projection_activation", "bags", "from", "to"}},
    {"bottom_up", {"hierarchy", "shorten", "pooling", "from", "to"}}};

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
  /// With keys and values of the streams `over`: none, the layer's own; several, one a group of
  /// heads.
  size_t layer(const Layer &settings, const std::string &path, size_t x,
               const std::vector<size_t> &over = {});
  size_t mix(const Layer &settings, const std::string &path, size_t x,
             const std::vector<size_t> &over);
  size_t attend(const std::string &name, std::vector<size_t> operands, const Mask &mask);
  size_t bottomUp(const Fields &fields, const std::string &path, size_t x);
  size_t singleLayer(const Fields &fields, const std::string &path, size_t x);
  size_t shorten(const std::string &path, int64_t k, int64_t window, bool linear, size_t x);
  size_t upsample(const std::string &path, int64_t k, bool linear, size_t x, const Fields &fields);
  void score(const Fields &fields, const std::string &path, const std::string &what, size_t x);
  void nameLoss(const std::string &name, const Fields &fields);
  size_t project(const std::string &path, size_t x, std::optional<size_t> with, bool activated);
  size_t topDown(const Fields &fields, const std::string &path, size_t x);
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
    graph.values.push_back({name, kind, number, 0, {}, std::move(operands), factor, 1, input});
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
                    const std::vector<size_t> &over) {
  if (!settings.groups.empty()) {
    return mixGroups(
        settings, path, x, over,
        [this](Kind kind, const std::string &name, std::vector<size_t> operands, int64_t number) {
          return make(kind, name, std::move(operands), number);
        },
        [this](const std::string &name, size_t query, size_t keys, const Mask &mask) {
          return attend(name, {query, keys, keys}, mask);
        });
  }
  size_t keys = 0;
  std::vector<size_t> terms;
  std::optional<size_t> other = over.empty() ? std::nullopt : std::optional(over[0]);
  if (other && settings.preNorm && settings.attentionNorm) {
    other = make(Kind::Norm, path + ".over.norm", {*other});
  }
  if (settings.isXl) {
    size_t content = make(Kind::Linear, path + ".query", {x});
    terms.push_back(make(Kind::Linear, path + ".query_position", {x}));
    keys = make(Kind::Linear, path + ".kv", {other.value_or(x)});
    size_t distance = make(Kind::Position, path + ".distance", {});
    // A row by distance is a step that queries and keys are whole numbers of.
    graph.values[distance].factor = std::gcd(graph.values[x].factor, graph.values[keys].factor);
    graph.values[distance].input = graph.values[x].input;
    terms.push_back(make(Kind::Linear, path + ".relative", {distance}));
    x = content;
  } else if (other) {
    keys = *other;
    x = make(Kind::Linear, path + ".query", {x});
    keys = make(Kind::Linear, path + ".kv", {keys});
  } else {
    x = keys = make(Kind::Linear, path + ".qkv", {x});
  }
  std::vector<size_t> operands = {x, keys, keys};
  operands.insert(operands.end(), terms.begin(), terms.end());
  x = attend(path + ".mix", std::move(operands), settings.mask);
  return make(Kind::Linear, path + ".output", {x});
}

size_t Deriver::attend(const std::string &name, std::vector<size_t> operands, const Mask &mask) {
  size_t keys = operands[1], result = make(Kind::Attention, name, std::move(operands));
  Value &value = graph.values[result];
  value.mask = mask;
  value.keyFactor = graph.values[keys].factor;
  if (graph.values[keys].input != value.input) { // what is given is read whole, by tokens alone
    if (value.isGiven()) {
      fail(name, "a layer of the tokens over another axis", "one of the input " + value.input);
    }
    value.mask = {Mask::Bidirectional, 0, 0, value.mask.from};
  }
  settleMask(value);
  return result;
}

size_t Deriver::layer(const Layer &settings, const std::string &path, size_t x,
                      const std::vector<size_t> &over) {
  dropout |= settings.dropsOut;
  auto block = [&](const std::string &name, auto inner) {
    bool norms = settings.preNorm && (settings.attentionNorm || name != path + ".attention");
    size_t branch = inner(norms ? make(Kind::Norm, name + ".norm", {x}) : x);
    x = make(Kind::Map, name + ".sum", {x, branch});
    x = settings.preNorm ? x : make(Kind::Norm, name + ".norm", {x});
  };
  block(path + ".attention", [&](size_t v) { return mix(settings, path + ".attention", v, over); });
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

size_t Deriver::upsample(const std::string &path, int64_t k, bool linear, size_t x,
                         const Fields &fields) {
  if (graph.values[x].factor % k != 0) {
    fields.mismatch("a factor that divides the scale's", std::to_string(k));
  }
  int64_t window = fields.integer("window", 1, k);
  if (window % k != 0 || (!linear && window != k)) {
    fields.mismatch("a window of whole groups, for a linear upsample", std::to_string(window));
  }
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

size_t Deriver::hourglass(const Fields &fields, const std::string &path, size_t x) {
  using Name = const std::string &;
  StageMaker stages;
  stages.norm = [&](Name at, size_t v) { return make(Kind::Norm, at + ".norm", {v}); };
  stages.shift = [&](Name at, int64_t by, size_t v) {
    return make(Kind::Shift, at + ".shift", {v}, by);
  };
  stages.shorten = [&](Name at, int64_t k, bool linear, size_t v) {
    return shorten(at, k, k, linear, v);
  };
  stages.upsample = [&](Name at, int64_t k, bool linear, size_t v) {
    return upsample(at, k, linear, v, fields);
  };
  stages.add = [&](Name at, size_t v, size_t w) { return make(Kind::Map, at + ".add", {v, w}); };
  stages.layer = [&](const Layer &settings, Name at, size_t v, std::optional<size_t> over) {
    return layer(settings, at, v, over ? std::vector{*over} : std::vector<size_t>());
  };
  return Hourglass(fields, stages).expand(path, x);
}

size_t Deriver::project(const std::string &path, size_t x, std::optional<size_t> with,
                        bool activated) {
  auto stored = [&](const std::string &name, size_t value) {
    return graph.values[value].isLazy() ? make(Kind::Map, path + name, {value}) : value;
  };
  std::vector<size_t> terms = {make(Kind::Linear, path + ".linear", {stored(".rows", x)})};
  if (with) {
    terms.push_back(make(Kind::Linear, path + ".with", {stored(".with.rows", *with)}));
  }
  return with || activated ? make(Kind::Map, path + ".project", terms) : terms[0];
}

/// Scales from the coarsest down: groups of the stage's own input, beside them what the scale above
/// made of the last group that ended.
size_t Deriver::topDown(const Fields &fields, const std::string &path, size_t input) {
  std::vector<Level> levels = readFalling(fields);
  Layer settings = readLayer(fields);
  bool folds = fields.choice("shorten", shortenMethods) == 1;
  bool unfolds = fields.choice("upsample", {"repeat", "linear"}) == 1;
  bool activated = isActivated(fields, "projection_activation");
  int64_t count = 0, before = 0;
  auto next = [&] { return path + ".inside." + std::to_string(count++); };
  size_t above = input;
  for (const Level &level : levels) {
    bool joins = before > 0;
    int64_t ratio = joins ? before / level.factor : 1;
    if (joins) {
      above = upsample(next(), ratio, unfolds, above, fields);
      above = make(Kind::Shift, next() + ".shift", {above}, ratio - 1);
    }
    size_t x = level.factor > 1 ? shorten(next(), level.factor, level.factor, folds, input) : input;
    x = joins ? project(next(), x, above, activated) : x;
    settings.mask.from = levels[0].factor / level.factor - 1;
    for (int64_t i = 0; i < level.layers; ++i) {
      x = layer(settings, next(), x);
    }
    if (level.layers > 0 && settings.preNorm) {
      x = make(Kind::Norm, next() + ".norm", {x});
    }
    if (level.factor > 1 && fields.find("bags")) {
      nameLoss("bag_" + std::to_string(level.factor), fields);
      score(Fields(json::object(), nullptr, path), next(), "loss", x);
    }
    above = x;
    before = level.factor;
  }
  return above;
}

size_t Deriver::bottomUp(const Fields &fields, const std::string &path, size_t x) {
  bool folds = fields.choice("shorten", shortenMethods) == 1;
  return certify::bottomUp(
      fields, path, x,
      [&](const std::string &name, int64_t k, size_t y) { return shorten(name, k, k, folds, y); },
      [this](auto &&...parts) { return layer(parts...); },
      [this](const std::string &name, size_t y) { return make(Kind::Norm, name + ".norm", {y}); });
}

void Deriver::nameLoss(const std::string &name, const Fields &fields) {
  for (char c : name) {
    if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '_') {
      fields.mismatch("a name of small letters, digits and underscores", "\"" + name + "\"");
    }
  }
  if (name.empty() || name == "next" || !lossNames.insert(name).second) {
    fields.mismatch("a name that no other loss has", "\"" + name + "\"");
  }
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
  if (found == streams.end()) {
    fields.mismatch("the name of an earlier stage's result", "\"" + name + "\"");
  }
  return found->second;
}

/// On an input's axis nothing groups or delays, and no head reads it.
void Deriver::checkGiven(const std::string &op, const Fields &fields, size_t x) const {
  static const std::set<std::string> ofTokens = {"shift",    "shorten",   "upsample", "hourglass",
                                                 "top_down", "bottom_up", "head",     "loss"};
  if (graph.values[x].isGiven() && ofTokens.contains(op)) {
    fields.mismatch("a stream of the tokens for " + op, "one of " + graph.values[x].input);
  }
  bool isRelative = (op == "layer" || op == "layers") && fields.find("relative") &&
                    *fields.find("relative") != "none";
  if (graph.values[x].isGiven() && isRelative) {
    fields.mismatch("no \"relative\" on the axis of an input", fields.find("relative")->dump());
  }
}

/// The first key; groups of heads have none.
int64_t readFirst(const Fields &fields, const Layer &settings) {
  int64_t first = fields.integer("first", 0, 0);
  if (first > 0 && !settings.groups.empty()) {
    fields.mismatch("no \"first\" beside groups of heads", "both");
  }
  return first;
}

/// A layer with keys and values of its own, or of other streams.
size_t Deriver::singleLayer(const Fields &fields, const std::string &path, size_t x) {
  Layer settings = readLayer(fields);
  settings.mask.from = readFirst(fields, settings);
  settings.attentionNorm = fields.boolean("attention_norm", true);
  const json *over = fields.find("over");
  bool isGrouped = !settings.groups.empty() || (over && over->is_array());
  if (!settings.attentionNorm && (!settings.preNorm || isGrouped)) {
    fields.mismatch("norms of a post-norm block, and of groups of heads",
                    "\"attention_norm\": false");
  }
  if (!over) {
    return layer(settings, path, x);
  }
  bool isRelative = fields.find("relative") && *fields.find("relative") != "none";
  if (!settings.groups.empty() || (isRelative && isGrouped)) {
    fields.mismatch("neither \"scales\" nor \"relative\" beside several streams", "both");
  }
  if (!isGrouped) {
    size_t other = stream(fields.text("over"), fields);
    bool isApart = graph.values[other].factor != graph.values[x].factor;
    if (isRelative && (graph.values[other].input != graph.values[x].input ||
                       (isApart && settings.mask.kind == Mask::Tokens))) {
      fields.mismatch("no \"relative\" over an input's axis or by a window in tokens", "both");
    }
    return layer(settings, path, x, {other});
  }
  settings.groups = readSources(fields, settings.mask);
  readFirst(fields, settings);
  std::vector<size_t> sources;
  for (const HeadGroup &group : settings.groups) {
    sources.push_back(stream(group.stream, fields));
  }
  return layer(settings, path, x, sources);
}

size_t Deriver::stage(const std::string &op, const Fields &fields, const std::string &path,
                      size_t x) {
  bool linear = op == "upsample" ? fields.choice("method", {"repeat", "linear"}) == 1
                                 : fields.choice("method", shortenMethods) == 1;
  if (op == "embedding") {
    return embedding(fields, path);
  }
  if (op == "layer") {
    return singleLayer(fields, path, x);
  }
  for (int64_t i = 0; op == "layers" && i < fields.integer("count", 1); ++i) {
    Layer settings = readLayer(fields);
    settings.mask.from = readFirst(fields, settings);
    x = layer(settings, path + ".inside." + std::to_string(i), x);
  }
  if (op == "layers") {
    return x;
  }
  if (op == "hourglass") {
    return hourglass(fields, path, x);
  }
  if (op == "top_down") {
    return topDown(fields, path, x);
  }
  if (op == "bottom_up") {
    return bottomUp(fields, path, x);
  }
  if (op == "norm") {
    return make(Kind::Norm, path + ".norm", {x});
  }
  if (op == "shift") {
    return make(Kind::Shift, path + ".shift", {x}, fields.integer("by", 0));
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
  if (op == "add" || op == "project") {
    size_t y = stream(fields.text("with"), fields);
    if (graph.values[x].input != graph.values[y].input) {
      fields.mismatch("two streams of one axis", "two axes");
    }
    if (graph.values[x].factor != graph.values[y].factor) {
      fields.mismatch("two streams of one scale", "two scales");
    }
    return op == "add" ? make(Kind::Map, path + ".add", {x, y})
                       : project(path, x, y, isActivated(fields, "activation"));
  }
  if (op == "dropout") {
    return dropoutOf(fields, "rate") ? make(Kind::Map, path + ".dropout", {x}) : x;
  }
  if (op == "loss") {
    nameLoss(fields.text("name"), fields);
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
    if (known == ownKeys.end() || embeds != (i == 0) ||
        (op == "head") != (i + 1 == stages.size())) {
      fail(path, "the kind of a stage, an embedding first and a head last", "\"" + op + "\"");
    }
    bool layered = op == "layer" || op == "layers" || op == "hourglass" || op == "top_down" ||
                   op == "bottom_up";
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
