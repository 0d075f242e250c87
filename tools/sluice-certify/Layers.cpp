// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Layers: norms, attention and feed-forward blocks, with their own keys or keys of other streams.
// Stages of several scales: hourglasses, top_down and bottom_up, whose operands are numbered in
// order.
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
  x = !settings.within.empty() ? attendRange(path + ".mix", operands, &cuts.at(settings.within))
                               : attend(path + ".mix", std::move(operands), settings.mask,
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
  graph.values[result].others = distances;
  return result;
}

size_t Deriver::layer(const Layer &settings, const std::string &path, size_t x,
                      const std::vector<size_t> &over) {
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

size_t Deriver::stack(const Layer &settings, int64_t layers, StageNames &next, size_t x,
                      bool norms) {
  for (int64_t i = 0; i < layers; ++i) {
    x = layer(settings, next(), x);
  }
  return norms && layers > 0 && settings.preNorm ? norm(next(), x) : x;
}

/// Derives an attention block with queries, keys and values of three streams, each normed once.
size_t Deriver::attention(const Fields &fields, const std::string &path, size_t x) {
  Layer settings = readLayer(fields);
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

/// Derives half the sum of attention over rows and over their segments, with sums of values.
size_t Deriver::rectified(const Fields &fields, const std::string &path, size_t x) {
  size_t words = stream(fields.text("words"), fields), values = 0;
  fields.need(graph.values[words].segments.has_value(), "a stream of segments for \"words\"");
  SegmentCut cut = cutsAt[*graph.values[words].segments];
  cut.resamples = fields.choice("expand", {"own", "nearest", "linear"}) > 0;
  std::string name = path + ".attention";
  auto mixed = [&](const std::string &part, size_t rows) {
    size_t query = make("linear", part + ".query", {rows});
    size_t keys = make("linear", part + ".key", {rows});
    values = part == name ? make("linear", part + ".value", {rows})
                          : pooled(part + ".value", values, cut);
    std::vector<size_t> operands = {query, keys, values, query};
    operands.resize(fields.isSet("vectors", 0) ? 4 : 3);
    return attend(part + ".mix", operands, {Mask::Bidirectional});
  };
  size_t own = norm(name, x), coarse = norm(name + ".words", words);
  own = mixed(name, own);
  coarse = ownRows(name + ".words.spread", mixed(name + ".words", coarse), cut);
  own = make("linear", name + ".output", {make("map", name + ".half", {own, coarse})});
  return make("map", name + ".sum", {x, own});
}

/// Derives a layer with keys and values from its own stream, or from other streams.
size_t Deriver::singleLayer(const Fields &fields, const std::string &path, size_t x) {
  Layer settings = readLayer(fields);
  settings.attends = fields.text("op") != "feed_forward";
  fields.need(settings.within.empty() || cuts.contains(settings.within), "earlier segments");
  std::vector<size_t> sources;
  if (const json over = fields.get("over", json::array()); !over.is_array()) {
    sources = {stream(fields.text("over"), fields)};
  } else if (fields.find("over")) {
    settings.groups.clear();
    for (const json &source : over) {
      Fields own(source, nullptr, "a source");
      own.needKeys("stream mask");
      settings.groups.push_back({1, own.find("mask") ? readMask(own) : settings.mask});
      sources.push_back(stream(own.text("stream"), fields));
    }
    fields.need(!sources.empty(), "a stream in \"over\"");
  }
  return layer(settings, path, x, sources);
}

enum : size_t { AttentionUp = 2, AttentionDown = 4 }; // methods from these on attend

/// Goes down from level to level, each shortened from the previous one, and then up. Adds the
/// stream of a level on the way down when the way up returns to its factor.
class Deriver::Hourglass {
public:
  Hourglass(const Fields &fields, Deriver &make) : fields(fields), make(make) {
    fields.need(levels.front().factor == 1 && levels.back().factor == 1,
                "levels from factor 1 inwards and back");
    auto first = std::ranges::max_element(levels, {}, &FieldLevel::factor);
    auto last = std::ranges::max_element(levels.rbegin(), levels.rend(), {}, &FieldLevel::factor);
    bottom = static_cast<size_t>(first - levels.begin() + (levels.rend() - last - 1)) / 2;
    up = bottom + 1;
  }

  /// Expands from level `at` inwards and back to its factor.
  size_t descend(size_t at, const std::string &path, size_t x) {
    StageNames next{path};
    x = make.stack(settings, levels[at].layers, next, x);
    if (at == bottom) {
      return x;
    }
    size_t left = x;
    x = goDown(levels[at + 1].factor / levels[at].factor, next, x);
    factor = levels[at + 1].factor;
    x = at + 1 == bottom ? make.stack(settings, levels[bottom].layers, next, x)
                         : descend(at + 1, next(), x);
    bool returns = false;
    while (!returns && up < levels.size() && levels[up].factor >= levels[at].factor) {
      FieldLevel level = levels[up++];
      returns = level.factor == levels[at].factor;
      x = goUp(factor / level.factor, next, x, returns ? std::optional(left) : std::nullopt);
      factor = level.factor;
      x = make.stack(settings, level.layers, next, x);
    }
    return x;
  }

private:
  /// A layer between scales reads streams that a pre-norm hourglass has normed already.
  Layer resampler(Mask mask) const {
    Layer layer = settings;
    layer.attentionNorm = !settings.preNorm;
    layer.mask = mask;
    return layer;
  }

  size_t goDown(int64_t k, StageNames &next, size_t x) {
    bool attends = down >= AttentionDown, linear = isLinear(down);
    x = attends && settings.preNorm ? make.norm(next(), x) : x;
    size_t late = shiftsOutput ? x : make.shift(next(), findShift(k), learns, x);
    size_t groups =
        make.shorten(next(), k, fields.integer("shorten_window", 1, k), linear, late, fills);
    if (!attends) {
      return groups;
    }
    groups = settings.preNorm ? make.norm(next(), groups) : groups;
    Mask mask = isGroupAlone ? Mask{Mask::Window, 0, k} : Mask{};
    return make.layer(resampler(mask), next(), groups, {x});
  }

  size_t repeat(int64_t k, StageNames &next, size_t x) {
    x = make.upsample(next(), k, isLinear(upwards), x, fields);
    return normsUp ? make.norm(next(), x) : x;
  }

  size_t goUp(int64_t k, StageNames &next, size_t x, std::optional<size_t> skip) {
    if (upwards < AttentionUp) {
      x = repeat(k, next, x);
      x = shiftsOutput ? make.shift(next(), findShift(k), learns, x) : x;
      return skip ? make.add(next(), x, *skip) : x;
    }
    fields.need(skip.has_value(), "a stream that was shortened here, for attention to upsample");
    x = settings.preNorm ? make.norm(next(), x) : x;
    size_t queries = *skip;
    if (upwards > AttentionUp) {
      size_t fine = repeat(k, next, x);
      queries = make.add(next(), fine, *skip);
    }
    x = make.layer(resampler({}), next(), queries, {x});
    x = settings.preNorm ? make.norm(next(), x) : x;
    return make.add(next(), x, *skip);
  }

  int64_t findShift(int64_t k) const { return fields.integer("shift", 0, k - 1); }

  const Fields &fields;
  Deriver &make;
  std::vector<FieldLevel> levels = readLevels(fields);
  Layer settings = readLayer(fields);
  size_t bottom = 0, up = 0; ///< the middle one of the coarsest; the next one on the way up
  int64_t factor = 1;        ///< reached
  bool learns = learnsStart(fields), fills = fields.choice("start", {"zeros", "null", "norm"}) == 2;
  /// The upsampled rows are shifted, not the shortened ones.
  bool shiftsOutput = fields.choice("shifted", {"input", "output"}) == 1;
  size_t down = fields.choice("shorten", hourglassMethods);
  size_t upwards = fields.choice(
      "upsample", {"repeat", "linear", "attention", "attention_linear", "attention_repeat"});
  bool normsUp =
      fields.isSet("upsample_norm", false) || (settings.preNorm && upwards >= AttentionUp);
  bool isGroupAlone = fields.choice("shorten_keys", {"all", "group"}) == 1;
};

size_t Deriver::hourglass(const Fields &fields, const std::string &path, size_t x) {
  return Hourglass(fields, *this).descend(0, path, x);
}

/// Expands coarse scales, a layer over all of them, and fine layers.
size_t Deriver::bottomUp(const Fields &fields, const std::string &path, size_t x) {
  bool folds = isLinear(fields.choice("shorten", shortenMethods));
  std::vector<FieldLevel> levels = readLevels(fields);
  Layer settings = readLayer(fields), gathers = settings;
  gathers.isXl = false;
  bool repooled = fields.choice("pooling", {"cascaded", "repooled"}) == 1;
  StageNames next{path};
  std::vector<size_t> scales;
  for (size_t i = 1, finer = x; i < levels.size(); ++i) {
    int64_t factor = repooled ? levels[i].factor : levels[i].factor / levels[i - 1].factor;
    int64_t window = fields.integer("shorten_window", 1, factor);
    finer = shorten(next(), factor, window, folds, repooled ? x : finer);
    finer = stack(settings, levels[i].layers, next, finer);
    scales.push_back(finer);
    gathers.groups.push_back({1, {Mask::Complete, 0, 0}});
  }
  x = layer(gathers, next(), x, scales);
  return stack(settings, levels[0].layers, next, x);
}

/// Expands scales from the coarsest down: groups of the input, and the coarser scale's last rows.
size_t Deriver::topDown(const Fields &fields, const std::string &path, size_t input) {
  std::vector<FieldLevel> levels = readLevels(fields);
  Layer settings = readLayer(fields);
  bool folds = isLinear(fields.choice("shorten", shortenMethods));
  bool unfolds = fields.choice("upsample", {"repeat", "linear"}) == 1;
  bool activated = isActivated(fields, "projection_activation"), learns = learnsStart(fields);
  StageNames next{path};
  size_t above = input;
  for (size_t i = 0; i < levels.size(); ++i) {
    const FieldLevel &level = levels[i];
    bool joins = i > 0;
    if (joins) {
      int64_t ratio = levels[i - 1].factor / level.factor;
      above = upsample(next(), ratio, unfolds, above, fields);
      above = shift(next(), ratio - 1, learns, above);
    }
    int64_t k = level.factor, window = fields.integer("shorten_window", 1, k);
    size_t x = k > 1 ? shorten(next(), k, window, folds, input) : input;
    x = joins ? project(next(), x, above, activated) : x;
    settings.mask.from = learns ? 0 : levels[0].factor / level.factor - 1;
    x = stack(settings, level.layers, next, x);
    if (level.factor > 1 && fields.find("bags")) {
      const json bag = {{"op", "loss"}, {"name", "bag_" + std::to_string(level.factor)}};
      score(Fields(bag, nullptr, path), next(), x);
    }
    above = x;
  }
  return above;
}
