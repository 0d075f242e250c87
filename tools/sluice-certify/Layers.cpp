// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Layers: norms, attention and feed-forward blocks, with keys of their own or of other streams.
#include "Deriver.h"

#include <numeric>

using namespace certify;

size_t Deriver::mix(const Layer &settings, const std::string &path, size_t x,
                    const std::vector<size_t> &over) {
  if (!settings.groups.empty()) {
    return mixGroups(settings, path, x, over);
  }
  size_t keys = 0;
  std::vector<size_t> terms;
  std::optional<size_t> values, other = over.empty() ? std::nullopt : std::optional(over[0]);
  if (other && settings.preNorm && settings.attentionNorm) {
    other = norm(path + ".over", *other);
  }
  if (settings.isXl) {
    size_t content = make(Kind::Linear, path + ".query", {x});
    terms.push_back(make(Kind::Linear, path + ".query_position", {x}));
    keys = make(Kind::Linear, path + ".kv", {other.value_or(x)});
    size_t distance = onScaleOf(x, make(Kind::Position, path + ".distance", {}));
    // A row by distance is a step that queries and keys are whole numbers of.
    graph.values[distance].factor = std::gcd(graph.values[x].factor, graph.values[keys].factor);
    terms.push_back(make(Kind::Linear, path + ".relative", {distance}));
    x = content;
  } else if (other) {
    x = make(Kind::Linear, path + ".query", {x});
    keys = make(Kind::Linear, path + ".kv", {*other});
  } else if (settings.isHashed) {
    keys = make(Kind::Linear, path + ".query_key", {x});
    values = make(Kind::Linear, path + ".value", {x});
    terms.push_back(make(Kind::Map, path + ".buckets", {keys}));
    x = keys;
  } else {
    x = keys = make(Kind::Linear, path + ".qkv", {x});
  }
  std::vector<size_t> operands = {x, keys, values.value_or(keys)};
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
  if (value.mask.kind == Mask::Block && value.keyFactor != value.factor) {
    fail(name, "keys on the queries' scale where a block is the mask", "another scale");
  }
  settleMask(value);
  return result;
}

size_t Deriver::layer(const Layer &settings, const std::string &path, size_t x,
                      const std::vector<size_t> &over) {
  dropout |= settings.dropsOut;
  auto block = [&](const std::string &name, auto inner) {
    bool norms = settings.preNorm && (settings.attentionNorm || name != path + ".attention");
    size_t branch = inner(norms ? norm(name, x) : x);
    x = make(Kind::Map, name + ".sum", {x, branch});
    x = settings.preNorm ? x : norm(name, x);
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

size_t Deriver::stack(const Layer &settings, int64_t layers, Names &next, size_t x) {
  for (int64_t i = 0; i < layers; ++i) {
    x = layer(settings, next(), x);
  }
  return layers > 0 && settings.preNorm ? norm(next(), x) : x;
}

/// Groups of heads have no first key of their own.
int64_t certify::readFirst(const Fields &fields, const Layer &settings) {
  int64_t first = fields.integer("first", 0, 0);
  fields.refuse(first > 0 && !settings.groups.empty(), "no \"first\" beside groups of heads",
                "both");
  return first;
}

/// A layer with keys and values of its own, or of other streams.
size_t Deriver::singleLayer(const Fields &fields, const std::string &path, size_t x) {
  Layer settings = readLayer(fields);
  settings.mask.from = readFirst(fields, settings);
  settings.attentionNorm = fields.boolean("attention_norm", true);
  const json *over = fields.find("over");
  bool isGrouped = !settings.groups.empty() || (over && over->is_array());
  fields.refuse(!settings.attentionNorm && (!settings.preNorm || isGrouped),
                "norms of a post-norm block, and of groups of heads", "\"attention_norm\": false");
  if (!over) {
    return layer(settings, path, x);
  }
  bool isRelative = fields.find("relative") && *fields.find("relative") != "none";
  fields.refuse(!settings.groups.empty() || (isRelative && isGrouped),
                "neither \"scales\" nor \"relative\" beside several streams", "both");
  if (!isGrouped) {
    size_t other = stream(fields.text("over"), fields);
    bool isApart = graph.values[other].factor != graph.values[x].factor;
    fields.refuse(isRelative && (graph.values[other].input != graph.values[x].input ||
                                 (isApart && settings.mask.kind == Mask::Tokens)),
                  "no \"relative\" over an input's axis or by a window in tokens", "both");
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
