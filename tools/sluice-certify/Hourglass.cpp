// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Expands stages of several scales: hourglasses, top_down and bottom_up. Their operands are
// numbered in order.
#include "Deriver.h"

using namespace certify;

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
  size_t upwards = fields.choice("upsample", upsampleMethods);
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
    gathers.groups.push_back({"the scale", 1, {Mask::Complete, 0, 0}});
  }
  x = layer(gathers, next(), x, scales);
  return stack(settings, levels[0].layers, next, x);
}

/// Expands scales from the coarsest down: groups of the stage's own input, combined with the output
/// of the coarser scale for the last complete group.
size_t Deriver::topDown(const Fields &fields, const std::string &path, size_t input) {
  std::vector<FieldLevel> levels = readLevels(fields);
  Layer settings = readLayer(fields);
  bool folds = isLinear(fields.choice("shorten", shortenMethods));
  bool unfolds = fields.choice("upsample", {"repeat", "linear"}) == 1;
  bool activated = isActivated(fields, "projection_activation"), learns = learnsStart(fields);
  StageNames next{path};
  int64_t before = 0;
  size_t above = input;
  for (const FieldLevel &level : levels) {
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
      const json bag = {{"op", "loss"}, {"name", "bag_" + std::to_string(level.factor)}};
      score(Fields(bag, nullptr, path), next(), x);
    }
    above = x;
    before = level.factor;
  }
  return above;
}
