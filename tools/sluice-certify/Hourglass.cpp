// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The stages of an hourglass, in order: their paths are numbered so.
#include "Hourglass.h"

using namespace certify;

namespace {

enum Down : size_t { Linear = 1, Attention = 3, AttentionLinear };
enum Up : size_t { LinearUp = 1, AttentionUp, AttentionLinearUp };
enum Keys : size_t { All, Group };

/// Those of a stage, then attention from two of them.
std::vector<std::string> downMethods() {
  std::vector<std::string> names = shortenMethods;
  names.insert(names.end(), {"attention", "attention_linear"});
  return names;
}

} // namespace

Hourglass::Hourglass(const Fields &fields, const StageMaker &make)
    : make(make), levels(readHierarchy(fields)), settings(readLayer(fields)),
      down(fields.choice("shorten", downMethods())),
      upwards(fields.choice("upsample", {"repeat", "linear", "attention", "attention_linear"})),
      keys(fields.choice("shorten_keys", {"all", "group"})) {
  for (size_t i = 1; i < levels.size(); ++i) {
    bottom = levels[i].factor > levels[bottom].factor ? i : bottom;
  }
  bottom = readsTheSame(levels) ? levels.size() / 2 : bottom;
  if (fields.find("shift")) {
    shift = fields.integer("shift", 0);
  }
  shiftsOutput = fields.choice("shifted", {"input", "output"}) == 1;
  bool attends = down >= Attention || upwards >= AttentionUp, learns = learnsStart(fields);
  const json *rotary = fields.find("rotary");
  auto refuse = [&](bool wrong, const std::string &expected, const std::string &found) {
    if (wrong) {
      fields.mismatch(expected, found);
    }
  };
  refuse(shiftsOutput && attends, "\"shifted\": \"input\" where attention resamples", "\"output\"");
  refuse(!shiftsOutput && learns, "\"shifted\": \"output\" for \"start\": \"null\"", "\"input\"");
  refuse(shift == 0 && learns, "a shift of 1 or more for \"start\": \"null\"", "0");
  refuse(keys != All && down < Attention,
         "attention that shortens where \"shorten_keys\" is \"group\"", "none");
  refuse(attends && !settings.groups.empty(), "no \"scales\" where attention resamples", "both");
  refuse(attends && rotary && *rotary != false, "no \"rotary\" where attention resamples", "both");
}

size_t Hourglass::expand(const std::string &path, size_t x) {
  up = bottom + 1;
  return descend(0, path, x);
}

size_t Hourglass::stack(int64_t layers, Names &next, size_t x) {
  for (int64_t i = 0; i < layers; ++i) {
    x = make.layer(settings, next(), x, {});
  }
  return layers > 0 && settings.preNorm ? make.norm(next(), x) : x;
}

size_t Hourglass::descend(size_t at, const std::string &path, size_t x) {
  Names next{path};
  x = stack(levels[at].layers, next, x);
  if (at == bottom) {
    return x;
  }
  size_t left = x;
  x = goDown(levels[at + 1].factor / levels[at].factor, next, x);
  factor = levels[at + 1].factor;
  x = at + 1 == bottom ? stack(levels[bottom].layers, next, x) : descend(at + 1, next(), x);
  while (up < levels.size() && levels[up].factor >= levels[at].factor) {
    Level level = levels[up++];
    bool returns = level.factor == levels[at].factor;
    x = goUp(factor / level.factor, next, x, returns ? std::optional(left) : std::nullopt);
    factor = level.factor;
    x = stack(level.layers, next, x);
    if (returns) {
      break;
    }
  }
  return x;
}

/// A layer between scales reads streams that a pre-norm hourglass has normed.
Layer Hourglass::resampler(Mask mask) const {
  Layer layer = settings;
  layer.attentionNorm = !settings.preNorm;
  layer.mask = mask;
  return layer;
}

size_t Hourglass::goDown(int64_t k, Names &next, size_t x) {
  bool attends = down >= Attention, linear = down == Linear || down == AttentionLinear;
  x = attends && settings.preNorm ? make.norm(next(), x) : x;
  size_t late = shiftsOutput ? x : make.shift(next(), shift.value_or(k - 1), x);
  size_t groups = make.shorten(next(), k, linear, late);
  if (!attends) {
    return groups;
  }
  groups = settings.preNorm ? make.norm(next(), groups) : groups;
  Mask mask = keys == Group ? Mask{Mask::Window, 0, k} : Mask{};
  return make.layer(resampler(mask), next(), groups, x);
}

size_t Hourglass::goUp(int64_t k, Names &next, size_t x, std::optional<size_t> skip) {
  if (upwards < AttentionUp) {
    x = make.upsample(next(), k, upwards == LinearUp, x);
    x = shiftsOutput ? make.shift(next(), shift.value_or(k - 1), x) : x;
    return skip ? make.add(next(), x, *skip) : x;
  }
  if (!skip) {
    fail(next(), "a stream that was shortened here, for attention to upsample", "none");
  }
  x = settings.preNorm ? make.norm(next(), x) : x;
  size_t queries = *skip;
  if (upwards == AttentionLinearUp) {
    size_t fine = make.upsample(next(), k, true, x);
    fine = settings.preNorm ? make.norm(next(), fine) : fine;
    queries = make.add(next(), fine, *skip);
  }
  x = make.layer(resampler({}), next(), queries, x);
  x = settings.preNorm ? make.norm(next(), x) : x;
  return make.add(next(), x, *skip);
}
