// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Layers whose heads are grouped, and the composite stage that ends in one: docs/spec.md, "Groups
// of heads" and "bottom_up". `make(kind, name, operands, number, window = 0)` appends a value.
#pragma once

#include "Fields.h"

namespace certify {

/// "over" as a list: a stream and a mask each, the layer's where it has none.
inline std::vector<HeadGroup> readSources(const Fields &fields, const Mask &mask) {
  std::vector<HeadGroup> groups;
  for (const json &source : *fields.find("over")) {
    bool good = source.is_object() && source.contains("stream") &&
                source.size() == (source.contains("mask") ? 2 : 1);
    if (!good) {
      fields.mismatch("{\"stream\": name} or {\"stream\": name, \"mask\": mask} in \"over\"",
                      source.dump());
    }
    Fields own(source, nullptr, "a source");
    groups.push_back({own.text("stream"), 1, own.find("mask") ? readMask(own) : mask});
  }
  if (groups.empty()) {
    fields.mismatch("a stream in \"over\"", "none");
  }
  return groups;
}

/// Attention at `path` of x. Each group has queries of x, keys and values of its source, and
/// columns of the output map; the results are summed. `attend(name, query, keys, mask)` appends an
/// attention.
template <typename Make, typename Attend>
size_t mixGroups(const Layer &layer, const std::string &path, size_t x,
                 const std::vector<size_t> &sources, Make make, Attend attend) {
  std::vector<size_t> outputs;
  for (size_t i = 0; i < layer.groups.size(); ++i) {
    const HeadGroup &group = layer.groups[i];
    std::string part = path + "." + std::to_string(i);
    size_t keys = sources.empty() ? x : sources[i];
    if (sources.empty() && group.factor > 1) {
      bool isMoving = group.mask.step > 1;
      keys = make(Kind::Shorten, part + ".shorten", {x}, isMoving ? 1 : group.factor,
                  isMoving ? group.factor : 0);
    }
    if (!sources.empty() && layer.preNorm) {
      keys = make(Kind::Norm, part + ".over.norm", {keys}, 0);
    }
    size_t query = make(Kind::Linear, part + ".query", {x}, 0);
    keys = make(Kind::Linear, part + ".kv", {keys}, 0);
    size_t mixed = attend(part + ".mix", query, keys, group.mask);
    outputs.push_back(make(Kind::Linear, part + ".output", {mixed}, 0));
  }
  return outputs.size() == 1 ? outputs[0] : make(Kind::Map, path + ".output.sum", outputs, 0);
}

/// "9@1 9@4 8@16"
inline std::vector<Level> readRising(const Fields &fields) {
  std::vector<Level> levels = readLevels(fields);
  bool good = levels.size() >= 2 && levels.size() <= 63 && levels[0].factor == 1;
  for (size_t i = 1; good && i < levels.size(); ++i) {
    good = levels[i].factor > levels[i - 1].factor && levels[i].factor % levels[i - 1].factor == 0;
  }
  if (!good) {
    fields.mismatch("levels of rising factors from 1 on, each a multiple of the one before",
                    fields.text("hierarchy"));
  }
  return levels;
}

/// The bottom_up stage of x: coarse scales, a layer over all of them, fine layers. `shorten(path,
/// factor, x)`, `layer(settings, path, x, sources)` and `norm(path, x)` append stages.
template <typename Shorten, typename MakeLayer, typename MakeNorm>
size_t bottomUp(const Fields &fields, const std::string &path, size_t x, Shorten shorten,
                MakeLayer layer, MakeNorm norm) {
  std::vector<Level> levels = readRising(fields);
  Layer settings = readLayer(fields), gathers = settings;
  if (!settings.groups.empty()) {
    fields.mismatch("no \"scales\" in a bottom_up stage", "some");
  }
  gathers.isXl = false;
  bool repooled = fields.choice("pooling", {"cascaded", "repooled"}) == 1;
  int64_t count = 0;
  auto next = [&] { return path + ".inside." + std::to_string(count++); };
  auto stack = [&](int64_t layers, size_t y) {
    for (int64_t i = 0; i < layers; ++i) {
      y = layer(settings, next(), y, std::vector<size_t>());
    }
    return layers > 0 && settings.preNorm ? norm(next(), y) : y;
  };
  std::vector<size_t> scales;
  for (size_t i = 1, finer = x; i < levels.size(); ++i) {
    int64_t factor = repooled ? levels[i].factor : levels[i].factor / levels[i - 1].factor;
    finer = stack(levels[i].layers, shorten(next(), factor, repooled ? x : finer));
    scales.push_back(finer);
    gathers.groups.push_back({"the scale", 1, {Mask::Complete, 0, 0}});
  }
  return stack(levels[0].layers, layer(gathers, next(), x, scales));
}

} // namespace certify
