// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads a spec into the graph of its values, independently of the compiler, following docs/spec.md.
// The table of stages has a row for each, with its keys and its expansion; Composites.cpp has the
// rows of stages that are lists of others.
#include "Deriver.h"

using namespace certify;

const std::map<std::string, Deriver::DerivedStage> &Deriver::table() {
  using D = Deriver;
  static const std::map<std::string, DerivedStage> stages = [] {
    // clang-format off
    std::map<std::string, DerivedStage> rows = {
      {"embedding", {"input positions dropout ngrams ngram_rows document_end scale deviation to", &D::embedding}},
      {"layer", {"over attention_norm within first from to", &D::singleLayer, Layered}},
      {"layers", {"count first from to", &D::layers, Layered}},
      {"feed_forward", {"norm placement epsilon activation dropout feed_forward_dropout bias feed_forward "
                        "feed_forward_in_bias feed_forward_out_bias from to", &D::singleLayer, Block}},
      {"attention", {"query key value attention_norm first heads key_value_heads head_size norm placement epsilon "
                     "dropout attention_dropout mask bias attention_in_bias attention_out_bias from to", &D::attention, Block}},
      {"rectified_attention", {"words heads head_size norm epsilon dropout attention_dropout bias vectors shared_maps expand "
                               "from to", &D::rectified, Block}},
      {"norm", {"norm epsilon from to", &D::rowStage}},
      {"dropout", {"rate from to", &D::rowStage}},
      {"add", {"with from to", &D::rowStage}},
      {"replace", {"with block start from to", &D::replace}},
      {"clear", {"segments block start from to", &D::rowStage}},
      {"fit", {"width at from to", &D::rowStage}},
      {"positions", {"columns from to", &D::positions}},
      {"project", {"with activation bias width initial from to", &D::projectStage}},
      {"recurrence", {"cell width direction start segments reset every at from to", &D::projectStage}},
      {"graph_convolution", {"edges segments method activation from to", &D::graphConvolution}},
      {"shift", {"by start from to", &D::rowStage}},
      {"shorten", {"factor method window segments width start from to", &D::resampleStage}},
      {"upsample", {"factor method window segments by width from to", &D::resampleStage}},
      {"hourglass", {"hierarchy shorten shorten_window shorten_keys upsample upsample_norm shift shifted start from to",
                     &D::hourglass, Layered | OfTokens}},
      {"top_down", {"hierarchy shorten shorten_window upsample projection_activation bags start from to",
                    &D::topDown, Layered | OfTokens}},
      {"bottom_up", {"hierarchy shorten shorten_window pooling from to", &D::bottomUp, Layered | OfTokens}},
      {"boundaries", {"name rule bits factor predictor prior prior_logit temperature weight capacity at loss "
                      "threshold rise spike top epsilon window document_end ratio mode longest from", &D::boundaries, Aside}},
      {"attend", {"over segments heads head_size parts by norm epsilon bias from to", &D::attendCut}},
      {"loss", {"name factor shift first tied bias label_smoothing target weights from", &D::score, Aside | OfTokens}},
      {"contrast", {"name factor candidates shift first extra_batches from", &D::score, Aside | OfTokens}},
      {"head", {"tied bias label_smoothing target weights shift first from", &D::score, OfTokens}},
    };
    // clang-format on
    addComposites(rows);
    return rows;
  }();
  return stages;
}

size_t Deriver::embedding(const Fields &fields, const std::string &path, size_t) {
  axis = fields.find("input") ? fields.text("input") : "";
  auto input = inputs.find(axis);
  if (input == inputs.end() && spec.contains("inputs") && spec["inputs"].contains(axis)) {
    throw Refusal(path + " reads numbers, whose rows may be made from tokens that follow");
  }
  fields.need(axis.empty() || input != inputs.end(), "the name of an input");
  size_t tokens = axis.empty() ? 0 : input->second;
  axis = graph.values[tokens].input;
  std::vector<size_t> terms = {make("embed", path + ".token", {tokens})}, last = {tokens};
  for (const json &n : fields.get("ngrams", json::array())) {
    fields.need(n.is_number_integer() && n >= 2, "integers from 2 for \"ngrams\"");
    for (int64_t by = last.size(); by < std::min(n.get<int64_t>(), int64_t{16}); ++by) {
      last.push_back(earlier(path + ".before." + std::to_string(by), tokens, by));
    }
    size_t hash = make("map", path + ".ngram." + n.dump() + ".hash", last);
    terms.push_back(make("embed", path + ".ngram." + n.dump(), {hash}));
  }
  if (fields.choice("positions", {"none", "learned", "sinusoidal"}) != 0) {
    terms.push_back(make("position", path + ".position", {}));
  }
  bool changes = (fields.dropsOut("dropout") && train) || fields.isSet("scale", 1);
  return terms.size() > 1 || changes ? make("map", path + ".sum", terms) : terms[0];
}

size_t Deriver::layers(const Fields &fields, const std::string &path, size_t x) {
  StageNames next{path};
  return stack(readLayer(fields), fields.integer("count", 1), next, x, false);
}

size_t Deriver::rowStage(const Fields &fields, const std::string &path, size_t x) {
  std::string op = fields.text("op");
  return op == "norm"              ? norm(path, x)
         : op == "add"             ? add(path, x, partner(fields, x))
         : op == "shift"           ? shift(path, fields.integer("by", 0), learnsStart(fields), x)
         : op == "fit"             ? make("map", path + ".fit", {stored(path + ".rows", x)})
         : fields.find("segments") ? gated(path, x, findCut(fields).bits)
         : op == "clear"           ? make("map", path + ".clear", {x})
         : fields.dropsOut("rate") && train ? make("map", path + ".dropout", {x})
                                            : x;
}

size_t Deriver::positions(const Fields &fields, const std::string &path, size_t x) {
  size_t rows = convertToScale(x, make("position", path + ".position", {}));
  rows = fields.find("columns") ? make("map", path + ".fit", {rows}) : rows; // the last columns
  return make("map", path + ".sum", {x, rows});
}

size_t Deriver::stream(const std::string &name, const Fields &fields) const {
  auto found = streams.find(name);
  fields.need(found != streams.end(),
              "the name of an earlier stage's result, not \"" + name + "\"");
  return found->second;
}

size_t Deriver::partner(const Fields &fields, size_t x, const char *key) const {
  size_t y = stream(fields.text(key), fields);
  const Draft &one = graph.values[x], &other = graph.values[y];
  fields.need(one.isOnScale(other) && one.input == other.input, "two streams of one scale");
  return y;
}

/// Derives rows start, start + block and so on of one stream, and the other rows of x.
size_t Deriver::replace(const Fields &fields, const std::string &path, size_t x) {
  Mask block = readBlock(fields);
  std::string rows = std::to_string(block.end) + "*i + " + std::to_string(block.begin);
  x = make("replace", path + ".replace", {partner(fields, x), x}, "at p on " + rows);
  graph.values[x].others = "at p off " + rows;
  return x;
}

size_t Deriver::projectStage(const Fields &fields, const std::string &path, size_t x) {
  bool isActive = isActivated(fields, "activation");
  std::optional<size_t> with = fields.find("with") ? partner(fields, x) : std::optional<size_t>();
  x = project(path, x, with, isActive);
  std::vector<size_t> operands = {x};
  bool isReversed = fields.choice("direction", {"forward", "backward"}) == 1;
  if (fields.find("segments")) {
    const SegmentCut &cut = findCut(fields);
    bool isOwn = (fields.choice("reset", {"first", "last"}) == 1) != isReversed || cut.begins;
    operands.push_back(isOwn ? cut.bits
                             : stored(path + ".reset", earlier(path + ".before", cut.bits)));
  }
  if (fields.text("op") == "recurrence" && learnsStart(fields)) {
    size_t begins = operands.back();
    for (const char *part : {".start.rows", ".start.begins", ".start.column"}) {
      begins = make("map", path + part, {begins});
    }
    size_t product =
        make("linear", path + ".start.product", {make("linear", path + ".start.hidden", {begins})});
    operands[0] = make("map", path + ".start.sums", {x, product});
    operands.insert(operands.begin() + 1, make("linear", path + ".start.cell", {begins}));
  }
  return fields.text("op") == "project" ? x
         : isReversed ? make("reversed_recurrence", path + ".recurrence", operands, "keys p all")
                      : make("recurrence", path + ".recurrence", operands);
}

/// Derives sums of any rows of an input, which the proof rejects for tokens, or over segments.
size_t Deriver::graphConvolution(const Fields &fields, const std::string &path, size_t x) {
  size_t method = fields.choice("method", {"normalized", "mean", "attention"});
  const SegmentCut *cut = fields.find("segments") ? &findCut(fields) : nullptr;
  x = stored(path + ".rows", x);
  std::vector<size_t> operands;
  if (method == 2) {
    x = make("linear", path + ".linear", {x});
    for (std::string part : {path + ".source", path + ".target"}) {
      operands.push_back(make("map", part + ".number", {make("linear", part, {x})}));
    }
    operands.push_back(x);
    x = attendRange(path + ".graph", operands, cut);
  } else if (cut) {
    size_t sums = ownRows(path + ".spread", pooled(path + ".pool", x, *cut), *cut);
    size_t sizes = pooled(path + ".sizes", ones(path, *cut), *cut);
    sizes = ownRows(path + ".sizes.spread", sizes, *cut);
    x = method == 1 ? sums : gated(path, make("map", path + ".sum", {x, sums}), sizes);
  } else {
    size_t weights = convertToScale(x, make("position", path + ".degrees", {}));
    operands = {x, make("map", path + ".weights", {weights})};
    operands.resize(method == 1 ? 2 : 3, operands.back());
    x = make("graph_sum", path + ".graph", operands, "keys all");
  }
  return isActivated(fields, "activation") ? make("map", path + ".activation", {x}) : x;
}

size_t Deriver::resampleStage(const Fields &fields, const std::string &path, size_t x) {
  std::string op = fields.text("op");
  if (fields.find("segments")) {
    return throughCut(op, fields, path, x);
  }
  if (fields.get("method", "") == (op == "shorten" ? "concatenate" : "split")) {
    return inParts(op, fields, path, x);
  }
  int64_t k = fields.integer("factor", 1);
  if (op == "upsample") {
    bool linear = fields.choice("method", {"repeat", "linear", "transposed"}) > 0;
    return upsample(path, k, linear, x, fields);
  }
  bool stacks = fields.get("method", "") == "stack"; // rows side by side, without a map
  bool linear = stacks || isLinear(fields.choice("method", shortenMethods));
  bool fills = fields.choice("start", {"zeros", "norm"}) == 1;
  return shorten(path, k, fields.integer("window", 1, k), linear, x, fills, !stacks);
}

/// Derives groups. If `fills`, a norm of zeros is before the first row of group 0.
size_t Deriver::shorten(const std::string &path, int64_t k, int64_t window, bool linear, size_t x,
                        bool fills, bool maps) {
  std::string op = linear ? "fold" : "shorten";
  size_t rows = x;
  x = k > 1 || window > 1 ? group(op, path + "." + op, x, k, window) : x;
  if (fills && k > 1) {
    size_t row = group("shorten", path + ".row", rows, k, 1);
    size_t start = make("norm", path + ".start", {make("map", path + ".zeros", {row})});
    start = linear ? group("fold", path + ".start.fold", repeat("upsample", path, start, k), k, k)
                   : start;
    x = make("map", path + ".filled", {x, start});
  }
  return linear && maps ? make("linear", path + ".linear", {x}) : x;
}

/// Derives concatenated maps of the rows of a group before their shifts; or of a row's parts.
size_t Deriver::inParts(const std::string &op, const Fields &fields, const std::string &path,
                        size_t x) {
  int64_t k = fields.integer("factor", 1), factor = graph.values[x].factor, by = 0;
  fields.need(op == "shorten" || factor % k == 0, "a factor of the scale");
  if (op == "upsample" && k > 1) {
    x = repeat("unfold", path, stored(path + ".groups", x), k);
  }
  for (; op == "shorten" && graph.values[x].op == &findOp("shift");
       x = graph.values[x].operands[0]) {
    by += graph.values[x].by;
  }
  x = make("linear", path + ".linear", {stored(path + ".rows", x)});
  x = by > 0 ? shift(path, by, false, x) : x;
  return op == "shorten" && k > 1 ? group("fold", path + ".fold", x, k, k) : x;
}

size_t Deriver::upsample(const std::string &path, int64_t k, bool linear, size_t x,
                         const Fields &fields) {
  int64_t window = fields.integer("window", 1, k);
  fields.need(k > 0 && graph.values[x].factor % k == 0, "a factor that divides the scale's");
  fields.need(window % k == 0 && (linear || window == k),
              "a window of whole groups, for a linear upsample");
  if (window > k) { // a transposed convolution: a linear map of several groups
    x = group("fold", path + ".window", x, 1, window / k);
  }
  x = linear ? make("linear", path + ".linear", {x}) : x;
  return k == 1 ? x : repeat(linear ? "unfold" : "upsample", path, x, k);
}

size_t Deriver::stored(const std::string &name, size_t value) {
  return graph.values[value].op->isLazy() ? make("map", name, {value}) : value;
}

size_t Deriver::project(const std::string &path, size_t x, std::optional<size_t> with,
                        bool activated) {
  std::vector<size_t> terms = {make("linear", path + ".linear", {stored(path + ".rows", x)})};
  if (with) {
    terms.push_back(make("linear", path + ".with", {stored(path + ".with.rows", *with)}));
  }
  return with || activated ? make("map", path + ".project", terms) : terms[0];
}

/// Row t reads group (t - shift) div k, or the last closed segment. Rows that are not scored must
/// satisfy the theorem too, and so must rows that choose among candidates, which are targets.
size_t Deriver::score(const Fields &fields, const std::string &path, size_t x) {
  std::string op = fields.text("op");
  bool chooses = op == "contrast"; // no boundaries by its entropy: candidates are in its softmax
  std::optional<size_t> asked = chooses ? std::nullopt : std::optional(x);
  fields.need(op == "head" || lossRows.emplace(fields.get("name", "next"), asked).second,
              "a name that no other loss has");
  int64_t k = graph.values[x].factor, by = fields.integer("shift", 0, k - 1);
  size_t row = chooses ? stored(path + ".rows", x) : x;
  if (chooses && graph.values[x].segments) {
    const SegmentCut &cut = cutsAt[*graph.values[x].segments];
    fields.need(!cut.begins, "segments whose bits end them"); // the next ones begin with that token
    row = spread(path + ".spread", fields, row, cut);
  }
  row = k > 1 ? repeat("upsample", path, row, k) : row;
  row = by > 0 ? shift(path, by, false, row) : row;
  fields.need(graph.values[row].isOnScale(graph.values[0]), "a stream with a row for each token");
  graph.losses.push_back({path + "." + op, row});
  return x;
}

json certify::parseSpec(const std::string &text) {
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
      throw BadInput("expected each key once, found " + parsed.dump() + " twice");
    }
    return true;
  };
  try {
    return json::parse(text, watch);
  } catch (const json::parse_error &error) {
    std::string before = text.substr(0, std::max<size_t>(error.byte, 1) - 1); // of the wrong byte
    auto line = 1 + std::ranges::count(before, '\n');
    size_t column = before.size() - before.rfind('\n'); // npos is -1
    throw BadInput("expected a model spec, JSON, found text that is not JSON at line " +
                   std::to_string(line) + ", column " + std::to_string(column) +
                   "; name the spec first, then its certificate");
  } catch (const json::exception &) { // of the parser, only the range of numbers remains
    throw BadInput("expected a model spec, JSON, found a number that double has no room for; "
                   "correct the spec");
  }
}

static const std::string layerKeys =
    "heads key_value_heads head_size norm placement epsilon activation dropout attention_dropout "
    "mask rotary bias feed_forward feed_forward_dropout relative distances scales lsh "
    "attention_in_bias attention_out_bias feed_forward_in_bias feed_forward_out_bias";

ModelGraph Deriver::run() {
  size_t previous = make("tokens", "tokens", {});
  const json given = spec.contains("inputs") ? spec["inputs"] : json::object();
  for (bool isShared : {false, true}) { // axes by name, then further tokens on them
    for (const auto &[name, input] : given.items()) {
      Fields own(input, nullptr, "inputs." + name);
      own.needKeys("context vocabulary axis type role width end on derived rule capacity pattern");
      bool isTokens = own.choice("axis", {"own", "tokens"}) == 0 && own.get("type", "") != "edges";
      if (isTokens && input.contains("on") == isShared) {
        axis = isShared ? own.text("on") : name;
        own.need(!isShared || inputs.contains(axis), "the name of an input with an axis");
        inputs[name] = make("tokens", name, {});
      }
    }
  }
  axis.clear();
  Fields(defaults, nullptr, "defaults").needKeys(layerKeys);
  const json &stages = spec["stages"];
  for (size_t i = 0; i < stages.size(); ++i) {
    std::string path = "stages." + std::to_string(i);
    Fields own(stages[i], nullptr, path);
    std::string op = own.text("op");
    bool embeds = op == "embedding" && !stages[i].contains("input");
    bool isLast = i + 1 == stages.size();
    own.need((i > 0 || embeds) && (op == "head" || (isLast && op == "contrast")) == isLast,
             "an embedding first and a head last");
    previous = stage(stages[i], path, previous);
  }
  return finish();
}

size_t Deriver::stage(const json &stage, const std::string &path, size_t previous) {
  Fields own(stage, nullptr, path);
  std::string op = own.text("op");
  auto known = table().find(op);
  own.need(known != table().end(), "the kind of a stage");
  const DerivedStage &row = known->second;
  bool isLayered = row.traits & Layered;
  own.needKeys("op frozen share " + row.keys + (isLayered ? " " + layerKeys : ""));
  json inherited = json::object(); // a block has the defaults of its own keys alone
  for (const auto &[key, value] : defaults.items()) {
    if (isLayered || ((row.traits & Block) && Fields::hasWord(row.keys, key))) {
      inherited[key] = value;
    }
  }
  Fields fields(stage, &inherited, path);
  size_t input = stage.contains("from") ? stream(own.text("from"), own) : previous;
  bool isRelative = isLayered && readLayer(fields).isXl;
  own.need(op == "embedding" || !graph.values[input].isGiven ||
               !((row.traits & OfTokens) || isRelative),
           "a stream of the tokens for " + op + (isRelative ? " with \"relative\"" : ""));
  size_t made = (this->*row.expand)(fields, path, input);
  previous = (row.traits & Aside) ? previous : made;
  own.need(!stage.contains("to") || streams.try_emplace(own.text("to"), previous).second,
           "a name that no earlier result has");
  return previous;
}

/// Retains the values from which the losses are computed, in order, and spells its relations.
ModelGraph Deriver::finish() const {
  ModelGraph kept;
  std::vector<size_t> numbers(graph.values.size());
  std::vector<bool> live = findLive(graph.values, graph.losses);
  for (size_t i = 0; i < live.size(); ++i) {
    if (!live[i]) {
      continue;
    }
    numbers[i] = kept.values.size();
    const Draft &draft = graph.values[i];
    ModelValue &value = kept.values.emplace_back(draft);
    for (size_t &operand : value.operands) {
      operand = numbers[operand];
    }
    if (value.segments) {
      value.segments = numbers[*value.segments];
    }
    for (size_t j = 0; j < value.operands.size(); ++j) {
      Pattern pattern = value.getPattern(j);
      bool isOther = pattern == Pattern::OffRows || pattern == Pattern::Distances;
      bool isOpen = pattern >= Pattern::OnRows && pattern <= Pattern::Distances;
      value.reads.push_back(parseRelation(isOther  ? draft.others
                                          : isOpen ? draft.rows
                                                   : spellPattern(value, j, draft.by)));
    }
  }
  for (const Loss &loss : graph.losses) {
    kept.losses.push_back({loss.name, numbers[loss.row]});
  }
  kept.markSampled();
  return kept;
}

/// Replaces the set of sampled factors of an hourglass, as in "2@1 8@{2,3} 2@1", by its factor i.
/// Returns the factor: 0 if no stage has such a set, -1 after the last of 2 to 16. Leaves a set in
/// another form, which readLevels() rejects.
static int64_t chooseFactor(json &spec, size_t i) {
  static const std::string positive = "0{0,9}[1-9][0-9]{0,9}";
  static const std::regex set("\\{(" + positive + "(," + positive + "){1,15})\\}"), word("[0-9]+");
  int64_t factor = 0;
  for (json &stage : spec["stages"]) {
    if (stage.value("op", json()) != "hourglass" || !stage.value("hierarchy", json()).is_string()) {
      continue;
    }
    auto text = stage["hierarchy"].get<std::string>();
    for (std::smatch found; std::regex_search(text, found, set);) {
      std::string list = found[1];
      std::vector<std::string> words(std::sregex_token_iterator(list.begin(), list.end(), word),
                                     {});
      factor = factor < 0 || i >= words.size() ? -1 : std::stoll(words[i]);
      text.replace(found.position(), found.length(), std::to_string(factor));
    }
    stage["hierarchy"] = text;
  }
  return factor;
}

std::vector<Model> certify::deriveModels(const std::string &text) {
  json spec = parseSpec(text);
  Fields own(spec, nullptr, "the spec");
  own.need(spec.is_object() && spec.value("sluice", json()) == 1 &&
               spec.value("stages", json()).is_array() && spec["stages"].size() >= 2 &&
               std::ranges::all_of(spec["stages"], [](const json &s) { return s.is_object(); }),
           "version 1, an object with \"sluice\" and \"stages\" of at least two objects");
  own.needKeys("sluice name vocabulary context batch width seed inputs defaults stages precision "
               "training");
  for (std::vector<Model> models;;) {
    json chosen = spec;
    int64_t factor = chooseFactor(chosen, models.size());
    if (factor < 0 || (factor == 0 && !models.empty())) {
      return models;
    }
    models.push_back({Deriver(chosen, false).run(), Deriver(chosen, true).run(), factor});
  }
}
