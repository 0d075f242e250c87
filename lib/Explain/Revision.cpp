// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Revision.h"
#include "sluice/Conversion/CreateStage.h"
#include "sluice/Conversion/ImportSpec.h"
#include "sluice/Conversion/ParseSpec.h"
#include "sluice/Dialect/Spec/Hierarchy.h"
#include "sluice/Explain/BlindSpots.h"
#include "sluice/Explain/CheckCausality.h"
#include "sluice/Proof/Losses.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace sluice;

Revision::Revision(const ParsedSpec &original)
    : spec{original.file, original.text, ModuleOp(*original.module).clone()},
      ignored(getContext(), [](Diagnostic &) { return success(); }) {}

bool sluice::isAt(Operation *stage, StringRef key, const spec::SourceLocation &place) {
  spec::SourceLocation at = getKeyPlace(stage, key);
  return at.line == place.line && at.column == place.column;
}

bool Revision::setShift(const spec::SourceLocation &place, int64_t by) {
  bool found = false;
  for (Operation &stage : spec.getModel().getBody().getOps()) {
    auto hourglass = dyn_cast<spec::HourglassOp>(stage);
    StringRef key = !hourglass ? "" : hourglass.getShift() ? "shift" : "hierarchy";
    if (!isAt(&stage, key, place)) {
      continue;
    }
    IntegerAttr rows = Builder(getContext()).getI64IntegerAttr(by);
    auto set = [&](auto op) {
      if constexpr (std::is_same_v<decltype(op), spec::ShiftOp>) {
        op.setByAttr(rows);
      } else {
        op.setShiftAttr(rows);
      }
      found = true;
    };
    llvm::TypeSwitch<Operation *>(&stage)
        .Case<spec::ShiftOp, spec::HeadOp, spec::LossOp, spec::ContrastOp, spec::HourglassOp>(set)
        .Default([](Operation *) {});
  }
  return found;
}

void Revision::beginWindowsAtZero(const spec::SourceLocation &place) {
  for (auto layer : spec.getModel().getBody().getOps<spec::LayerSettingsInterface>()) {
    spec::MaskAttr mask = layer.getMask();
    if (mask.getShape() == spec::MaskShape::window && isAt(layer, "mask", place)) {
      layer.setMaskAttr(spec::MaskAttr::get(getContext(), mask.getShape(), 0, mask.getEnd()));
    }
  }
}

/// Returns the path of a stage; empty for an op that is not a stage.
static StringRef getPath(Operation &op) {
  auto stage = dyn_cast<spec::StageInterface>(op);
  StringAttr path = stage ? stage.getPathAttr() : StringAttr();
  return path ? path.getValue() : "";
}

StringRef sluice::findStage(spec::ModelOp model, OriginAttr origin) {
  for (Operation &stage : model.getBody().getOps()) {
    StringRef path = getPath(stage);
    if (origin && !path.empty() && origin.isWithin(path)) {
      return path;
    }
  }
  return "";
}

/// Returns the stage at a path; null if there is none.
static Operation *getStage(spec::ModelOp model, StringRef path) {
  auto stages = model.getBody().getOps();
  auto found = llvm::find_if(stages, [&](Operation &stage) { return getPath(stage) == path; });
  return path.empty() || found == stages.end() ? nullptr : &*found;
}

bool Revision::addLayerOnTheWayUp(OriginAttr origin) {
  auto hourglasses = spec.getModel().getBody().getOps<spec::HourglassOp>();
  auto found = llvm::find_if(
      hourglasses, [&](spec::HourglassOp op) { return origin && origin.isWithin(*op.getPath()); });
  size_t depth = origin ? static_cast<size_t>(origin.getDepth()) : 0;
  if (found == hourglasses.end() || depth == 0) {
    return false;
  }
  spec::HourglassOp stage = *found;
  FailureOr<spec::Hierarchy> hierarchy =
      spec::parseHierarchy(stage, stage.getHierarchy(), spec::HierarchyOrder::DownAndUp);
  if (failed(hierarchy) || depth > hierarchy->getCoarsest()) {
    return false;
  }
  auto &levels = hierarchy->levels;
  spec::HierarchyLevel &level = levels[levels.size() - depth];
  if (level.factor != levels[depth - 1].factor) { // the hierarchy differs between its two ends
    return false;
  }
  level.layers = std::max<int64_t>(level.layers, 1);
  stage.setHierarchy(hierarchy->toString());
  return true;
}

/// Replaces the implicit input of the stages after `value`: they read `value` instead of
/// `replaced`, if `replaced` was the result of the preceding stage.
static void replaceInSequence(Value replaced, Value value) {
  for (Operation *stage = value.getDefiningOp()->getNextNode(); stage;
       stage = stage->getNextNode()) {
    if (stage->getNumOperands() > 0 && stage->getOperand(0) == replaced &&
        !spec::isWritten(stage, "from")) {
      stage->setOperand(0, value);
    }
    if (stage->getNumResults() > 0 && isa<spec::StreamType>(stage->getResult(0).getType())) {
      return;
    }
  }
}

void Revision::addLayerAfter(StringRef stage, bool tokens) {
  spec::ModelOp model = spec.getModel();
  Operation *head = nullptr; // the last stage
  for (auto each : model.getBody().getOps<spec::StageInterface>()) {
    head = each;
  }
  Operation *before = getStage(model, stage);
  Value input = before ? Value(before->getResult(0)) : head->getOperand(0);
  OpBuilder builder(getContext());
  before ? builder.setInsertionPointAfter(before) : builder.setInsertionPoint(head);
  auto integer = [&](StringRef key, int64_t value) {
    return builder.getNamedAttr(key, builder.getI64IntegerAttr(value));
  };
  auto path = [&](int64_t i) {
    StringRef prefix = before ? stage : "stages.0";
    return builder.getNamedAttr("path", builder.getStringAttr(prefix + ".advised." + Twine(i)));
  };
  Value made = input;
  if (tokens) { // a projection joins streams of any two widths
    Value embedded = (*model.getBody().getOps<spec::EmbeddingOp>().begin()).getResult();
    Operation *project =
        createStage(builder, head->getLoc(), "project", {made, embedded}, {path(0)});
    made = project ? project->getResult(0) : made;
  }
  auto width = static_cast<int64_t>(model.getWidth());
  // Only the layer's reads matter, not its values.
  Operation *layer = createStage(
      builder, model.getLoc(), "layer", {made},
      {integer("heads", 1), integer("head_size", width), integer("feed_forward", width), path(1)});
  isValid &= layer != nullptr;
  if (layer && before) {
    replaceInSequence(input, layer->getResult(0));
  } else if (layer) {
    head->setOperand(0, layer->getResult(0));
  }
}

bool Revision::isProved() { return isProved(/*withoutHoles=*/false); }
bool Revision::seesAll() { return isProved(/*withoutHoles=*/true); }

bool Revision::isProved(bool withoutHoles) {
  OwningOpRef<ModuleOp> imported = isValid ? importSpec(*spec.module) : OwningOpRef<ModuleOp>();
  if (!imported || !checkCausality(*imported, /*replay=*/false).isProved()) {
    return false;
  }
  if (!withoutHoles) {
    return true;
  }
  BlindPattern pattern =
      findBlindSpots(getMainLoss(imported->lookupSymbol<func::FuncOp>("evaluate")));
  return pattern.repeats && !pattern.hasHoles();
}
