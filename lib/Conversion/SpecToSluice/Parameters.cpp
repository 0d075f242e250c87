// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Adds module attributes, and parameters for weights.
#include "SpecToSluice.h"

#include "StageContext.h"
#include "sluice/Conversion/SpecToSluice.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::spec_to_sluice;

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

/// Returns the first settings of this kind; if there are none, the defaults, which `fallback` owns.
template <typename Op> static Op getSettings(spec::ModelOp model, OwningOpRef<Op> &fallback) {
  for (auto op : model.getBody().getOps<Op>()) {
    return op;
  }
  OpBuilder b(model.getContext());
  OperationState state(model.getLoc(), Op::getOperationName());
  fallback = cast<Op>(Operation::create(state));
  return *fallback;
}

/// Returns a dictionary for each group of weights: its pattern, the names of its weights, the ratio
/// of its rate to the training's, and the rate and the decay if it sets them.
static ArrayAttr getGroupsAttr(spec::ModelOp model) {
  Builder b(model.getContext());
  SmallVector<Attribute> groups;
  for (auto group : model.getBody().getOps<spec::GroupOp>()) {
    SmallVector<Attribute> weights;
    for (auto weight : model.getBody().getOps<spec::WeightOp>()) {
      if (weight.getGroup() == static_cast<int64_t>(groups.size())) {
        weights.push_back(b.getStringAttr(weight.getSymName()));
      }
    }
    NamedAttrList settings;
    settings.set("match", b.getStringAttr(group.getMatch()));
    settings.set("weights", b.getArrayAttr(weights));
    settings.set("factor", b.getF64FloatAttr(group.computeRateFactor()));
    if (std::optional<double> rate = group.getLearningRate()) {
      settings.set("learning_rate", b.getF64FloatAttr(*rate));
    }
    if (std::optional<double> decay = group.getWeightDecay()) {
      settings.set("weight_decay", b.getF64FloatAttr(*decay));
    }
    groups.push_back(settings.getDictionary(b.getContext()));
  }
  return b.getArrayAttr(groups);
}

static DictionaryAttr getTrainingAttr(spec::ModelOp model) {
  Builder b(model.getContext());
  OwningOpRef<spec::TrainingOp> usualTraining;
  OwningOpRef<spec::ScheduleOp> usualSchedule;
  spec::TrainingOp training = getSettings(model, usualTraining);
  spec::ScheduleOp schedule = getSettings(model, usualSchedule);
  SmallVector<NamedAttribute> all;
  auto addNumber = [&](StringRef name, double value) {
    all.push_back(b.getNamedAttr(name, b.getF64FloatAttr(value)));
  };
  auto addText = [&](StringRef name, StringRef value) {
    all.push_back(b.getNamedAttr(name, b.getStringAttr(value)));
  };
  addText("optimizer", spec::stringifyOptimizerKind(training.getOptimizer()));
  addText("schedule", spec::stringifyScheduleShape(schedule.getKind()));
  addNumber("learning_rate", training.getLearningRate());
  addNumber("beta1", training.getBetas()[0]);
  addNumber("beta2", training.getBetas()[1]);
  addNumber("epsilon", training.getEpsilon());
  addNumber("weight_decay", training.getWeightDecay());
  addNumber("clip", training.getClip());
  addNumber("warmup", static_cast<double>(schedule.getWarmupOrDefault()));
  addNumber("steps", static_cast<double>(schedule.getSteps()));
  addNumber("floor", schedule.getFloor());
  for (auto fall : model.getBody().getOps<spec::FallOp>()) {
    addNumber("then_from", schedule.computeLastRate());
    addNumber("then_steps", static_cast<double>(fall.getSteps()));
    addNumber("then_floor", fall.getFloor());
  }
  if (training.getOrder() == spec::DataOrder::cyclic) {
    addText("order", "cyclic");
  }
  if (ArrayAttr groups = getGroupsAttr(model); !groups.empty()) {
    all.push_back(b.getNamedAttr("groups", groups));
  }
  return b.getDictionaryAttr(all);
}

void spec_to_sluice::setModuleAttributes(Operation *module, spec::ModelOp model) {
  Builder b(model.getContext());
  auto number = [&](int64_t value) { return b.getI64IntegerAttr(value); };
  setFact<SluiceDialect::BatchAttrHelper>(module, number(model.getBatch()));
  setFact<SluiceDialect::ContextAttrHelper>(module, number(model.getLength()));
  setFact<SluiceDialect::VocabularyAttrHelper>(module, number(model.getVocabulary()));
  setFact<SluiceDialect::WidthAttrHelper>(module, number(model.getWidth()));
  setFact<SluiceDialect::SeedAttrHelper>(module, number(model.getSeed()));
  for (auto head : model.getBody().getOps<spec::HeadOp>()) {
    if (int64_t factor = getRowsType(head).getFactor(); factor > 1) {
      // The head does not predict the next token.
      setFact<SluiceDialect::GroupAttrHelper>(module, number(factor));
    }
  }
  setFact<SluiceDialect::NameAttrHelper>(module, b.getStringAttr(model.getName().value_or("")));
  setFact<SluiceDialect::TrainingAttrHelper>(module, getTrainingAttr(model));
  for (auto training : model.getBody().getOps<spec::TrainingOp>()) {
    if (training.getAccumulate() > 1) {
      setFact<SluiceDialect::AccumulateAttrHelper>(module, number(training.getAccumulate()));
    }
  }
}

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

/// Adds one parameter that has `parts` one after the other along dimension 0.
static void addParameter(ImplicitLocOpBuilder &b, ArrayRef<spec::WeightOp> parts) {
  spec::WeightOp first = parts.front();
  SmallVector<int64_t> shape(first.getShape()), sizes;
  SmallVector<Attribute> names;
  shape[0] = 0;
  for (spec::WeightOp part : parts) {
    shape[0] += part.getShape()[0];
    sizes.push_back(part.getShape()[0]);
    names.push_back(b.getStringAttr(part.getSymName()));
  }
  b.setLoc(first.getLoc());
  ParameterOp::create(b, first.getParameter().value_or(first.getSymName()),
                      RankedTensorType::get(shape, b.getF32Type()), b.getArrayAttr(names), sizes,
                      spec::stringifyInitialValues(first.getInitial()),
                      llvm::APFloat(first.getDeviation()), llvm::APFloat(10000.0),
                      first.getDecay() && !first.getFrozen(), /*frozen=*/false, /*stride=*/1,
                      DenseI64ArrayAttr(), first.getFrozen());
}

void spec_to_sluice::addParameters(ImplicitLocOpBuilder &b, spec::ModelOp model) {
  SmallVector<spec::WeightOp> parts;
  for (auto weight : model.getBody().getOps<spec::WeightOp>()) {
    bool isPart = !parts.empty() && weight.getParameter() &&
                  weight.getParameter() == parts.front().getParameter();
    if (!isPart && !parts.empty()) {
      addParameter(b, parts);
      parts.clear();
    }
    parts.push_back(weight);
  }
  if (!parts.empty()) {
    addParameter(b, parts);
  }
}
