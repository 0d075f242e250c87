// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Revision.h"
#include "sluice/Conversion/CreateStage.h"
#include "sluice/Conversion/ImportSpec.h"
#include "sluice/Dialect/Spec/Hierarchy.h"

using namespace mlir;
using namespace sluice;

Revision::Revision(const spec::Model &model)
    : context(std::make_unique<MLIRContext>(MLIRContext::Threading::DISABLED)),
      module(readSpecAgain(*context, model)) {}

spec::ModelOp Revision::getModel() { return *module->getOps<spec::ModelOp>().begin(); }

/// True where the value of a key, or the stage itself for no key, is at `place`.
static bool isAt(Operation *stage, StringRef key, const spec::SourceLocation &place) {
  auto at = dyn_cast<FileLineColLoc>(spec::getKeyLoc(stage, key));
  return at && at.getLine() == place.line && at.getColumn() == place.column;
}

bool Revision::setShift(const spec::SourceLocation &place, int64_t by) {
  bool found = false;
  for (Operation &stage : getModel().getBody().getOps()) {
    auto hourglass = dyn_cast<spec::HourglassOp>(stage);
    StringRef key = !hourglass ? "" : hourglass.getShift() ? "shift" : "hierarchy";
    if (!isAt(&stage, key, place)) {
      continue;
    }
    if (isa<spec::ShiftOp, spec::HeadOp, spec::LossOp, spec::HourglassOp>(stage)) {
      stage.setAttr(isa<spec::ShiftOp>(stage) ? "by" : "shift",
                    Builder(context.get()).getI64IntegerAttr(by));
      found = true;
    }
  }
  return found;
}

void Revision::beginWindowsAtZero(const spec::SourceLocation &place) {
  for (auto layer : getModel().getBody().getOps<spec::LayerSettingsInterface>()) {
    spec::MaskAttr mask = layer.getMask();
    if (mask.getShape() == spec::MaskShape::window && isAt(layer, "mask", place)) {
      layer->setAttr("mask", spec::MaskAttr::get(context.get(), mask.getShape(), 0, mask.getEnd()));
    }
  }
}

/// The stage of this index in the spec, or null.
static Operation *getStage(spec::ModelOp model, int64_t index) {
  for (Operation &stage : model.getBody().getOps()) {
    auto path = stage.getAttrOfType<StringAttr>("path");
    if (path && path.getValue() == ("stages." + Twine(index)).str()) {
      return &stage;
    }
  }
  return nullptr;
}

bool Revision::addLayerOnTheWayUp(OriginAttr origin) {
  auto hourglasses = getModel().getBody().getOps<spec::HourglassOp>();
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
  spec::Level &level = levels[levels.size() - depth];
  if (level.factor != levels[depth - 1].factor) { // the hierarchy differs at both ends
    return false;
  }
  level.layers = std::max<int64_t>(level.layers, 1);
  stage.setHierarchy(hierarchy->toString());
  return true;
}

/// Makes the stages after that of `value` read it in place of `replaced`, where that was the result
/// of the stage before them.
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

void Revision::addLayerBehind(int64_t stage, bool tokens) {
  spec::ModelOp model = getModel();
  auto head = *model.getBody().getOps<spec::HeadOp>().begin();
  Operation *before = stage < 0 ? nullptr : getStage(model, stage);
  Value input = before ? Value(before->getResult(0)) : Value(head.getInput());
  OpBuilder builder(context.get());
  before ? builder.setInsertionPointAfter(before) : builder.setInsertionPoint(head);
  auto integer = [&](StringRef key, int64_t value) {
    return builder.getNamedAttr(key, builder.getI64IntegerAttr(value));
  };
  auto path = [&](int64_t i) {
    return builder.getNamedAttr("path", builder.getStringAttr("stages." +
                                                              Twine(std::max<int64_t>(stage, 0)) +
                                                              ".advised." + Twine(i)));
  };
  Value made = input;
  if (tokens) { // streams of any two widths join so
    Value embedded = (*model.getBody().getOps<spec::EmbeddingOp>().begin()).getResult();
    Operation *project =
        createStage(builder, head.getLoc(), "project", {made, embedded}, {path(0)});
    made = project ? project->getResult(0) : made;
  }
  auto width = static_cast<int64_t>(model.getWidth());
  // The layer's reads matter, and not what it computes.
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
  ScopedDiagnosticHandler ignored(context.get(), [](Diagnostic &) { return success(); });
  OwningOpRef<ModuleOp> imported = isValid ? importSpec(*module) : OwningOpRef<ModuleOp>();
  if (!imported || !checkCausality(*imported, /*replay=*/false).isProved()) {
    return false;
  }
  if (!withoutHoles) {
    return true;
  }
  BlindPattern pattern =
      findBlindSpots(mainLossOf(imported->lookupSymbol<func::FuncOp>("evaluate")));
  return pattern.repeats && !pattern.hasHoles();
}

int64_t sluice::findStage(const spec::Model &model, OriginAttr origin) {
  auto found = llvm::find_if(model.stages, [&](const spec::Stage &stage) {
    return origin && origin.isWithin(stage.prefix);
  });
  return found == model.stages.end() ? -1 : found - model.stages.begin();
}
