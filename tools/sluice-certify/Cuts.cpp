// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Segments that data decides: where they end, and the way there and back.
#include "Deriver.h"

using namespace certify;

/// Two linear maps with an activation between, rounded. Without a rule to learn from, training
/// draws bits.
size_t Deriver::bitsOfPredictor(const Fields &fields, const std::string &path, size_t x) {
  dropout |= !fields.find("rule");
  x = make(Kind::Linear, path + ".in", {stored(path + ".rows", x)});
  x = make(Kind::Map, path + ".activation", {x});
  return make(Kind::Map, path + ".bits", {make(Kind::Linear, path + ".out", {x})});
}

/// Bits of the tokens, by their place, or predicted; their counts, and the ends of segments.
void Deriver::boundaries(const Fields &fields, const std::string &path, size_t x) {
  std::string name = fields.text("name");
  bool predicts = fields.find("predictor");
  if (!inputs.empty()) {
    fields.mismatch("segments in a model without inputs", "\"" + name + "\"");
  }
  int64_t factor = graph.values[x].factor;
  std::optional<size_t> outer = graph.values[x].segments;
  bool hasRule = !predicts || fields.find("rule");
  bool isEvery = hasRule && fields.choice("rule", {"whitespace", "every"}) == 1;
  if (cuts.contains(name) || (factor != 1 && (outer || (hasRule && !isEvery)))) {
    fields.mismatch("a scale that can be cut, and a name of its own", "\"" + name + "\"");
  }
  axis.clear();
  size_t bits = predicts  ? bitsOfPredictor(fields, path, x)
                : isEvery ? make(Kind::Position, path + ".rule", {})
                          : tokenBits(path, outer);
  graph.values[bits].factor = factor;
  graph.values[bits].segments = outer;
  if (outer) { // no bits behind the last segment that has ended
    size_t ones = make(Kind::Map, path + ".ones", {cutsAt[*outer].bits});
    bits = make(Kind::Map, path + ".cut", {bits, atEnds(path + ".closed", ones, *outer)});
  }
  size_t counts = make(Kind::Counts, path + ".segment", {bits});
  size_t ends = make(Kind::Ends, path + ".segment", {bits});
  graph.values[ends].segments = ends;
  graph.values[ends].factor = 1;
  cuts[name] = cutsAt[ends] = {bits, counts, ends};
}

/// A segment's bit is that of the token that ends it.
size_t Deriver::tokenBits(const std::string &path, std::optional<size_t> outer) {
  return outer ? atEnds(path + ".rule", tokenBits(path, graph.values[cutsAt[*outer].bits].segments),
                        *outer)
               : make(Kind::Embed, path + ".rule", {0});
}

/// Rows at the ends of segments.
size_t Deriver::atEnds(const std::string &name, size_t x, size_t outer) {
  size_t result = make(Kind::Select, name, {x, cutsAt[outer].counts, outer});
  graph.values[result].segments = outer;
  graph.values[result].factor = 1;
  return result;
}

/// From tokens to segments, or back.
size_t Deriver::throughCut(const std::string &op, const Fields &fields, const std::string &path,
                           size_t x) {
  auto found = cuts.find(fields.text("segments"));
  bool isPool = op == "shorten";
  if (found == cuts.end() || fields.find("factor") || fields.find("window")) {
    fields.mismatch("the name of earlier segments, and no groups beside them",
                    "\"" + fields.text("segments") + "\"");
  }
  Cut cut = found->second;
  const Value &on = graph.values[isPool ? cut.bits : cut.ends];
  bool fits = graph.values[x].factor == on.factor && graph.values[x].segments == on.segments;
  if (!fits) {
    fields.mismatch("a stream of tokens to pool, or of these segments to spread", "another");
  }
  x = stored(path + ".rows", x);
  if (isPool && fields.choice("method", {"average", "last"}) == 1) {
    return atEnds(path + ".pool", x, cut.ends);
  }
  if (!isPool) {
    fields.choice("method", {"repeat"});
  }
  size_t result = isPool ? make(Kind::Pool, path + ".pool", {x, cut.bits, cut.counts, cut.ends})
                         : make(Kind::Spread, path + ".spread", {x, cut.counts, cut.ends},
                                fields.integer("by", 0, 1));
  const Value &as = graph.values[isPool ? cut.ends : cut.bits];
  graph.values[result].segments = as.segments;
  graph.values[result].factor = as.factor;
  return result;
}
