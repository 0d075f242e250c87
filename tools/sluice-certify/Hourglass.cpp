// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The stages of an hourglass, in order: their paths are numbered so.
#include "Deriver.h"

using namespace certify;

namespace {

enum Down : size_t { Attention = 4 };
enum Up : size_t { LinearUp = 1, AttentionUp, AttentionLinearUp };
enum Keys : size_t { All, Group };

/// Those of a stage, then attention from two of them.
std::vector<std::string> downMethods() {
  std::vector<std::string> names = shortenMethods;
  names.insert(names.end(), {"attention", "attention_linear"});
  return names;
}

} // namespace

/// Down from level to level, each shortened from the one before, then up. The stream that a level
/// leaves on the way down is added where the way up comes back to its factor.
class Deriver::Hourglass {
public:
  Hourglass(const Fields &fields, Deriver &make);

  /// From level `at` inwards and back to its factor.
  size_t descend(size_t at, const std::string &path, size_t x);

private:
  size_t goDown(int64_t k, Names &next, size_t x);
  size_t goUp(int64_t k, Names &next, size_t x, std::optional<size_t> skip);
  Layer resampler(Mask mask) const;

  const Fields &fields;
  Deriver &make;
  bool learns;
  std::vector<Level> levels;
  size_t bottom = 0, up = 0; ///< the coarsest level; the next one on the way up
  int64_t factor = 1;        ///< reached
  Layer settings;
  std::optional<int64_t> shift;
  bool shiftsOutput = false;  ///< what was upsampled is shifted, not what is shortened
  size_t down, upwards, keys; ///< index of the value of "shorten", "upsample", "shorten_keys"
};

size_t Deriver::hourglass(const Fields &fields, const std::string &path, size_t x) {
  return Hourglass(fields, *this).descend(0, path, x);
}

Deriver::Hourglass::Hourglass(const Fields &fields, Deriver &make)
    : fields(fields), make(make), learns(learnsStart(fields)), levels(readHierarchy(fields)),
      settings(readLayer(fields)), down(fields.choice("shorten", downMethods())),
      upwards(fields.choice("upsample", {"repeat", "linear", "attention", "attention_linear"})),
      keys(fields.choice("shorten_keys", {"all", "group"})) {
  for (size_t i = 1; i < levels.size(); ++i) {
    bottom = levels[i].factor > levels[bottom].factor ? i : bottom;
  }
  bottom = readsTheSame(levels) ? levels.size() / 2 : bottom;
  up = bottom + 1;
  if (fields.find("shift")) {
    shift = fields.integer("shift", 0);
  }
  shiftsOutput = fields.choice("shifted", {"input", "output"}) == 1;
  bool attends = down >= Attention || upwards >= AttentionUp;
  const json *rotary = fields.find("rotary");
  fields.refuse(shiftsOutput && attends, "\"shifted\": \"input\" where attention resamples",
                "\"output\"");
  fields.refuse(!shiftsOutput && learns, "\"shifted\": \"output\" for \"start\": \"null\"",
                "\"input\"");
  fields.refuse(shift == 0 && learns, "a shift of 1 or more for \"start\": \"null\"", "0");
  fields.refuse(keys != All && down < Attention,
                "attention that shortens where \"shorten_keys\" is \"group\"", "none");
  fields.refuse(attends && !settings.groups.empty(), "no \"scales\" where attention resamples",
                "both");
  fields.refuse(attends && rotary && *rotary != false, "no \"rotary\" where attention resamples",
                "both");
}

size_t Deriver::Hourglass::descend(size_t at, const std::string &path, size_t x) {
  Names next{path};
  x = make.stack(settings, levels[at].layers, next, x);
  if (at == bottom) {
    return x;
  }
  size_t left = x;
  x = goDown(levels[at + 1].factor / levels[at].factor, next, x);
  factor = levels[at + 1].factor;
  x = at + 1 == bottom ? make.stack(settings, levels[bottom].layers, next, x)
                       : descend(at + 1, next(), x);
  while (up < levels.size() && levels[up].factor >= levels[at].factor) {
    Level level = levels[up++];
    bool returns = level.factor == levels[at].factor;
    x = goUp(factor / level.factor, next, x, returns ? std::optional(left) : std::nullopt);
    factor = level.factor;
    x = make.stack(settings, level.layers, next, x);
    if (returns) {
      break;
    }
  }
  return x;
}

/// A layer between scales reads streams that a pre-norm hourglass has normed.
Layer Deriver::Hourglass::resampler(Mask mask) const {
  Layer layer = settings;
  layer.attentionNorm = !settings.preNorm;
  layer.mask = mask;
  return layer;
}

size_t Deriver::Hourglass::goDown(int64_t k, Names &next, size_t x) {
  bool attends = down >= Attention, linear = isLinear(down);
  x = attends && settings.preNorm ? make.norm(next(), x) : x;
  size_t late = shiftsOutput ? x : make.shift(next(), shift.value_or(k - 1), learns, x);
  size_t groups = make.shorten(next(), k, fields.integer("shorten_window", 1, k), linear, late);
  if (!attends) {
    return groups;
  }
  groups = settings.preNorm ? make.norm(next(), groups) : groups;
  Mask mask = keys == Group ? Mask{Mask::Window, 0, k} : Mask{};
  return make.layer(resampler(mask), next(), groups, {x});
}

size_t Deriver::Hourglass::goUp(int64_t k, Names &next, size_t x, std::optional<size_t> skip) {
  if (upwards < AttentionUp) {
    x = make.upsample(next(), k, upwards == LinearUp, x, fields);
    x = shiftsOutput ? make.shift(next(), shift.value_or(k - 1), learns, x) : x;
    return skip ? make.add(next(), x, *skip) : x;
  }
  if (!skip) {
    fail(next(), "a stream that was shortened here, for attention to upsample", "none");
  }
  x = settings.preNorm ? make.norm(next(), x) : x;
  size_t queries = *skip;
  if (upwards == AttentionLinearUp) {
    size_t fine = make.upsample(next(), k, true, x, fields);
    fine = settings.preNorm ? make.norm(next(), fine) : fine;
    queries = make.add(next(), fine, *skip);
  }
  x = make.layer(resampler({}), next(), queries, {x});
  x = settings.preNorm ? make.norm(next(), x) : x;
  return make.add(next(), x, *skip);
}
