// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Settings of a spec's stages, as far as they decide the graph.
#pragma once

#include "Certify.h"
#include "Graph.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <map>
#include <sstream>

namespace certify {

using nlohmann::json;

/// JSON in which no object has a key twice: which of the two holds would be anyone's guess. Nor
/// does it nest deeper than a spec may (docs/spec.md), as copies of a value recurse.
json parseSpec(const std::string &text);

constexpr int64_t largestNumber = (int64_t{1} << 31) - 1;

/// Which keys a row of attention reads, of queries on a scale of factor a and keys of b: those that
/// begin where the query does or before, b q <= a p; those that end where it does, b (q + 1) <=
/// a (p + 1); m - end < q <= m - begin, m = a p div b; in tokens, a (p + 1) - end < b (q + 1) <=
/// a (p + 1) - begin; all.
struct Mask {
  enum Kind { Causal, Complete, Window, Tokens, Block, Bidirectional } kind = Causal;
  int64_t begin = 0, end = 0; ///< of a block, q <= p in that of p: one starts at begin, of end rows
  int64_t from = 0;           ///< keys before this one are left out
  int64_t step = 1;           ///< of a window on one scale: keys p - begin - step j alone

  /// The relation, of queries and keys on scales of these factors.
  std::string spell(int64_t queryFactor, int64_t keyFactor) const;
};

/// Heads of a layer that have keys of their own: of a stream, or of means of the layer's input.
struct HeadGroup {
  std::string stream; ///< empty: means of `factor` rows
  int64_t factor = 1;
  Mask mask;
};

/// What a `layer` is, as far as the graph goes.
struct Layer {
  bool preNorm = true, gated = false, dropsOut = false;
  bool isHashed = false;     ///< rows of a bucket read each other; queries are the keys
  bool isXl = false;         ///< scores have Transformer-XL's terms by distance
  bool attentionNorm = true; ///< the attention block of a pre-norm layer norms its streams
  Mask mask;
  std::vector<HeadGroup> groups; ///< none: all heads read alike
};

/// How a `shorten` stage makes one position of a group.
inline const std::vector<std::string> shortenMethods = {"average", "linear", "max", "convolution"};
/// Also of "attention_linear", the sixth.
inline bool isLinear(size_t method) { return method % 2 == 1; }

struct Level {
  int64_t layers, factor;
};

[[noreturn]] inline void fail(const std::string &where, const std::string &expected,
                              const std::string &found) {
  throw BadInput(where + ": expected " + expected + ", found " + found);
}

/// A stage's settings: its own keys, then those of `defaults` where the stage has layer settings.
class Fields {
public:
  Fields(const json &own, const json *defaults, std::string where)
      : own(own), defaults(defaults), where(std::move(where)) {}

  const json *find(const std::string &key) const {
    const json *object = own.contains(key) ? &own : defaults;
    return object && object->contains(key) ? &object->at(key) : nullptr;
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
    if (value && (!value->is_number() || *value < 0 || *value >= 1)) {
      fail(where, "a number >= 0 and < 1 for \"" + key + "\"", value->dump());
    }
    return value && *value > 0;
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

  bool boolean(const std::string &key, bool otherwise) const {
    const json *value = find(key);
    if (value && !value->is_boolean()) {
      fail(where, "true or false for \"" + key + "\"", value->dump());
    }
    return value ? value->get<bool>() : otherwise;
  }

  std::string text(const std::string &key) const {
    const json *value = find(key);
    if (!value || !value->is_string() || value->get<std::string>().empty()) {
      fail(where, "a string that is not empty for \"" + key + "\"", value ? value->dump() : "none");
    }
    return value->get<std::string>();
  }

  void refuse(bool wrong, const std::string &expected, const std::string &found) const {
    if (wrong) {
      fail(where, expected, found);
    }
  }

private:
  const json &own;
  const json *defaults;
  std::string where;
};

/// [a, b]
inline Mask readEnds(const Fields &fields, const json &ends, Mask::Kind kind) {
  Mask mask{kind};
  if (ends.is_array() && ends.size() == 2) {
    mask.begin = fields.integerOf(ends[0], "a", 0);
    mask.end = fields.integerOf(ends[1], "b", 0);
  }
  fields.refuse(mask.begin >= mask.end, "[a, b] with 0 <= a < b", ends.dump());
  return mask;
}

/// "block" and "start"
inline Mask readBlock(const Fields &fields) {
  Mask mask{Mask::Block, fields.integer("start", 0, 0), fields.integer("block", 2)};
  fields.refuse(mask.begin >= mask.end, "a \"start\" below \"block\"", std::to_string(mask.begin));
  return mask;
}

inline Mask readMask(const Fields &fields) {
  const json *value = fields.find("mask");
  static const std::map<json, Mask> words = {
      {"causal", {}}, {"complete", {Mask::Complete}}, {"bidirectional", {Mask::Bidirectional}}};
  if (auto word = words.find(value ? *value : "causal"); word != words.end()) {
    return word->second;
  }
  bool isBlock = value->is_object() && value->contains("block");
  bool inTokens = value->is_object() && value->contains("tokens");
  fields.refuse(!value->is_object() ||
                    value->size() != (isBlock && value->contains("start") ? 2 : 1) ||
                    (!isBlock && !inTokens && !value->contains("window")),
                R"("causal", "complete", "bidirectional", {"window": [a, b]}, )"
                R"({"tokens": [a, b]} or {"block": rows} for "mask")",
                value->dump());
  return isBlock    ? readBlock(Fields(*value, nullptr, "a mask"))
         : inTokens ? readEnds(fields, value->at("tokens"), Mask::Tokens)
                    : readEnds(fields, value->at("window"), Mask::Window);
}

/// A table of biases by distance is no value; rows by distance are.
inline void readRelative(const Fields &fields, Layer &layer) {
  const json *value = fields.find("relative");
  if (value && value->is_object()) {
    fields.refuse(value->size() != 1 || !value->contains("bias"),
                  "{\"bias\": distances} for \"relative\"", value->dump());
    fields.integerOf(value->at("bias"), "bias", 1);
  } else {
    layer.isXl = fields.choice("relative", {"none", "xl", "xl_shared"}) > 0;
  }
  fields.refuse(value && *value != "none" && layer.mask.kind == Mask::Bidirectional,
                "keys at or before the query where \"relative\" is given", "\"bidirectional\"");
}

/// The retina's: means of the layer's input, with a window each.
inline std::vector<HeadGroup> readScales(const Fields &fields) {
  std::vector<HeadGroup> groups;
  const json *list = fields.find("scales");
  for (const json &scale : list ? *list : json::array()) {
    bool good = list->is_array() && scale.is_object() && scale.contains("factor") &&
                scale.contains("tokens") && scale.size() == (scale.contains("grid") ? 3 : 2);
    fields.refuse(!good,
                  "a list of {\"factor\": k, \"tokens\": [a, b]}, perhaps with \"grid\", for "
                  "\"scales\"",
                  list->dump());
    bool isMoving = Fields(scale, nullptr, "a scale").choice("grid", {"fixed", "moving"}) == 1;
    groups.push_back({"", fields.integerOf(scale["factor"], "factor", 1),
                      readEnds(fields, scale["tokens"], Mask::Tokens)});
    if (HeadGroup &group = groups.back(); isMoving) { // a mean at every row, of whole groups alone
      group.mask.step = group.factor;
      group.mask.from = group.factor - 1;
    }
  }
  return groups;
}

/// "over" as a list: a stream and a mask each, the layer's where it has none.
inline std::vector<HeadGroup> readSources(const Fields &fields, const Mask &mask) {
  std::vector<HeadGroup> groups;
  for (const json &source : *fields.find("over")) {
    bool good = source.is_object() && source.contains("stream") &&
                source.size() == (source.contains("mask") ? 2 : 1);
    fields.refuse(!good, "{\"stream\": name} or {\"stream\": name, \"mask\": mask} in \"over\"",
                  source.dump());
    Fields own(source, nullptr, "a source");
    groups.push_back({own.text("stream"), 1, own.find("mask") ? readMask(own) : mask});
  }
  fields.refuse(groups.empty(), "a stream in \"over\"", "none");
  return groups;
}

inline Layer readLayer(const Fields &fields) {
  Layer layer;
  layer.preNorm = fields.choice("placement", {"pre", "post"}) == 0;
  layer.gated =
      fields.choice("activation", {"gelu", "relu", "gelu_tanh", "swiglu", "relu_squared"}) == 3;
  bool blocks = fields.dropsOut("dropout"), weights = fields.dropsOut("attention_dropout");
  layer.dropsOut = blocks || weights;
  layer.mask = readMask(fields);
  readRelative(fields, layer);
  layer.groups = readScales(fields);
  if (const json *lsh = fields.find("lsh"); lsh && *lsh != false) { // a part of what is causal
    layer.isHashed = lsh->is_object() && Fields(*lsh, nullptr, "lsh").boolean("causal", true);
    fields.refuse(!layer.isHashed || layer.mask.kind != Mask::Causal || layer.isXl,
                  "causal ranks, a causal mask and no distances with \"lsh\"", lsh->dump());
  }
  return layer;
}

/// From both ends, around one level in the middle.
inline bool readsTheSame(const std::vector<Level> &levels) {
  auto isAlike = [](const Level &a, const Level &b) { return a.factor == b.factor; };
  return levels.size() % 2 == 1 &&
         std::equal(levels.begin(), levels.end(), levels.rbegin(), isAlike);
}

/// LAYERS@FACTOR, separated by spaces.
inline std::vector<Level> readLevels(const Fields &fields) {
  std::string text = fields.text("hierarchy"), word;
  std::vector<Level> levels;
  auto number = [&](std::string_view digits, int64_t least, int64_t most) {
    int64_t value = 0;
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    fields.refuse(error != std::errc() || end != digits.data() + digits.size() || value < least ||
                      value > most,
                  "levels LAYERS@FACTOR", text);
    return value;
  };
  for (std::istringstream words(text); words >> word;) {
    size_t at = std::min(word.find('@'), word.size() - 1);
    std::string_view view = word;
    levels.push_back(
        {number(view.substr(0, at), 0, 10000), number(view.substr(at + 1), 1, largestNumber)});
  }
  fields.refuse(levels.size() > 63 || (levels.size() == 1 && levels[0].layers == 0),
                "at most 63 levels, and a layer where there is one", text);
  return levels;
}

/// "2@1 8@4 2@1"
inline std::vector<Level> readHierarchy(const Fields &fields) {
  std::vector<Level> levels = readLevels(fields);
  bool good = !levels.empty() && levels.front().factor == 1 && levels.back().factor == 1;
  bool falls = false, same = good && readsTheSame(levels);
  for (size_t i = 1; good && i < levels.size(); ++i) {
    int64_t a = levels[i - 1].factor, b = levels[i].factor;
    good = (same || a != b) && std::max(a, b) % std::min(a, b) == 0 && !(falls && a < b);
    falls |= a > b;
  }
  fields.refuse(!good,
                "levels from factor 1 inwards and back, each factor a multiple of the one "
                "outside it",
                fields.text("hierarchy"));
  return levels;
}

/// "2@16 4@4 8@1", or, where it rises, "9@1 9@4 8@16"
inline std::vector<Level> readOneWay(const Fields &fields, bool rises) {
  std::vector<Level> levels = readLevels(fields);
  bool good =
      levels.size() >= (rises ? 2U : 1U) && (rises ? levels.front() : levels.back()).factor == 1;
  for (size_t i = 1; good && i < levels.size(); ++i) {
    int64_t fine = levels[rises ? i - 1 : i].factor, coarse = levels[rises ? i : i - 1].factor;
    good = coarse % fine == 0 && !(rises && coarse == fine);
  }
  fields.refuse(!good,
                "levels " + std::string(rises ? "from" : "down to") +
                    " factor 1, each factor a multiple of the finer one beside it",
                fields.text("hierarchy"));
  return levels;
}

/// Whether a shift's first rows are a trained one: then it is stored.
inline bool learnsStart(const Fields &fields) {
  return fields.choice("start", {"zeros", "null"}) == 1;
}

/// Whether a map of the projection's sum has code of its own.
inline bool isActivated(const Fields &fields, const std::string &key) {
  return fields.choice(key, {"none", "relu", "gelu", "gelu_tanh", "relu_squared"}) > 0;
}

} // namespace certify
