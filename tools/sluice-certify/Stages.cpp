// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The table of stages: a row for each, with its keys and its expansion. Composites.cpp has the rows
// of stages that are lists of others.
#include "Deriver.h"

using namespace certify;

const std::map<std::string, Deriver::DerivedStage> &Deriver::table() {
  using D = Deriver;
  static const std::map<std::string, DerivedStage> stages = [] {
    // clang-format off
    std::map<std::string, DerivedStage> rows = {
      {"embedding", {"input positions dropout ngrams ngram_rows document_end scale deviation to", &D::embedding}},
      {"layer", {"over attention_norm first from to", &D::singleLayer, Layered}},
      {"layers", {"count first from to", &D::layers, Layered}},
      {"feed_forward", {"norm placement epsilon activation dropout feed_forward_dropout bias feed_forward from to",
                        &D::feedForward, Block}},
      {"attention", {"query key value attention_norm first heads key_value_heads head_size norm placement epsilon "
                     "dropout attention_dropout mask bias from to", &D::attention, Block}},
      {"norm", {"norm epsilon from to", &D::normStage}},
      {"dropout", {"rate from to", &D::dropoutStage}},
      {"add", {"with from to", &D::join}},
      {"replace", {"with block start from to", &D::replace}},
      {"project", {"with activation bias width initial from to", &D::projectStage}},
      {"graph_convolution", {"edges method from to", &D::graphConvolution}},
      {"shift", {"by start from to", &D::shiftStage}},
      {"shorten", {"factor method window segments width start from to", &D::resampleStage}},
      {"upsample", {"factor method window segments by width from to", &D::resampleStage}},
      {"hourglass", {"hierarchy shorten shorten_window shorten_keys upsample upsample_norm shift shifted start from to",
                     &D::hourglass, Layered | OfTokens}},
      {"top_down", {"hierarchy shorten shorten_window upsample projection_activation bags start from to",
                    &D::topDown, Layered | OfTokens}},
      {"bottom_up", {"hierarchy shorten shorten_window pooling from to", &D::bottomUp, Layered | OfTokens}},
      {"boundaries", {"name rule bits factor predictor prior prior_logit temperature weight capacity at loss "
                      "threshold rise spike top epsilon window document_end ratio mode from", &D::boundaries, Aside}},
      {"attend", {"over segments heads head_size parts by norm epsilon bias from to", &D::attendCut}},
      {"loss", {"name factor shift first tied bias label_smoothing target weights from", &D::score, Aside | OfTokens}},
      {"head", {"tied bias label_smoothing target weights shift first from", &D::score, OfTokens}},
    };
    // clang-format on
    for (const auto &[name, keys] : listStages()) {
      rows[name] = {keys, &D::composite, OfTokens};
    }
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
  bool changes = hasDropout(fields, "dropout") || fields.isSet("scale", 1);
  return terms.size() > 1 || changes ? make("map", path + ".sum", terms) : terms[0];
}

size_t Deriver::layers(const Fields &fields, const std::string &path, size_t x) {
  Layer settings = readLayer(fields);
  for (int64_t i = 0; i < fields.integer("count", 1); ++i) {
    x = layer(settings, path + ".inside." + std::to_string(i), x);
  }
  return x;
}

size_t Deriver::normStage(const Fields &, const std::string &path, size_t x) {
  return norm(path, x);
}

size_t Deriver::dropoutStage(const Fields &fields, const std::string &path, size_t x) {
  return hasDropout(fields, "rate") ? make("map", path + ".dropout", {x}) : x;
}

size_t Deriver::shiftStage(const Fields &fields, const std::string &path, size_t x) {
  return shift(path, fields.integer("by", 0), learnsStart(fields), x);
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

size_t Deriver::join(const Fields &fields, const std::string &path, size_t x) {
  return add(path, x, partner(fields, x));
}

/// Derives rows start, start + block and so on of one stream, and the other rows of x.
size_t Deriver::replace(const Fields &fields, const std::string &path, size_t x) {
  Mask block = readBlock(fields);
  std::string rows = std::to_string(block.end) + "*i + " + std::to_string(block.begin);
  return make("replace", path + ".replace", {partner(fields, x), x}, rows);
}

size_t Deriver::projectStage(const Fields &fields, const std::string &path, size_t x) {
  bool isActive = isActivated(fields, "activation");
  return fields.find("with") ? project(path, x, partner(fields, x), isActive)
                             : project(path, x, {}, isActive);
}

/// Derives sums of any rows of an input; the proof rejects them for tokens.
size_t Deriver::graphConvolution(const Fields &fields, const std::string &path, size_t x) {
  size_t weights = convertToScale(x, make("position", path + ".degrees", {}));
  weights = make("map", path + ".weights", {weights});
  std::vector<size_t> operands = {stored(path + ".rows", x), weights, weights};
  operands.resize(fields.choice("method", {"normalized", "mean"}) == 0 ? 3 : 2);
  return make("graph_sum", path + ".graph", operands, "keys all");
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
  bool linear = isLinear(fields.choice("method", shortenMethods));
  bool fills = fields.choice("start", {"zeros", "norm"}) == 1;
  return shorten(path, k, fields.integer("window", 1, k), linear, x, fills);
}

/// Derives groups. If `fills`, a norm of zeros is before the first row of group 0.
size_t Deriver::shorten(const std::string &path, int64_t k, int64_t window, bool linear, size_t x,
                        bool fills) {
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
  return linear ? make("linear", path + ".linear", {x}) : x;
}

/// Derives linear maps of the rows of a group before their shifts, concatenated; or of the parts of
/// a group's row.
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

/// Row t reads group (t - shift) div k. Rows that are not scored must satisfy the theorem too.
size_t Deriver::score(const Fields &fields, const std::string &path, size_t x) {
  bool isHead = fields.text("op") == "head";
  fields.need(isHead || lossRows.emplace(fields.text("name"), x).second,
              "a name that no other loss has");
  hasDropout(fields, "label_smoothing");
  dropout |= fields.isSet("weights", "") || (isHead && fields.isSet("target", ""));
  int64_t k = graph.values[x].factor, by = fields.integer("shift", 0, k - 1);
  size_t row = k > 1 ? repeat("upsample", path, x, k) : x;
  row = by > 0 ? shift(path, by, false, row) : row;
  graph.losses.push_back({path + (isHead ? ".head" : ".loss"), row});
  return x;
}
