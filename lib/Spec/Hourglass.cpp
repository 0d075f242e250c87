// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The Hourglass of Nawrot et al. (2021): its settings, and the primitive stages that it becomes.

#include "Hourglass.h"

#include "Stages.h"

#include <algorithm>

namespace sluice::spec {
namespace {

constexpr Range anyShift = {0, largestSize};

/// How a stream is shortened or upsampled: by what is pooled or repeated, and by attention from it.
template <typename Method> struct Resampling {
  Method method;
  bool attends;
};

void checkAttention(const Fields &fields, const Hourglass &hourglass) {
  if (!hourglass.attendsDown && hourglass.shortenKeys != ShortenKeys::All) {
    fields.fail(fields.position("shorten_keys"),
                "expected \"shorten_keys\" only where \"shorten\" is \"attention\" or "
                "\"attention_linear\", which has keys, found \"group\"; leave it out");
  }
  bool attends = hourglass.attendsDown || hourglass.attendsUp;
  if (attends && hourglass.layer.rotaryBase) {
    fields.fail(fields.position("rotary"),
                "expected no \"rotary\" where an hourglass resamples by attention, whose keys are "
                "on another scale than its queries, found both; use \"relative\", or resample "
                "without attention");
  }
  if (attends && hourglass.layer.lsh) {
    fields.fail(fields.position("lsh"),
                "expected no \"lsh\" where an hourglass resamples by attention, whose keys are "
                "another stream's, found both; say \"lsh\": false in this stage, or resample "
                "without attention");
  }
  if (attends && !hourglass.layer.groups.empty()) {
    fields.fail(fields.position("scales"),
                "expected no \"scales\" where an hourglass resamples by attention, whose keys are "
                "another stream's, found both; say \"scales\": [] in this stage, or resample "
                "without attention");
  }
}

/// Learned rows are stored, so that a group of them would not be whole until its last row is there.
/// Where the output is shifted, a group ends behind its first row, which attention's masks between
/// scales do not say.
void checkShifted(const Fields &fields, const Hourglass &hourglass) {
  if (hourglass.isLearned && !hourglass.shiftsOutput) {
    fields.fail(
        fields.position("start"),
        "expected \"start\": \"null\" in an hourglass only beside \"shifted\": \"output\", as "
        "a group whose first rows are learned would not be whole when it is read, found "
        "it alone; add that, or leave \"start\" out");
  }
  if (hourglass.shiftsOutput && (hourglass.attendsDown || hourglass.attendsUp)) {
    fields.fail(fields.position("shifted"),
                "expected \"shifted\": \"input\" where an hourglass resamples by attention, which "
                "reads groups that end where they begin, found \"output\"; leave it out, or "
                "resample without attention");
  }
}

/// Attention's queries on the way up are the stream that was shortened there.
void checkQueries(const Fields &fields, const Hourglass &hourglass) {
  size_t coarsest = hourglass.coarsest();
  const auto &levels = hourglass.hierarchy;
  for (size_t up = coarsest + 1; hourglass.attendsUp && up < levels.size(); ++up) {
    bool isShortened = std::any_of(levels.begin(), levels.begin() + static_cast<long>(coarsest),
                                   [&](const auto &l) { return l.factor == levels[up].factor; });
    if (!isShortened) {
      fields.fail(fields.position("upsample"),
                  "expected a level of factor " + std::to_string(levels[up].factor) +
                      " on the way down, whose stream is attention's queries on the way up, found "
                      "none; add 0@" +
                      std::to_string(levels[up].factor) +
                      ", or upsample by \"repeat\" or \"linear\"");
    }
  }
}

class HourglassExpander {
public:
  HourglassExpander(const Stage &stage, const AppendStage &emit)
      : hourglass(std::get<Hourglass>(stage.settings)), levels(hourglass.hierarchy),
        coarsest(hourglass.coarsest()), up(coarsest + 1), where(stage.at("hierarchy")),
        whereShift(hourglass.shift ? stage.at("shift") : where), emit(emit),
        isPre(hourglass.layer.placement == Placement::Pre) {}

  int64_t level(size_t depth, const std::string &prefix, int64_t x) {
    Inside inside{prefix, 0};
    x = stack(levels[depth].layers, x, inside);
    if (depth == coarsest) { // a plain stack; deeper ones are written out by the level around them
      return x;
    }
    int64_t skip = x;
    x = shorten(levels[depth + 1].factor / levels[depth].factor, x, inside);
    factor = levels[depth + 1].factor;
    x = depth + 1 == coarsest ? stack(levels[coarsest].layers, x, inside)
                              : level(depth + 1, inside.next(), x);
    bool isBack = false;
    while (!isBack && levels[up].factor >= levels[depth].factor) { // the last one's factor is 1
      const Hourglass::Level &to = levels[up++];
      isBack = to.factor == levels[depth].factor;
      x = upsample(factor / to.factor, x, isBack ? skip : -1, inside);
      factor = to.factor;
      x = stack(to.layers, x, inside);
    }
    return x;
  }

private:
  /// Stages inside a level, numbered as they come.
  struct Inside {
    const std::string &prefix;
    int64_t count;
    std::string next() { return prefix + ".inside." + std::to_string(count++); }
  };

  int64_t add(Settings settings, int64_t x, Inside &inside, int64_t second = -1) {
    return emit(std::move(settings), inside.next(), where, x, second);
  }
  int64_t norm(int64_t x, Inside &inside) {
    return add(Norm{hourglass.layer.norm, hourglass.layer.epsilon}, x, inside);
  }
  int64_t stack(int64_t layers, int64_t x, Inside &inside) {
    for (int64_t i = 0; i < layers; ++i) {
      x = add(hourglass.layer, x, inside);
    }
    return layers > 0 && isPre ? norm(x, inside) : x;
  }

  /// A layer over another scale, whose streams pre-norm has normed already.
  Layer resampler(Mask mask) const {
    Layer layer = hourglass.layer;
    layer.isOver = true;
    layer.attentionNorm = !isPre;
    layer.mask = mask;
    return layer;
  }
  Mask keysOfGroup(int64_t k) const {
    bool isLocal = hourglass.shortenKeys == ShortenKeys::Group;
    return isLocal ? Mask{MaskKind::Window, 0, k} : Mask{MaskKind::Causal};
  }

  /// Rows later on a scale whose neighbour is k times coarser.
  int64_t shift(int64_t k, int64_t x, Inside &inside) {
    int64_t by = hourglass.shift.value_or(k - 1);
    return emit(Shift{by, hourglass.isLearned && by > 0}, inside.next(), whereShift, x, -1);
  }

  int64_t shorten(int64_t k, int64_t x, Inside &inside) {
    bool norms = hourglass.attendsDown && isPre;
    int64_t keys = norms ? norm(x, inside) : x;
    int64_t late = hourglass.shiftsOutput ? keys : shift(k, keys, inside);
    int64_t pooled = add(Shorten{k, hourglass.shorten, hourglass.shortenWindow}, late, inside);
    if (!hourglass.attendsDown) {
      return pooled;
    }
    pooled = norms ? norm(pooled, inside) : pooled;
    return add(resampler(keysOfGroup(k)), pooled, inside, keys);
  }

  /// The stream that was shortened is added, and again where attention's queries are it; -1: there
  /// is none.
  int64_t upsample(int64_t k, int64_t x, int64_t skip, Inside &inside) {
    if (!hourglass.attendsUp) {
      x = add(Upsample{k, hourglass.upsample, {}}, x, inside);
      x = hourglass.shiftsOutput ? shift(k, x, inside) : x;
      return skip >= 0 ? add(Add{}, x, inside, skip) : x;
    }
    int64_t keys = isPre ? norm(x, inside) : x, queries = skip;
    if (hourglass.upsample == Upsampling::Linear) {
      x = add(Upsample{k, Upsampling::Linear, {}}, keys, inside);
      queries = add(Add{}, isPre ? norm(x, inside) : x, inside, skip);
    }
    x = add(resampler({MaskKind::Causal}), queries, inside, keys);
    return add(Add{}, isPre ? norm(x, inside) : x, inside, skip);
  }

  const Hourglass &hourglass;
  const std::vector<Hourglass::Level> &levels;
  const size_t coarsest;
  size_t up; ///< the next level on the way up
  int64_t factor = 1;
  const SourceLocation &where;
  const SourceLocation &whereShift;
  const AppendStage &emit;
  const bool isPre;
};

} // namespace

Hourglass readHourglass(const Fields &fields, int64_t width) {
  using Down = Resampling<Shortening>;
  using Up = Resampling<Upsampling>;
  Hourglass hourglass;
  hourglass.hierarchy = readHierarchy(fields, hourglass.factors);
  Names<Down> downs;
  for (auto [method, shortening] : shortenMethods()) {
    downs.push_back({method, {shortening, false}});
  }
  downs.push_back({"attention", {Shortening::Average, true}});
  downs.push_back({"attention_linear", {Shortening::Linear, true}});
  Down down = fields.choice<Down>("shorten", downs, {Shortening::Average, false});
  hourglass.shorten = down.method;
  hourglass.shortenWindow = readShortenWindow(fields);
  hourglass.attendsDown = down.attends;
  hourglass.shortenKeys = fields.choice<ShortenKeys>(
      "shorten_keys", {{"all", ShortenKeys::All}, {"group", ShortenKeys::Group}}, ShortenKeys::All);
  Up up = fields.choice<Up>("upsample",
                            {{"repeat", {Upsampling::Repeat, false}},
                             {"linear", {Upsampling::Linear, false}},
                             {"attention", {Upsampling::Repeat, true}},
                             {"attention_linear", {Upsampling::Linear, true}}},
                            {Upsampling::Repeat, false});
  hourglass.upsample = up.method;
  hourglass.attendsUp = up.attends;
  if (fields.find("shift")) {
    hourglass.shift = fields.integer("shift", anyShift);
  }
  hourglass.isLearned = readStart(fields, hourglass.shift);
  hourglass.shiftsOutput =
      fields.choice<bool>("shifted", {{"input", false}, {"output", true}}, false);
  hourglass.layer = readLayer(fields, width);
  checkAttention(fields, hourglass);
  checkShifted(fields, hourglass);
  for (int64_t factor : hourglass.factors) {
    setFactor(hourglass.hierarchy, factor);
    checkQueries(fields, hourglass);
  }
  setFactor(hourglass.hierarchy, hourglass.factors.empty() ? 1 : hourglass.factors.front());
  checkQueries(fields, hourglass);
  return hourglass;
}

int64_t expandHourglass(const Stage &stage, int64_t input, const AppendStage &emit) {
  return HourglassExpander(stage, emit).level(0, stage.prefix, input);
}

} // namespace sluice::spec
