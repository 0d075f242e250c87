// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Revision.h"
#include "sluice/Transforms/ImportSpec.h"

using namespace mlir;
using namespace sluice;

static bool isAt(const spec::SourceLocation &x, const spec::SourceLocation &y) {
  return x.line == y.line && x.column == y.column;
}

/// The settings of a head, or of a loss; null of another stage.
static spec::Head *headOf(spec::Stage &stage) {
  auto *loss = std::get_if<spec::Loss>(&stage.settings);
  return loss ? &loss->head : std::get_if<spec::Head>(&stage.settings);
}

bool Revision::setShift(const spec::SourceLocation &place, int64_t by) {
  bool found = false;
  for (spec::Stage &stage : model.stages) {
    if (auto *shift = std::get_if<spec::Shift>(&stage.settings);
        shift && isAt(stage.location, place)) {
      shift->by = by;
      found = true;
    }
    if (spec::Head *head = headOf(stage); head && isAt(stage.location, place)) {
      head->shift = by;
      found = true;
    }
    if (auto *hourglass = std::get_if<spec::Hourglass>(&stage.settings)) {
      const spec::SourceLocation &key =
          hourglass->shift ? stage.at("shift") : stage.at("hierarchy");
      if (isAt(key, place)) {
        hourglass->shift = by;
        stage.keys.try_emplace("shift", place);
        found = true;
      }
    }
  }
  return found;
}

static spec::Layer *layerOf(spec::Stage &stage) {
  if (auto *layer = std::get_if<spec::Layer>(&stage.settings)) {
    return layer;
  }
  if (auto *layers = std::get_if<spec::Layers>(&stage.settings)) {
    return &layers->layer;
  }
  if (auto *topDown = std::get_if<spec::TopDown>(&stage.settings)) {
    return &topDown->layer;
  }
  auto *hourglass = std::get_if<spec::Hourglass>(&stage.settings);
  return hourglass ? &hourglass->layer : nullptr;
}

void Revision::beginWindowsAtZero(const spec::SourceLocation &place) {
  for (spec::Stage &stage : model.stages) {
    spec::Layer *layer = layerOf(stage);
    if (layer && layer->mask.kind == spec::MaskKind::Window && isAt(stage.at("mask"), place)) {
      layer->mask.begin = 0;
    }
  }
}

bool Revision::addLayerOnTheWayUp(StringRef name) {
  int64_t index = stageIndexOf(name);
  auto *hourglass =
      index >= 0 ? std::get_if<spec::Hourglass>(&model.stages[static_cast<size_t>(index)].settings)
                 : nullptr;
  size_t depth = name.count(".inside.");
  if (!hourglass || depth == 0 || depth > hourglass->coarsest()) {
    return false;
  }
  auto &levels = hourglass->hierarchy;
  spec::Hourglass::Level &level = levels[levels.size() - depth];
  if (level.factor != levels[depth - 1].factor) { // the hierarchy differs at both ends
    return false;
  }
  level.layers = std::max<int64_t>(level.layers, 1);
  return true;
}

void Revision::addLayerBehind(int64_t stage, bool tokens) {
  auto at = stage < 0 ? model.stages.end() - 1 : model.stages.begin() + stage + 1;
  spec::Stage before = *(at - 1);
  std::string prefix = before.prefix + ".advised";
  std::vector<spec::Stage> added;
  std::string input;
  if (stage < 0) { // what the head reads
    input = at->from;
    at->from.clear();
  }
  if (tokens) {
    spec::Stage &embedding = model.stages.front();
    embedding.to = embedding.to.empty() ? "advised" : embedding.to;
    // Streams of any two widths join so.
    added.push_back(
        {spec::Project{embedding.to, {}, true}, before.location, {}, prefix + ".0", input, ""});
    input.clear();
  }
  spec::Layer layer; // what it computes is of no matter, what it reads is
  layer.heads = layer.keyValueHeads = 1;
  layer.headSize = model.width;
  layer.feedForward = model.width;
  added.push_back({layer, before.location, {}, prefix + ".1", input, ""});
  model.stages.insert(at, added.begin(), added.end());
}

bool Revision::isProved() const { return isProved(/*withoutHoles=*/false); }
bool Revision::seesAll() const { return isProved(/*withoutHoles=*/true); }

bool Revision::isProved(bool withoutHoles) const {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  OwningOpRef<ModuleOp> module = importSpec(context, model);
  if (!checkCausality(*module, /*replay=*/false).isProved()) {
    return false;
  }
  if (!withoutHoles) {
    return true;
  }
  BlindPattern pattern = findBlindSpots(mainLossOf(module->lookupSymbol<func::FuncOp>("evaluate")));
  return pattern.repeats && !pattern.hasHoles();
}

int64_t sluice::stageIndexOf(StringRef name) {
  int64_t index = -1;
  return name.consume_front("stages.") && !name.consumeInteger(10, index) ? index : -1;
}
