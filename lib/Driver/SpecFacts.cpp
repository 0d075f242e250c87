// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "SpecFacts.h"
#include "Shapes.h"
#include "sluice/Dialect/Sluice/Origin.h"
#include "sluice/Dialect/Sluice/Sluice.h"
#include "sluice/Driver/SpecFacts.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace sluice;
namespace json = llvm::json;

static json::Object getPrecision(spec::PrecisionOp precision) {
  return json::Object{{"compute", stringifyStorageType(precision.getCompute())},
                      {"residual", stringifyStorageType(precision.getResidual())}};
}

static json::Object getOptimizer(spec::TrainingOp training) {
  return json::Object{{"kind", stringifyOptimizerKind(training.getOptimizer())},
                      {"learning_rate", training.getLearningRate()},
                      {"beta1", training.getBetas()[0]},
                      {"beta2", training.getBetas()[1]},
                      {"epsilon", training.getEpsilon()},
                      {"weight_decay", training.getWeightDecay()},
                      {"clip", training.getClip()}};
}

static json::Object getSchedule(spec::ModelOp model) {
  spec::ScheduleOp schedule = *model.getBody().getOps<spec::ScheduleOp>().begin();
  json::Object object{{"kind", stringifyScheduleShape(schedule.getKind())},
                      {"warmup", schedule.getWarmupOrDefault()},
                      {"steps", schedule.getSteps()},
                      {"floor", schedule.getFloor()}};
  for (auto fall : model.getBody().getOps<spec::FallOp>()) {
    object["then"] = json::Object{{"steps", fall.getSteps()}, {"floor", fall.getFloor()}};
  }
  return object;
}

static StringRef getPath(Operation *stage) {
  return cast<spec::StageInterface>(stage).getPathAttr().getValue();
}

static json::Array getNames(spec::ModelOp model) {
  json::Array names;
  for (auto stage : model.getBody().getOps<spec::StageInterface>()) {
    if (StringAttr name = stage.getToAttr()) {
      names.push_back(json::Object{{"name", name.getValue()}, {"stage", getPath(stage)}});
    }
  }
  return names;
}

/// Returns one origin of each stage whose rows @predict computes, or @evaluate without a head.
static SmallVector<OriginAttr> listComputed(ModuleOp imported) {
  SmallVector<OriginAttr> computed;
  llvm::StringSet<> stages;
  auto function = imported.lookupSymbol<func::FuncOp>("predict");
  function = function ? function : imported.lookupSymbol<func::FuncOp>("evaluate");
  for (Operation &op : function.getBody().front()) {
    OriginAttr origin = getOrigin(&op);
    bool hasRows = op.getNumResults() > 0 && isa<SequenceType>(op.getResult(0).getType());
    if (origin && hasRows && stages.insert(origin.getStage()).second) {
      computed.push_back(origin);
    }
  }
  return computed;
}

/// Returns the stage that computes the rows of `stage`: an earlier stage if it has no ops, such as
/// dropout outside training.
static Operation *findComputed(Operation *stage, ArrayRef<OriginAttr> computed) {
  auto isComputed = [&](Operation *at) {
    return llvm::any_of(computed, [&](OriginAttr origin) { return origin.isWithin(getPath(at)); });
  };
  while (!isComputed(stage) && stage->getNumOperands() > 0) {
    stage = stage->getOperand(0).getDefiningOp();
  }
  return stage;
}

/// Returns the type of the result or, for a stage without a result, of the input.
static spec::StreamType getStream(Operation *stage) {
  auto result = stage->getNumResults() > 0
                    ? dyn_cast<spec::StreamType>(stage->getResult(0).getType())
                    : spec::StreamType();
  return result ? result : cast<spec::StreamType>(stage->getOperand(0).getType());
}

static json::Array getStreams(spec::ModelOp expanded, ModuleOp imported) {
  SmallVector<OriginAttr> computed = imported ? listComputed(imported) : SmallVector<OriginAttr>();
  json::Array streams;
  for (auto stage : expanded.getBody().getOps<spec::StageInterface>()) {
    spec::StreamType type = getStream(stage);
    json::Object stream{{"stage", getPath(stage)},
                        {"factor", type.getFactor()},
                        {"op", stage->getName().stripDialect()}};
    if (type.getAxis() != spec::AxisKind::tokens) {
      stream["rows"] = stringifyAxisKind(type.getAxis());
      stream["of"] = type.getName().getValue();
    } else if (isa<spec::HeadOp, spec::LossOp, spec::ContrastOp, spec::BoundariesOp>(stage)) {
      stream["rows"] = "none";
    } else if (Operation *other = imported ? findComputed(stage, computed) : stage;
               other != stage) {
      stream["value"] = getPath(other);
    }
    streams.push_back(std::move(stream));
  }
  return streams;
}

/// Returns the name of the op of a boundaries stage whose result has the numbers: the last op
/// before the bits of segments.
static std::string getBitsName(spec::BoundariesOp cut) {
  bool isForced = cut.beginsSegments() && cut.getRule() != spec::SegmentRule::every;
  const char *part = cut.getPredictor()                               ? ".out"
                     : isForced                                       ? ".begun"
                     : cut.getDocumentEnd()                           ? ".ended"
                     : cut.getRule() == spec::SegmentRule::space_like ? ".change"
                                                                      : ".rule";
  return (getPath(cut) + part).str();
}

/// Returns the inputs whose lines need more, or less, than a file.
static json::Array getInputs(spec::ModelOp model) {
  json::Array all;
  for (auto input : model.getBody().getOps<spec::InputOp>()) {
    json::Object facts{{"name", input.getSymName()}};
    if (input.getEnd()) {
      facts["end"] = true;
    }
    if (input.getDerived() && input.getRule()) {
      facts["derived"] = stringifyDerivedBits(*input.getDerived());
      facts["rule"] = stringifyWordRule(*input.getRule());
    }
    if (input.getPattern()) {
      facts["pattern"] = stringifyEdgePattern(*input.getPattern());
    }
    if (facts.size() > 1) {
      all.push_back(std::move(facts));
    }
  }
  return all;
}

static json::Array getBoundaries(spec::ModelOp expanded) {
  json::Array all;
  for (auto cut : expanded.getBody().getOps<spec::BoundariesOp>()) {
    spec::StreamType stream = getStream(cut);
    if (stream.getAxis() == spec::AxisKind::input) { // no report shows them
      continue;
    }
    json::Object object{{"name", cut.getName()},
                        {"value", getBitsName(cut)},
                        {"numbers", cut.getPredictor() ? "logits"
                                    : cut.getRatio()   ? "probabilities"
                                                       : "bits"},
                        {"factor", stream.getFactor()}};
    if (double shift = cut.computeLogitShift(); shift != 0) {
      object["shift"] = shift;
    }
    if (stream.getAxis() == spec::AxisKind::segments) {
      object["parent"] = stream.getName().getValue();
    }
    if (cut.beginsSegments()) {
      object["begins"] = true;
    }
    if (std::optional<int64_t> token = cut.getDocumentEnd()) {
      object["document_end"] = *token;
    }
    all.push_back(std::move(object));
  }
  return all;
}

json::Object driver::getSpecFacts(const ParsedSpec &spec, int64_t factor, ModuleOp imported) {
  ParsedSpec expanded = spec.expand(factor);
  spec::ModelOp model = expanded.getModel();
  json::Object facts{
      {"precision", getPrecision(*model.getBody().getOps<spec::PrecisionOp>().begin())},
      {"optimizer", getOptimizer(*model.getBody().getOps<spec::TrainingOp>().begin())},
      {"schedule", getSchedule(model)},
      {"streams", getStreams(model, imported)},
      {"names", getNames(spec.getModel())},
      {"boundaries", getBoundaries(model)}};
  if (json::Array inputs = getInputs(model); !inputs.empty()) {
    facts["inputs"] = std::move(inputs);
  }
  return facts;
}

bool driver::trainsOnTokens(ModuleOp imported) {
  auto function = imported.lookupSymbol<func::FuncOp>("train");
  function = function ? function : imported.lookupSymbol<func::FuncOp>("evaluate");
  // The loss of the head is first.
  Value losses = function.getBody().front().getTerminator()->getOperand(0);
  while (auto weighted = losses.getDefiningOp<MapOp>()) {
    losses = weighted.getInputs().front();
  }
  auto head = losses.getDefiningOp<CrossEntropyOp>();
  bool chooses = head && isa<SequenceType>(head.getWeight().getType()); // a contrast
  return !chooses && (!head || (head.getSmoothing().isZero() && head.getTarget().empty()));
}

std::optional<spec::Diagnostic>
driver::findSpecError(const std::string &text, const std::string &file,
                      const std::vector<spec::SpecOverride> &settings) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  spec::Diagnostic error;
  bool isValid = parseSpec(context, text, file, error, settings).has_value();
  return isValid ? std::nullopt : std::optional(error);
}

/// Describes a spec that was read; `origin` starts messages on its facts.
static driver::SpecDescription describe(const ParsedSpec &spec, const std::string &origin) {
  spec::ModelOp model = spec.getModel();
  driver::SpecDescription description;
  description.model.name = model.getName()->str();
  description.model.vocabulary = model.getVocabulary();
  description.model.context = model.getLength();
  description.batchTokens = driver::getBatchTokens(spec);
  description.shapes = driver::chooseShapes(spec);
  description.model.batch = model.getBatch();
  description.model.width = model.getWidth();
  description.model.seed = model.getSeed();
  description.model.parameters = spec.countParameters();
  description.model.spec = spec.text;
  std::string facts;
  llvm::raw_string_ostream(facts) << json::Value(driver::getSpecFacts(spec, 0, {}));
  description.facts = runtime::parseSpecFacts(facts, origin);
  description.predicts = !model.getBody().getOps<spec::HeadOp>().empty();
  for (auto training : model.getBody().getOps<spec::TrainingOp>()) {
    description.accumulate = training.getAccumulate();
    description.isCyclic = training.getOrder() == spec::DataOrder::cyclic;
  }
  return description;
}

std::optional<driver::SpecDescription>
driver::describeSpecText(const std::string &text, const std::vector<spec::SpecOverride> &settings) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  spec::Diagnostic ignored;
  std::optional<ParsedSpec> spec = parseSpec(context, text, "spec", ignored, settings);
  return spec ? std::optional(describe(*spec, "spec")) : std::nullopt;
}

std::optional<driver::SpecDescription> driver::describeSpec(const std::string &path) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  spec::Diagnostic ignored;
  std::optional<ParsedSpec> spec = parseSpecFile(context, path, ignored);
  return spec ? std::optional(describe(*spec, path)) : std::nullopt;
}

/// Returns the head size of a layer that rotates the rows of `weight`; 0 if it does not.
static int64_t getRotatedHead(spec::LayerOp layer, StringRef weight) {
  if (!layer.getRotary() || !weight.consume_front(layer.getPathAttr().getValue()) ||
      !weight.consume_front(".attention.")) {
    return 0;
  }
  // "query.weight", or of a group of heads "1.query.weight"
  bool isRotated = llvm::any_of(llvm::split(weight, '.'),
                                [](StringRef part) { return part == "query" || part == "key"; });
  return isRotated ? *layer.getHeadSize() : 0;
}

std::optional<std::vector<driver::SpecWeight>>
driver::listWeights(const std::string &text, const std::vector<spec::SpecOverride> &settings) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  spec::Diagnostic ignored;
  std::optional<ParsedSpec> spec = parseSpec(context, text, "spec", ignored, settings);
  if (!spec) {
    return std::nullopt;
  }
  ParsedSpec expanded = spec->expand(0);
  llvm::StringMap<spec::LayerOp> layers;
  for (auto layer : expanded.getModel().getBody().getOps<spec::LayerOp>()) {
    layers[layer.getPathAttr().getValue()] = layer;
  }
  std::vector<SpecWeight> weights;
  for (auto weight : expanded.getModel().getBody().getOps<spec::WeightOp>()) {
    spec::LayerOp layer = layers.lookup(weight.getPath());
    weights.push_back({weight.getSymName().str(),
                       {weight.getShape().begin(), weight.getShape().end()},
                       layer ? getRotatedHead(layer, weight.getSymName()) : 0});
  }
  return weights;
}
