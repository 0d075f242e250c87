// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Layers whose heads are grouped, and bottom_up, which ends in one.
#include "Deriver.h"

using namespace certify;

/// Each group has queries of x, keys and values of its source, and columns of the output map; the
/// results are summed.
size_t Deriver::mixGroups(const Layer &layer, const std::string &path, size_t x,
                          const std::vector<size_t> &sources) {
  std::vector<size_t> outputs;
  for (size_t i = 0; i < layer.groups.size(); ++i) {
    const HeadGroup &group = layer.groups[i];
    std::string part = path + "." + std::to_string(i);
    size_t keys = sources.empty() ? x : sources[i];
    if (sources.empty() && group.factor > 1) {
      if (graph.values[x].factor * group.factor > largestNumber) {
        fail(part, "scales of at most 2^31 - 1 tokens a position", "more");
      }
      bool isMoving = group.mask.step > 1;
      keys = make("shorten", part + ".shorten", {x}, isMoving ? 1 : group.factor, group.factor);
    } else if (!sources.empty() && layer.preNorm) {
      keys = norm(part + ".over", keys);
    }
    size_t query = make("linear", part + ".query", {x});
    keys = make("linear", part + ".kv", {keys});
    size_t mixed = attend(part + ".mix", {query, keys, keys}, group.mask);
    outputs.push_back(make("linear", part + ".output", {mixed}));
  }
  return outputs.size() == 1 ? outputs[0] : make("map", path + ".output.sum", outputs);
}

/// Coarse scales, a layer over all of them, fine layers.
size_t Deriver::bottomUp(const Fields &fields, const std::string &path, size_t x) {
  bool folds = isLinear(fields.choice("shorten", shortenMethods));
  std::vector<Level> levels = readOneWay(fields, true);
  Layer settings = readLayer(fields), gathers = settings;
  fields.refuse(!settings.groups.empty(), "no \"scales\" in a bottom_up stage", "some");
  gathers.isXl = false;
  bool repooled = fields.choice("pooling", {"cascaded", "repooled"}) == 1;
  Names next{path};
  std::vector<size_t> scales;
  for (size_t i = 1, finer = x; i < levels.size(); ++i) {
    int64_t factor = repooled ? levels[i].factor : levels[i].factor / levels[i - 1].factor;
    int64_t window = fields.integer("shorten_window", 1, factor);
    finer = shorten(next(), factor, window, folds, repooled ? x : finer);
    finer = stack(settings, levels[i].layers, next, finer);
    scales.push_back(finer);
    gathers.groups.push_back({"the scale", 1, {Mask::Complete, 0, 0}});
  }
  x = layer(gathers, next(), x, scales);
  return stack(settings, levels[0].layers, next, x);
}

/// Scales from the coarsest down: groups of the stage's own input, beside them what the scale above
/// made of the last group that ended.
size_t Deriver::topDown(const Fields &fields, const std::string &path, size_t input) {
  std::vector<Level> levels = readOneWay(fields, false);
  Layer settings = readLayer(fields);
  fields.refuse(!settings.groups.empty(), "no \"scales\" in a top_down stage", "both");
  bool folds = isLinear(fields.choice("shorten", shortenMethods));
  bool unfolds = fields.choice("upsample", {"repeat", "linear"}) == 1;
  bool activated = isActivated(fields, "projection_activation"), learns = learnsStart(fields);
  Names next{path};
  int64_t before = 0;
  size_t above = input;
  for (const Level &level : levels) {
    bool joins = before > 0;
    int64_t ratio = joins ? before / level.factor : 1;
    if (joins) {
      above = upsample(next(), ratio, unfolds, above, fields);
      above = shift(next(), ratio - 1, learns, above);
    }
    int64_t k = level.factor, window = fields.integer("shorten_window", 1, k);
    size_t x = k > 1 ? shorten(next(), k, window, folds, input) : input;
    x = joins ? project(next(), x, above, activated) : x;
    settings.mask.from = learns ? 0 : levels[0].factor / level.factor - 1;
    x = stack(settings, level.layers, next, x);
    if (level.factor > 1 && fields.find("bags")) {
      nameLoss("bag_" + std::to_string(level.factor), fields, x);
      score(Fields(json::object(), nullptr, path), next(), "loss", x);
    }
    above = x;
    before = level.factor;
  }
  return above;
}
