// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Builds the functions of the module, stage by stage.
#include "sluice/Conversion/SpecToSluice.h"
#include "SpecToSluice.h"
#include "Tables.h"
#include "sluice/Conversion/AssignWeights.h"
#include "sluice/Conversion/Passes.h"
#include "sluice/Dialect/Sluice/Labels.h"
#include "sluice/Dialect/Spec/VerifyModel.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::spec_to_sluice;

namespace sluice {
#define GEN_PASS_DEF_CONVERTSPECTOSLUICE
#include "sluice/Conversion/Passes.h.inc"
} // namespace sluice

static StageConversions getConversions() {
  StageConversions conversions;
  populateEmbeddingConversions(conversions);
  populateLayerConversions(conversions);
  populateMapConversions(conversions);
  populateRecurrenceConversions(conversions);
  populateResamplingConversions(conversions);
  populateBoundariesConversions(conversions);
  populateGraphConversions(conversions);
  populateAttendConversions(conversions);
  populateLossConversions(conversions);
  return conversions;
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

/// Returns true if training computes something else than evaluation for this stage: dropout,
/// smoothed labels, targets or weights of losses, drawn boundaries or a moving target.
static bool trainsOtherwise(Operation &stage) {
  auto isMoving = [](std::optional<spec::TargetAttr> target) {
    return target && target->getSteps() > 0;
  };
  return llvm::TypeSwitch<Operation *, bool>(&stage)
      .Case([](spec::LayerOp op) {
        return op.getDropout() > 0 || op.getAttentionDropout() > 0 ||
               op.getFeedForwardDropout() > 0;
      })
      .Case([](spec::FeedForwardOp op) {
        return op.getDropout() > 0 || op.getFeedForwardDropout() > 0;
      })
      .Case(
          [](spec::AttentionOp op) { return op.getDropout() > 0 || op.getAttentionDropout() > 0; })
      .Case([](spec::RectifiedAttentionOp op) {
        return op.getDropout() > 0 || op.getAttentionDropout() > 0;
      })
      .Case([](spec::EmbeddingOp op) { return op.getDropout() > 0; })
      .Case([](spec::HeadOp op) {
        return op.getLabelSmoothing() > 0 || op.getTarget() || op.getWeights();
      })
      .Case([](spec::ContrastOp op) { return op.getExtraBatches() > 0; })
      .Case([](spec::LossOp op) { return op.getLabelSmoothing() > 0 || op.getWeights(); })
      .Case([&](spec::BoundariesOp op) {
        return (op.getPredictor() && !op.getRule()) || isMoving(op.getRatio()) ||
               isMoving(op.getPrior());
      })
      .Case([](spec::DropoutOp op) { return op.getRate() > 0; })
      .Default(false);
}

/// Fails unless the model has the weights, and the names of shared weights, that `assignWeights`
/// assigns.
static LogicalResult verifyWeights(spec::ModelOp model) {
  OwningOpRef<spec::ModelOp> fresh = model.clone();
  for (auto weight : llvm::make_early_inc_range(fresh->getBody().getOps<spec::WeightOp>())) {
    weight.erase();
  }
  if (failed(assignWeights(*fresh))) {
    return failure();
  }
  auto own = model.getBody().getOps(), right = fresh->getBody().getOps();
  auto a = own.begin(), b = right.begin();
  for (; a != own.end() && b != right.end(); ++a, ++b) {
    if (a->getName() != b->getName() || a->getAttrDictionary() != b->getAttrDictionary()) {
      return emitError(spec::getKeyLoc(&*a, ""))
             << "expected the weights that spec-assign-weights assigns, found other weights here; "
                "run spec-assign-weights";
    }
  }
  if (a != own.end() || b != right.end()) {
    return emitError(spec::getKeyLoc(model, ""))
           << "expected the weights that spec-assign-weights assigns, found "
           << (a != own.end() ? "more" : "fewer") << "; run it";
  }
  return success();
}

/// Fails if a stage is composite, or if weights are missing.
static LogicalResult verifyConvertible(spec::ModelOp model, const StageConversions &conversions) {
  for (auto stage : model.getBody().getOps<spec::StageInterface>()) {
    if (!conversions.lookup(stage)) {
      return spec::refuseComposite(stage);
    }
  }
  if (model.getBody().getOps<spec::WeightOp>().empty()) {
    return emitError(spec::getKeyLoc(model, ""))
           << "expected a model with weights, found none; run spec-assign-weights first";
  }
  return failure(failed(spec::verifyStageOrder(model)) ||
                 failed(spec::verifyExpandedModel(model)) || failed(verifyWeights(model)));
}

/// Converts the stages; returns the value of the last one.
static Value convertStages(StageContext &c, const StageConversions &conversions) {
  Value last;
  for (auto stage : c.model.getBody().getOps<spec::StageInterface>()) {
    c.setStage(stage);
    c.setName(stage->getName().stripDialect());
    size_t firstTerm = c.terms.size();
    last = conversions.lookup(stage)(c, stage);
    if (stage->getNumResults() == 1) {
      c.streams[stage->getResult(0)] = last;
    }
    if (cast<spec::StageInterface>(stage).getFrozen() && !isa<spec::HeadOp>(stage)) {
      for (LossTerm &term : llvm::drop_begin(c.terms, firstTerm)) {
        term.factor = 0; // reported, but not minimized
      }
    }
  }
  return last;
}

/// Ends a scoring function: creates the objective of all terms, the head's first. Returns the
/// losses, and then the weights that the model computes.
static SmallVector<Value> createObjective(StageContext &c) {
  std::rotate(c.terms.begin(), c.terms.end() - 1, c.terms.end());
  SmallVector<Value> losses, counted;
  SmallVector<Attribute> names, weights;
  SmallVector<double> factors;
  SmallVector<int64_t> first;
  for (const LossTerm &term : c.terms) {
    losses.push_back(term.losses);
    names.push_back(c.b.getStringAttr(term.name));
    std::string name = term.weights;
    if (term.counted) {
      c.setName("counted");
      name = term.name + countedSuffix.str();
      WeightSumOp::create(c.b, term.counted, name, term.first);
      counted.push_back(term.counted);
    }
    weights.push_back(c.b.getStringAttr(name));
    factors.push_back(term.factor);
    first.push_back(term.first);
  }
  bool isWeighted = llvm::any_of(
      weights, [](Attribute name) { return !cast<StringAttr>(name).getValue().empty(); });
  c.setName("objective");
  // Lines of named inputs end before their rows do.
  ObjectiveOp::create(c.b, losses, c.b.getArrayAttr(names), factors, first, c.hasLines(),
                      /*batches=*/1, isWeighted ? c.b.getArrayAttr(weights) : ArrayAttr());
  llvm::append_range(losses, counted);
  return losses;
}

static void addFunction(ImplicitLocOpBuilder &b, spec::ModelOp model,
                        const StageConversions &conversions, StringRef name, Purpose purpose) {
  b.setLoc(spec::getKeyLoc(model, ""));
  auto getTokens = [&](StringRef axis) {
    auto scale = FlatSymbolRefAttr::get(b.getContext(), getScaleName(1, axis));
    return SequenceType::get(b.getContext(), scale, 0, b.getI32Type());
  };
  SmallVector<Type> arguments = {getTokens("")};
  for (auto input : model.getBody().getOps<spec::InputOp>()) {
    if (input.isTokens()) {
      arguments.push_back(getTokens(input.getAxisName()));
    }
  }
  auto function = func::FuncOp::create(b, name, b.getFunctionType(arguments, {}));
  function.addEntryBlock();
  StageContext context(model, function, purpose);
  SmallVector<Value> results = {convertStages(context, conversions)};
  if (purpose != Purpose::Predict) {
    results = createObjective(context);
  }
  func::ReturnOp::create(context.b, results);
  function.setType(b.getFunctionType(arguments, ValueRange(results).getTypes()));
}

OwningOpRef<ModuleOp> sluice::convertSpecToSluice(spec::ModelOp model) {
  StageConversions conversions = getConversions();
  if (failed(verifyConvertible(model, conversions))) {
    return {};
  }
  MLIRContext *context = model.getContext();
  context->loadDialect<SluiceDialect, dispatch::DispatchDialect, func::FuncDialect,
                       arith::ArithDialect, math::MathDialect>();
  ImplicitLocOpBuilder b(spec::getKeyLoc(model, ""), context);
  OwningOpRef<ModuleOp> module = ModuleOp::create(b.getLoc());
  setModuleAttributes(*module, model);
  b.setInsertionPointToEnd(module->getBody());
  addScales(b, model);
  addParameters(b, model);
  addTables(b, model);
  addFunction(b, model, conversions, "evaluate", Purpose::Evaluate);
  if (!model.getBody().getOps<spec::HeadOp>().empty()) {
    addFunction(b, model, conversions, "predict", Purpose::Predict);
  }
  if (llvm::any_of(model.getBody().getOps(), trainsOtherwise)) {
    addFunction(b, model, conversions, "train", Purpose::Train);
  }
  return module;
}

namespace {

struct ConvertSpecToSluice : sluice::impl::ConvertSpecToSluiceBase<ConvertSpecToSluice> {
  void runOnOperation() override {
    auto models = getOperation().getOps<spec::ModelOp>();
    if (!llvm::hasSingleElement(models)) {
      emitError(getOperation().getLoc())
          << "expected one spec.model, found " << std::distance(models.begin(), models.end());
      return signalPassFailure();
    }
    for (Operation &op : getOperation().getOps()) {
      if (!isa<spec::ModelOp>(op)) {
        op.emitError() << "expected a module of one spec.model alone, found " << op.getName();
        return signalPassFailure();
      }
    }
    OwningOpRef<ModuleOp> module = convertSpecToSluice(*models.begin());
    if (!module) {
      return signalPassFailure();
    }
    getOperation()->setAttrs((*module)->getAttrDictionary());
    getOperation()->setLoc((*module)->getLoc());
    getOperation().getBodyRegion().takeBody(module->getBodyRegion());
  }
};

} // namespace
