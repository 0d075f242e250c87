// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The top-down model of "Multi-scale Transformer Language Models" (Subramanian et al., 2020,
// section 3.1): groups are pooled from the input itself, and each scale reads the one above it,
// from whole groups that have ended.
#include "Stages.h"

namespace sluice::spec {
namespace {

/// Expands one `top_down` stage.
class TopDownExpander {
public:
  TopDownExpander(const Stage &stage, int64_t input, int64_t factor, const AppendStage &append)
      : stage(stage), topDown(std::get<TopDown>(stage.settings)), input(input), factor(factor),
        append(append) {}

  int64_t run() {
    int64_t above = -1;
    for (size_t i = 0; i < topDown.hierarchy.size(); ++i) {
      above = level(i, above);
    }
    return above;
  }

private:
  int64_t add(Settings settings, int64_t x, int64_t second = -1) {
    return append(std::move(settings), stage.prefix + ".inside." + std::to_string(count++),
                  stage.at("hierarchy"), x, second);
  }

  /// One scale; `above` is the result of the coarser one before it, -1 for the coarsest.
  int64_t level(size_t i, int64_t above) {
    auto [layers, k, isDrawn] = topDown.hierarchy[i];
    int64_t coarsest = topDown.hierarchy.front().factor, z = -1;
    if (i > 0) { // row g reads the last coarse group that ends at it or before
      int64_t r = topDown.hierarchy[i - 1].factor / k;
      z = add(Upsample{r, topDown.upsample, {}}, above);
      z = add(Shift{r - 1, topDown.isLearned && r > 1}, z);
    }
    int64_t x = k > 1 ? add(Shorten{k, topDown.shorten, topDown.shortenWindow}, input) : input;
    if (i > 0) {
      x = add(Project{"", topDown.projection, topDown.layer.bias}, x, z);
    }
    Layer layer = topDown.layer;
    layer.first = topDown.isLearned ? 0 : coarsest / k - 1;
    for (int64_t j = 0; j < layers; ++j) {
      x = add(layer, x);
    }
    if (layers > 0 && layer.placement == Placement::Pre) {
      x = add(Norm{layer.norm, layer.epsilon}, x);
    }
    if (topDown.bags && k > 1) {
      addBag(k, x);
    }
    return x;
  }

  void addBag(int64_t k, int64_t x) {
    Loss loss;
    loss.name = "bag_" + std::to_string(k);
    loss.factor = *topDown.bags;
    if (!topDown.isLearned) { // otherwise a row is scored as soon as it has a group
      loss.head.first = tokensBefore(topDown, factor);
    }
    add(loss, x);
  }

  const Stage &stage;
  const TopDown &topDown;
  int64_t input, factor;
  const AppendStage &append;
  int64_t count = 0;
};

} // namespace

int64_t expandTopDown(const Stage &stage, int64_t input, int64_t factor,
                      const AppendStage &append) {
  return TopDownExpander(stage, input, factor, append).run();
}

int64_t tokensBefore(const TopDown &topDown, int64_t factor) {
  return topDown.isLearned ? 0 : topDown.hierarchy.front().factor * factor - 1;
}

TopDown readTopDown(const Fields &fields, int64_t width) {
  TopDown topDown;
  topDown.hierarchy = readFallingHierarchy(fields);
  topDown.shorten = readShortening(fields, "shorten");
  topDown.shortenWindow = readShortenWindow(fields);
  topDown.upsample = readUpsampling(fields, "upsample");
  topDown.projection = readProjection(fields, "projection_activation");
  if (fields.find("bags")) {
    topDown.bags = fields.number("bags", positive);
  }
  topDown.isLearned = readStart(fields, {});
  topDown.layer = readLayer(fields, width);
  if (topDown.layer.lsh) {
    fields.fail(fields.position("lsh"),
                "expected no \"lsh\" in a top_down stage, whose layers leave out the first rows of "
                "their scales, found both; say \"lsh\": false in this stage");
  }
  if (!topDown.layer.groups.empty()) {
    fields.fail(fields.position("scales"),
                "expected no \"scales\" in a top_down stage, whose layers leave out the first rows "
                "of their own scale as keys, found both; say \"scales\": [] in this stage");
  }
  return topDown;
}

} // namespace sluice::spec
