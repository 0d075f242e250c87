// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Derives values of data-dependent segments: their ends, and the ops to segments and back.
#include "Deriver.h"

using namespace certify;

/// Derives rounded bits from two linear maps.
size_t Deriver::bitsOfPredictor(const std::string &path, size_t x) {
  x = make("map", path + ".activation",
           {make("linear", path + ".in", {stored(path + ".rows", x)})});
  return make("map", path + ".bits", {make("linear", path + ".out", {x})});
}

/// Compares a row with the row before.
size_t Deriver::chancesOfRouter(const std::string &path, size_t x) {
  x = stored(path + ".rows", x);
  size_t query = make("linear", path + ".own", {x});
  size_t key = earlier(path + ".before", make("linear", path + ".previous", {x}));
  size_t both = product(path + ".cosine", query, key);
  size_t queries = product(path + ".own.square", query, query);
  size_t keys = product(path + ".previous.square", key, key);
  return make("map", path + ".column", {make("map", path + ".distance", {both, queries, keys})});
}

/// Derives the inner product of rows.
size_t Deriver::product(const std::string &name, size_t x, size_t y) {
  return make("map", name, {make("map", name + ".terms", {x, y})});
}

/// Derives bits of tokens; for segments, the bits of their last tokens. With `begins`, the rows
/// after these have them.
size_t Deriver::tokenBits(const std::string &name, std::optional<size_t> outer, size_t tokens,
                          std::optional<bool> begins) {
  const SegmentCut *cut = outer ? &cutsAt[*outer] : nullptr;
  std::optional<size_t> next = cut ? graph.values[cut->bits].segments : outer;
  size_t bits = cut ? tokenBits(name, next, tokens, begins ? std::optional(cut->begins) : begins)
                    : make("embed", name, {tokens});
  bits = cut ? atEnds(name, stored(name + ".rows", bits), *outer) : bits;
  return begins.value_or(false) && !(cut && cut->begins) ? earlier(name + ".before", bits) : bits;
}

/// Sets the bit of the first row.
size_t Deriver::withFirst(const std::string &path, size_t bits) {
  size_t first = convertToScale(bits, make("position", path + ".first", {}));
  return make("map", path + ".begun", {bits, first});
}

/// Derives bits from a loss's softmax and earlier rows, with a row for each token.
size_t Deriver::bitsOfEntropy(const Fields &fields, const std::string &path) {
  auto asked = lossRows.find(fields.text("loss"));
  fields.need(asked != lossRows.end() && asked->second && graph.values[*asked->second].factor == 1,
              "an earlier loss of the tokens' scale");
  size_t x = make("linear", path + ".logits", {stored(path + ".rows", *asked->second)});
  std::vector<size_t> rows = {make("map", path + ".entropy", {x})};
  int64_t most = fields.integer("spike", 1, fields.find("rise") ? 1 : 0);
  for (int64_t by = 1; by <= most; ++by) {
    rows.push_back(earlier(path + ".entropy.before." + std::to_string(by), rows[0], by));
  }
  if (fields.find("spike")) {
    rows.push_back(convertToScale(rows[0], make("position", path + ".rule.first", {})));
  }
  return make("map", path + ".rule", rows);
}

/// Derives bits from products of a row with the rows before it, at most `window` rows away.
size_t Deriver::bitsOfCodingRate(const Fields &fields, const std::string &path, size_t x) {
  x = make("map", path + ".rate.rows", {x});
  std::vector<size_t> products;
  for (int64_t lag = 0, window = fields.integer("window", 1, 4); lag <= window; ++lag) {
    std::string part = path + ".rate." + std::to_string(lag);
    size_t own = product(part, x, lag == 0 ? x : earlier(part + ".rows", x, lag));
    products.push_back(own);
    for (int64_t by = 1; by + lag <= window; ++by) {
      products.push_back(earlier(part + ".before." + std::to_string(by), own, by));
    }
  }
  return make("map", path + ".rule", {make("map", path + ".rate", products)});
}

/// Derives bits of the tokens, by position or predicted; their counts, and the ends of segments.
size_t Deriver::boundaries(const Fields &fields, const std::string &path, size_t x) {
  std::string name = fields.text("name");
  bool predicts = fields.find("predictor"), isGiven = graph.values[x].isGiven;
  fields.need(inputs.empty() || isGiven, "segments of an input in a model with inputs");
  int64_t factor = graph.values[x].factor;
  std::optional<size_t> outer = graph.values[x].segments;
  bool routes = fields.find("ratio"), hasRule = !routes && (!predicts || fields.find("rule"));
  auto rule = hasRule ? fields.choice("rule", {"whitespace", "every", "space_like", "labels",
                                               "entropy", "coding_rate", "bits"})
                      : 0;
  bool isEvery = rule == 1, begins = fields.choice("at", {"end", "start"}) == 1;
  bool readsTokens = (hasRule && !isEvery && rule != 5) || fields.find("document_end");
  fields.need(!cuts.contains(name) && (factor == 1 || (!outer && !readsTokens)) &&
                  (rule != 4 || !outer),
              "a scale that can be cut, and a name of its own");
  axis.clear();
  size_t tokens = isGiven ? inputs[rule == 6 ? fields.text("bits") : graph.values[x].input] : 0;
  auto ended = [&](size_t bits) {
    return !fields.find("document_end")
               ? bits
               : make("map", path + ".ended",
                      {bits, tokenBits(path + ".document_end", outer, 0, begins)});
  };
  size_t chances = routes ? withFirst(path, ended(chancesOfRouter(path, x))) : 0;
  size_t bits = routes      ? make("map", path + ".bits", {chances})
                : predicts  ? bitsOfPredictor(path, x)
                : isEvery   ? make("position", path + ".rule", {})
                : rule == 4 ? bitsOfEntropy(fields, path)
                : rule == 5 ? bitsOfCodingRate(fields, path, x)
                            : tokenBits(path + ".rule", outer, tokens);
  convertToScale(x, bits);
  if (rule == 2 && !predicts) { // after a token without one
    bits = make("map", path + ".change", {bits, earlier(path + ".before", bits)});
  }
  bits = routes ? bits : ended(bits);
  bits = begins && !routes && (predicts || !isEvery) ? withFirst(path, bits) : bits;
  if (fields.find("longest")) { // counts rows since the last bit
    size_t before = stored(path + ".longest.rows", earlier(path + ".longest.before", bits));
    bits = make("map", path + ".longest",
                {bits, make("recurrence", path + ".longest.count", {before})});
  }
  if (outer) { // no bits after the last closed segment
    size_t closed = atEnds(path + ".closed", ones(path, cutsAt[*outer]), *outer);
    bits = make("map", path + ".cut", {bits, closed});
  }
  size_t counts = make("segment_counts", path + ".segment", {bits});
  size_t ends = make("segment_ends", path + ".segment", {bits});
  graph.values[ends].segments = ends;
  graph.values[ends].factor = 1;
  // Labels and maximum rates depend on later tokens: no stage can name streams that they cut.
  bool looksAhead = rule == 3 || fields.find("top");
  cuts[looksAhead && !predicts ? "" : name] = cutsAt[ends] = {bits, counts, ends, begins, chances};
  return x;
}

/// Derives rows at the ends of segments.
size_t Deriver::atEnds(const std::string &name, size_t x, size_t outer) {
  return convertToScale(outer, make("select_segments", name, {x, cutsAt[outer].counts, outer}));
}

/// Returns rows on the scale that segments cut: each is the row of the segment `by` before its own.
size_t Deriver::spread(const std::string &name, const Fields &fields, size_t x,
                       const SegmentCut &cut) {
  bool isOwn = fields.get("method", "") == "own";
  int64_t by = fields.integer("by", 0, isOwn ? 0 : 1);
  return isOwn ? ownRows(name, x, cut, by)
               : convertToScale(cut.bits, make("spread_segments", name, {x, cut.counts, cut.ends},
                                               behind(1), by));
}

const Deriver::SegmentCut &Deriver::findCut(const Fields &fields) const {
  auto found = cuts.find(fields.text("segments"));
  fields.need(found != cuts.end(), "the name of earlier segments");
  return found->second;
}

/// Derives sums or means of segments.
size_t Deriver::pooled(const std::string &name, size_t x, const SegmentCut &cut) {
  x = cut.resamples ? make("resample", name, {x}, "keys all")
                    : make("pool_segments", name, {x, cut.bits, cut.counts, cut.ends});
  return convertToScale(cut.ends, x);
}

size_t Deriver::ownRows(const std::string &name, size_t x, const SegmentCut &cut, int64_t by) {
  x = cut.resamples ? make("resample", name, {x}, "keys all")
                    : make("own_segments", name, {x, cut.counts, cut.ends}, behind(1), by);
  return convertToScale(cut.bits, x);
}

/// Derives attention to any keys or, with a cut, to the rows of the row's own segment.
size_t Deriver::attendRange(const std::string &name, std::vector<size_t> x, const SegmentCut *cut) {
  size_t next = cut ? make("map", name + ".next", {cut->ends}) : 0;
  for (int64_t by = 1; cut && by >= 0; --by) {
    x.push_back(ownRows(name + (by == 1 ? ".first" : ".end"), next, *cut, by));
  }
  return make("range_attention", name, x, "keys all");
}

/// Weighs rows by a function of one number each.
size_t Deriver::gated(const std::string &path, size_t x, size_t numbers) {
  size_t gate = make("map", path + ".gate.number", {make("map", path + ".gate", {numbers})});
  return make("map", path + ".gated", {x, make("map", path + ".gate.wide", {gate})});
}

/// Derives rows of segments from tokens, or tokens from rows of segments.
size_t Deriver::throughCut(const std::string &op, const Fields &fields, const std::string &path,
                           size_t x) {
  bool isPool = op == "shorten";
  fields.need(!fields.find("factor") && !fields.find("window"), "no groups with segments");
  const SegmentCut &cut = findCut(fields);
  const ModelValue &on = graph.values[isPool ? cut.bits : cut.ends];
  fields.need(graph.values[x].isOnScale(on),
              "a stream of tokens to pool, or of these segments to spread");
  auto method = isPool ? fields.choice("method", {"average", "sum", "normalized", "last", "first",
                                                  "max", "stack"})
                       : fields.choice("method", {"repeat", "scatter", "smooth", "own"});
  bool isMaximum = isPool && method == 5;
  // Derives a mean or maximum of the rows from e(m - 1) to before e(m).
  bool isLate = isPool && (method < 3 || isMaximum) && cut.begins;
  x = stored(path + ".rows", isLate ? earlier(path + ".before", x) : x);
  if (!isPool && method == 2) { // moving averages
    size_t left = make("map", path + ".number", {atEnds(path + ".chance", cut.chances, cut.ends)});
    left = make("map", path + ".left", {left});
    x = make("map", path + ".own", {x, make("map", path + ".left.wide", {left})});
    x = scan(path + ".smooth", x, left);
  }
  if (isPool && method > 4) { // by the rows of its segment up to it
    size_t open = earlier(path + ".open", make("map", path + ".unset", {cut.bits}));
    open = isMaximum ? make("map", path + ".left", {open}) : stored(path + ".open.rows", open);
    size_t places = isMaximum ? 0 : make("recurrence", path + ".places", {open});
    x = isMaximum
            ? scan(path + ".greatest", x, open)
            : make("map", path + ".place", {x, make("map", path + ".place.number", {places})});
  }
  if (isPool && method > 2 && method < 6) {
    return atEnds(path + ".pool", x, cut.ends);
  }
  x = isPool ? pooled(path + ".pool", x, cut) : spread(path + ".spread", fields, x, cut);
  if (isPool) {
    return method == 2 ? gated(path, x, pooled(path + ".sizes", ones(path, cut), cut)) : x;
  }
  return method == 0 || method == 3 ? x : gated(path, x, method == 1 ? cut.bits : cut.chances);
}

/// Derives attention of a segment's parts over its rows, or of rows over a segment's parts.
size_t Deriver::attendCut(const Fields &fields, const std::string &path, size_t x) {
  const SegmentCut &cut = findCut(fields);
  size_t y = stream(fields.text("over"), fields);
  auto isOn = [&](size_t value, size_t as) {
    return graph.values[value].isOnScale(graph.values[as]);
  };
  bool asks = isOn(x, cut.ends);
  fields.need(isOn(x, asks ? cut.ends : cut.bits) && isOn(y, asks ? cut.bits : cut.ends),
              "a stream of segments, and one of what they cut");
  x = stored(path + ".rows", x);
  size_t own = norm(path + ".own", x);
  y = norm(path + ".over", stored(path + ".over.rows", y));
  auto linear = [&](const std::string &part, size_t of) {
    return make("linear", path + "." + part, {of});
  };
  auto rows = [&](const std::string &part) {
    size_t made = linear(part, y);
    std::string name = path + "." + part;
    return cut.begins ? stored(name + ".rows", earlier(name + ".before", made)) : made;
  };
  auto spreadOver = [&](const std::string &name) {
    return spread(path + "." + name + ".spread", fields, linear(name, y), cut);
  };
  std::vector<size_t> terms = {x}, mixed = {asks ? rows("key") : linear("query", own)}, values;
  size_t value = asks ? rows("value") : 0;
  for (int64_t i = 0; i < fields.integer("parts", 1, 1); ++i) {
    std::string part = "." + std::to_string(i);
    if (asks) {
      size_t query = linear("query" + part, own);
      query = make("attend_segments", path + ".mix" + part,
                   {query, mixed[0], value, cut.counts, cut.ends});
      terms.push_back(linear("output" + part, query));
    } else {
      mixed.push_back(spreadOver("key" + part));
      values.push_back(spreadOver("value" + part));
    }
  }
  mixed.insert(mixed.end(), values.begin(), values.end());
  if (!asks) {
    terms.push_back(linear("output", make("map", path + ".mix", mixed)));
  }
  return make("map", path + ".sum", terms);
}
