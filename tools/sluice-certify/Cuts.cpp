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
  if (graph.values[x].factor != 1 || graph.values[x].segments || cuts.contains(name)) {
    fields.mismatch("a stream on the tokens' scale, and a name of its own", "\"" + name + "\"");
  }
  bool isEvery =
      (!predicts || fields.find("rule")) && fields.choice("rule", {"whitespace", "every"}) == 1;
  axis.clear();
  size_t bits = predicts  ? bitsOfPredictor(fields, path, x)
                : isEvery ? make(Kind::Position, path + ".rule", {})
                          : make(Kind::Embed, path + ".rule", {0});
  size_t counts = make(Kind::Counts, path + ".segment", {bits});
  size_t ends = make(Kind::Ends, path + ".segment", {bits});
  graph.values[ends].segments = ends;
  cuts[name] = {bits, counts, ends};
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
  bool fits = isPool ? graph.values[x].factor == 1 && !graph.values[x].segments
                     : graph.values[x].segments == cut.ends;
  if (!fits) {
    fields.mismatch("a stream of tokens to pool, or of these segments to spread", "another");
  }
  x = stored(path + ".rows", x);
  if (!isPool) {
    fields.choice("method", {"repeat"});
    size_t result =
        make(Kind::Spread, path + ".spread", {x, cut.counts, cut.ends}, fields.integer("by", 0, 1));
    graph.values[result].segments.reset();
    return result;
  }
  bool isLast = fields.choice("method", {"average", "last"}) == 1;
  size_t result = isLast ? make(Kind::Select, path + ".pool", {x, cut.counts, cut.ends})
                         : make(Kind::Pool, path + ".pool", {x, cut.bits, cut.counts, cut.ends});
  graph.values[result].segments = cut.ends;
  return result;
}
