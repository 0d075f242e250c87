// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Layers: norms, attention and feed-forward blocks, with their own keys or keys of other streams.
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
  bool norms = other && settings.preNorm && settings.attentionNorm;
  other = norms ? norm(path + ".over", *other) : other;
  if (settings.isXl) {
    size_t content = make("linear", path + ".query", {x});
    terms.push_back(make("linear", path + ".query_position", {x}));
    keys = make("linear", path + ".kv", {other.value_or(x)});
    size_t distance = convertToScale(x, make("position", path + ".distance", {}));
    // The factor of rows by distance is the step that divides the factors of queries and keys.
    graph.values[distance].factor = std::gcd(graph.values[x].factor, graph.values[keys].factor);
    terms.push_back(make("linear", path + ".relative", {distance}));
    x = content;
  } else if (other || settings.hasVectors) {
    size_t query = make("linear", path + ".query", {x});
    keys = make("linear", path + ".kv", {other.value_or(x)});
    terms.assign(settings.hasVectors ? 1 : 0, x = query);
  } else if (settings.isHashed) {
    keys = make("linear", path + ".query_key", {x});
    values = make("linear", path + ".value", {x});
    terms.push_back(make("map", path + ".buckets", {keys}));
    x = keys;
  } else {
    x = keys = make("linear", path + ".qkv", {x});
  }
  std::vector<size_t> operands = {x, keys, values.value_or(keys)};
  operands.insert(operands.end(), terms.begin(), terms.end());
  x = attend(path + ".mix", std::move(operands), settings.mask,
             settings.isHashed ? "hashed_attention" : "attention");
  return make("linear", path + ".output", {x});
}

/// Sums groups: queries from x, keys and values from a source, and columns of the output map.
size_t Deriver::mixGroups(const Layer &layer, const std::string &path, size_t x,
                          const std::vector<size_t> &sources) {
  std::vector<size_t> outputs;
  for (size_t i = 0; i < layer.groups.size(); ++i) {
    const HeadGroup &heads = layer.groups[i];
    std::string part = path + "." + std::to_string(i);
    size_t keys = sources.empty() ? x : sources[i];
    if (sources.empty() && heads.factor > 1) {
      int64_t k = heads.mask.step > 1 ? 1 : heads.factor; // a moving mean has every row
      keys = group("shorten", part + ".shorten", x, k, heads.factor);
    } else if (!sources.empty() && layer.preNorm) {
      keys = norm(part + ".over", keys);
    }
    size_t query = make("linear", part + ".query", {x});
    keys = make("linear", part + ".kv", {keys});
    size_t mixed = attend(part + ".mix", {query, keys, keys}, heads.mask);
    outputs.push_back(make("linear", part + ".output", {mixed}));
  }
  return outputs.size() == 1 ? outputs[0] : make("map", path + ".output.sum", outputs);
}

std::string Mask::spell(int64_t queryFactor, int64_t keyFactor) const {
  int64_t common = std::gcd(queryFactor, keyFactor), a = queryFactor / common,
          b = keyFactor / common;
  auto at = [&](int64_t constant) { // (a p + constant) div b
    std::string sum = spellLinear(a, constant);
    return b == 1 ? sum : "floor((" + sum + ")/" + std::to_string(b) + ")";
  };
  auto inCommon = [&](int64_t tokens) { return (tokens + common - 1) / common; };
  int64_t least = inCommon(begin), most = inCommon(end), missing = begin == 0 ? 0 : end - begin;
  int64_t whole = (most - least) / step * step; // of every `step`-th key, complete groups
  std::string rows = std::to_string(end);
  const std::map<Kind, std::string> limits = {
      {Causal, " to " + at(0)},
      {Complete, " to " + at(a - b)},
      {Window, " " + at(-b * (end - 1)) + " to " + at(-b * begin)},
      {Tokens, " " + at(step > 1 ? step - least - whole : a - most) + " to " + at(a - b - least)},
      {Block, " " + rows + "*floor((" + spellLinear(1, missing) + ")/" + rows + ") - " +
                  std::to_string(missing) + " to p"},
      {Bidirectional, " all"}};
  return "keys" + limits.at(kind) + (step > 1 ? " step " + std::to_string(step) : "") +
         (from > 0 ? " from " + std::to_string(from) : "");
}

size_t Deriver::attend(const std::string &name, std::vector<size_t> operands, const Mask &mask,
                       const char *op) {
  size_t x = operands[0], keys = operands[1];
  const Draft &query = graph.values[x], &key = graph.values[keys];
  bool isWhole = key.input != query.input; // given values
  Mask read = isWhole ? Mask{Mask::Bidirectional, 0, 0, mask.from} : mask;
  std::string seen = read.spell(query.factor, key.factor);
  int64_t common = std::gcd(query.factor, key.factor);
  int64_t ahead = read.kind == Mask::Complete ? (query.factor - key.factor) / common : 0;
  // Rows by distance up to the query's own or, under `complete`, its end from the first key's end.
  std::string distances = "keys to " + spellLinear(query.factor / common, ahead);
  size_t result = make(op, name, std::move(operands), seen);
  graph.values[result].distances = distances;
  return result;
}

size_t Deriver::layer(const Layer &settings, const std::string &path, size_t x,
                      const std::vector<size_t> &over) {
  dropout |= settings.dropsOut;
  auto block = [&](bool isThere, const std::string &name, auto inner) {
    if (!isThere) {
      return;
    }
    bool norms = settings.preNorm && (settings.attentionNorm || name != path + ".attention");
    size_t branch = inner(norms ? norm(name, x) : x);
    x = make("map", name + ".sum", {x, branch});
    x = settings.preNorm ? x : norm(name, x);
  };
  block(settings.attends, path + ".attention",
        [&](size_t v) { return mix(settings, path + ".attention", v, over); });
  block(settings.feeds, path + ".feed_forward", [&](size_t v) {
    std::vector<size_t> in;
    if (settings.gated) {
      in.push_back(make("linear", path + ".feed_forward.gate", {v}));
    }
    in.push_back(make("linear", path + ".feed_forward.in", {v}));
    v = make("map", path + ".feed_forward.activation", in);
    return make("linear", path + ".feed_forward.out", {v});
  });
  return x;
}

size_t Deriver::stack(const Layer &settings, int64_t layers, StageNames &next, size_t x) {
  for (int64_t i = 0; i < layers; ++i) {
    x = layer(settings, next(), x);
  }
  return layers > 0 && settings.preNorm ? norm(next(), x) : x;
}

size_t Deriver::feedForward(const Fields &fields, const std::string &path, size_t x) {
  Layer settings = readLayer(fields);
  settings.attends = false;
  return layer(settings, path, x);
}

/// Derives an attention block with queries, keys and values of three streams, each normed once.
size_t Deriver::attention(const Fields &fields, const std::string &path, size_t x) {
  Layer settings = readLayer(fields);
  dropout |= settings.dropsOut;
  partner(fields, x, "query");
  partner(fields, stream(fields.text("key"), fields), "value");
  std::map<std::string, size_t> rows;
  std::vector<size_t> operands;
  for (const char *role : {"query", "key", "value"}) {
    std::string name = fields.text(role), part = path + ".attention." + role;
    auto [at, isNew] = rows.try_emplace(name, stream(name, fields));
    bool norms = isNew && settings.preNorm && settings.attentionNorm;
    at->second = norms ? norm(part, at->second) : at->second;
    operands.push_back(make("linear", part, {at->second}));
  }
  size_t mixed = attend(path + ".attention.mix", operands, settings.mask);
  mixed = make("linear", path + ".attention.output", {mixed});
  x = make("map", path + ".attention.sum", {x, mixed});
  return settings.preNorm ? x : norm(path + ".attention", x);
}

/// Derives a layer with keys and values from its own stream, or from other streams.
size_t Deriver::singleLayer(const Fields &fields, const std::string &path, size_t x) {
  Layer settings = readLayer(fields);
  const json *over = fields.find("over");
  if (!over || !over->is_array()) {
    return over ? layer(settings, path, x, {stream(fields.text("over"), fields)})
                : layer(settings, path, x);
  }
  settings.groups = readSources(fields, settings.mask);
  std::vector<size_t> sources;
  for (const HeadGroup &group : settings.groups) {
    sources.push_back(stream(group.stream, fields));
  }
  return layer(settings, path, x, sources);
}
