// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Settings of a spec's stages that determine the graph.
#pragma once

#include "Certify.h"
#include "Graph.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <regex>
#include <sstream>

namespace certify {

using nlohmann::json;

/// Parses JSON. Rejects duplicate keys, as it would be ambiguous which one holds, and nesting
/// deeper than a spec may have (docs/spec.md), as copies of a value recurse.
json parseSpec(const std::string &text);

constexpr int64_t largestNumber = (int64_t{1} << 31) - 1;

/// The keys that a row of attention reads, for queries on a scale of factor a and keys of factor b:
/// keys that begin where the query does or before, b q <= a p; keys that end where it does or
/// before, b (q + 1) <= a (p + 1); m - end < q <= m - begin with m = a p div b; in tokens, a (p +
/// 1) - end < b (q + 1) <= a (p + 1) - begin; all keys.
struct Mask {
  enum Kind { Causal, Complete, Window, Tokens, Block, Bidirectional } kind = Causal;
  int64_t begin = 0,
          end = 0;  ///< of a block, q <= p in the block of p: one starts at begin, of end rows
  int64_t from = 0; ///< keys before this one are left out
  int64_t step = 1; ///< of a window on one scale: keys p - begin - step j alone

  /// Spells the relation of queries and keys on scales of these factors.
  std::string spell(int64_t queryFactor, int64_t keyFactor) const;
};

/// Heads of a layer with separate keys: of a stream, or of means of `factor` rows of its input.
struct HeadGroup {
  int64_t factor = 1;
  Mask mask;
};

/// The parts of a `layer` that the graph needs.
struct Layer {
  bool preNorm = true, gated = false;
  bool attends = true, feeds = true;     ///< its blocks
  bool isHashed = false;                 ///< LSH attention; queries are the keys
  bool isXl = false, hasVectors = false; ///< scores have Transformer-XL's or Shaw's terms
  bool attentionNorm = true; ///< the attention block of a pre-norm layer norms its streams
  std::string within;        ///< segments that hold the keys; empty: none
  Mask mask;
  std::vector<HeadGroup> groups; ///< none: all heads read the same keys
};

/// Methods by which a `shorten` stage computes one position from a group.
inline const json shortenMethods = {"average", "linear", "max", "convolution"};
inline const json hourglassMethods = {"average",     "linear",    "max",
                                      "convolution", "attention", "attention_linear"};
/// Linear methods of either list have an odd index.
inline bool isLinear(size_t method) { return method % 2 == 1; }

struct FieldLevel {
  int64_t layers, factor;
};

/// A stage's settings: its own keys, then keys of `defaults` if the stage has layer settings.
class Fields {
public:
  Fields(const json &own, const json *defaults, std::string where)
      : own(own), defaults(defaults), where(std::move(where)) {}

  void need(bool holds, const std::string &expected) const {
    if (!holds) {
      throw BadInput(where + ": expected " + expected + ", found " + own.dump());
    }
  }
  /// Rejects keys that are not in a list, separated by spaces.
  void needKeys(const std::string &known) const {
    need(own.is_object(), "an object");
    for (const auto &[key, value] : own.items()) {
      need(hasWord(known, key), "keys that this checker knows, not \"" + key + "\"");
    }
  }
  static bool hasWord(const std::string &words, const std::string &key) {
    bool isWord = key.find(' ') == key.npos;
    return isWord && (" " + words + " ").find(" " + key + " ") != words.npos;
  }

  const json *find(const std::string &key) const {
    const json *object = own.contains(key) ? &own : defaults;
    return object && object->contains(key) ? &object->at(key) : nullptr;
  }
  json get(const std::string &key, const json &otherwise) const {
    const json *value = find(key);
    return value ? *value : otherwise;
  }
  bool isSet(const std::string &key, const json &otherwise) const {
    return get(key, otherwise) != otherwise;
  }

  int64_t integer(const std::string &key, int64_t least,
                  std::optional<int64_t> otherwise = {}) const {
    const json *value = find(key);
    need(value ? value->is_number_integer() && *value >= least && *value <= largestNumber
               : otherwise.has_value(),
         "an integer from " + std::to_string(least) + " for \"" + key + "\"");
    return value ? value->get<int64_t>() : *otherwise;
  }

  /// Returns an object, by default an empty one.
  json object(const std::string &key) const {
    json value = get(key, json::object());
    Fields(value, nullptr, where + "." + key).need(value.is_object(), "an object");
    return value;
  }

  /// Returns true for a probability other than 0.
  bool dropsOut(const std::string &key) const {
    const json *value = find(key);
    need(!value || (value->is_number() && *value >= 0 && *value < 1),
         "a number >= 0 and < 1 for \"" + key + "\"");
    return value && *value > 0;
  }

  /// Returns the index of the value among `values`; 0 if the key is absent.
  size_t choice(const std::string &key, const json &values) const {
    const json *value = find(key);
    auto found = value ? std::find(values.begin(), values.end(), *value) : values.begin();
    need(found != values.end(), "one of " + values.dump() + " for \"" + key + "\"");
    return static_cast<size_t>(found - values.begin());
  }

  std::string text(const std::string &key) const {
    const json *value = find(key);
    need(value && value->is_string() && *value != "", "a word for \"" + key + "\"");
    return value->get<std::string>();
  }

private:
  const json &own;
  const json *defaults;
  std::string where;
};

/// [a, b]
inline Mask readEnds(const Fields &fields, const std::string &key, Mask::Kind kind) {
  const json ends = fields.get(key, nullptr);
  auto isEnd = [](const json &x) { return x.is_number_integer() && x >= 0 && x <= largestNumber; };
  bool arePair = ends.is_array() && ends.size() == 2 && std::ranges::all_of(ends, isEnd);
  fields.need(arePair && ends[0] < ends[1], "[a, b] with 0 <= a < b");
  return {kind, ends[0], ends[1]};
}

/// Reads "block" and "start".
inline Mask readBlock(const Fields &fields) {
  Mask mask{Mask::Block, fields.integer("start", 0, 0), fields.integer("block", 2)};
  fields.need(mask.begin < mask.end, "a \"start\" below \"block\"");
  return mask;
}

inline Mask readMask(const Fields &fields) {
  const json value = fields.get("mask", "causal");
  static const std::map<json, Mask> words = {
      {"causal", {}}, {"complete", {Mask::Complete}}, {"bidirectional", {Mask::Bidirectional}}};
  if (auto word = words.find(value); word != words.end()) {
    return word->second;
  }
  Fields own(value, nullptr, "a mask");
  if (own.find("block")) {
    own.needKeys("block start");
    return readBlock(own);
  }
  const char *key = own.find("tokens") ? "tokens" : "window";
  own.needKeys(key);
  return readEnds(own, key, own.find("tokens") ? Mask::Tokens : Mask::Window);
}

/// Reads "scales": means of the layer's input, with a window each.
inline std::vector<HeadGroup> readScales(const Fields &fields) {
  std::vector<HeadGroup> groups;
  const json list = fields.get("scales", json::array());
  fields.need(list.is_array(), "a list for \"scales\"");
  for (const json &scale : list) {
    Fields own(scale, nullptr, "a scale");
    own.needKeys("factor tokens grid");
    HeadGroup group = {own.integer("factor", 1), readEnds(own, "tokens", Mask::Tokens)};
    if (own.choice("grid", {"fixed", "moving"}) == 1) { // a mean at every row, of complete groups
      group.mask.step = group.factor;
      group.mask.from = group.factor - 1;
    }
    groups.push_back(group);
  }
  return groups;
}

inline Layer readLayer(const Fields &fields) {
  Layer layer;
  layer.preNorm = fields.choice("placement", {"pre", "post"}) == 0;
  layer.gated =
      fields.choice("activation", {"gelu", "relu", "gelu_tanh", "swiglu", "relu_squared"}) == 3;
  layer.feeds = fields.integer("feed_forward", 0, 1) > 0;
  layer.mask = readMask(fields);
  layer.mask.from = fields.integer("first", 0, 0);
  layer.attentionNorm = !fields.isSet("attention_norm", true);
  const json *relative = fields.find("relative");
  bool isTable = relative && relative->is_object(); // a table by distance is not a value
  layer.isXl = !isTable && fields.choice("relative", {"none", "xl", "xl_shared"}) > 0;
  layer.hasVectors = isTable && relative->contains("vectors");
  layer.within = fields.find("within") ? fields.text("within") : "";
  layer.groups = readScales(fields);
  layer.isHashed = fields.isSet("lsh", false);
  if (layer.isHashed) { // a part of a causal mask
    const json &lsh = *fields.find("lsh");
    fields.need(lsh.is_object() && lsh.value("causal", json(true)) == true &&
                    layer.mask.kind == Mask::Causal && !layer.isXl,
                "causal ranks, a causal mask and no distances with \"lsh\"");
  }
  return layer;
}

/// Reads "2@1 8@4 2@1": LAYERS@FACTOR, each factor a multiple of the next finer one.
inline std::vector<FieldLevel> readLevels(const Fields &fields) {
  static const std::regex pattern("([0-9]{1,5})@([0-9]{1,10})");
  std::vector<FieldLevel> levels;
  std::istringstream words(fields.text("hierarchy"));
  for (std::string word; words >> word;) {
    std::smatch parts;
    bool isLevel = std::regex_match(word, parts, pattern) && levels.size() < 63;
    levels.push_back(isLevel ? FieldLevel{std::stoll(parts[1]), std::stoll(parts[2])}
                             : FieldLevel{0, 0});
    int64_t a = levels.back().factor, b = levels.rbegin()[levels.size() > 1 ? 1 : 0].factor;
    fields.need(levels.back().layers <= 10000 && a >= 1 && a <= largestNumber &&
                    std::max(a, b) % std::min(a, b) == 0,
                "at most 63 levels LAYERS@FACTOR, each factor a multiple of the next finer one");
  }
  fields.need(!levels.empty(), "a level");
  return levels;
}

/// Returns true if a shift's first rows are trained: then it is stored.
inline bool learnsStart(const Fields &fields) {
  return fields.choice("start", {"zeros", "null", "norm"}) == 1;
}

/// Returns true if an activation follows the projection's sum, as a separate map.
inline bool isActivated(const Fields &fields, const std::string &key) {
  return fields.choice(key, {"none", "relu", "gelu", "gelu_tanh", "relu_squared"}) > 0;
}

} // namespace certify
