// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "SpecFacts.h"
#include "sluice/Dialect/Sluice/Origin.h"
#include "sluice/Dialect/Sluice/Sluice.h"
#include "sluice/Driver/SpecFacts.h"
#include "sluice/Spec/Expansion.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace sluice;
namespace json = llvm::json;

static StringRef getTypeName(spec::NumberType type) {
  return type == spec::NumberType::Bf16 ? "bf16" : "f32";
}

static json::Object getOptimizer(const spec::Training &training) {
  return json::Object{{"kind", training.optimizer == spec::Optimizer::Adam ? "adam" : "adamw"},
                      {"learning_rate", training.learningRate},
                      {"beta1", training.beta1},
                      {"beta2", training.beta2},
                      {"epsilon", training.epsilon},
                      {"weight_decay", training.weightDecay},
                      {"clip", training.clip}};
}

static json::Object getSchedule(const spec::Schedule &schedule) {
  json::Object object{{"kind", StringRef(spec::scheduleNames[static_cast<size_t>(schedule.kind)])},
                      {"warmup", schedule.warmup},
                      {"steps", schedule.steps},
                      {"floor", schedule.floor}};
  if (schedule.then) {
    object["then"] = json::Object{{"steps", schedule.then->steps}, {"floor", schedule.then->floor}};
  }
  return object;
}

/// Returns one origin of each stage that @predict computes rows of.
static SmallVector<OriginAttr> listComputed(ModuleOp imported) {
  SmallVector<OriginAttr> computed;
  llvm::StringSet<> stages;
  for (Operation &op : imported.lookupSymbol<func::FuncOp>("predict").getBody().front()) {
    OriginAttr origin = getOrigin(&op);
    bool hasRows = op.getNumResults() > 0 && isa<SequenceType>(op.getResult(0).getType());
    if (origin && hasRows && stages.insert(origin.getStage()).second) {
      computed.push_back(origin);
    }
  }
  return computed;
}

/// The stage that computes the rows of `stage`: another one where it has no ops, as dropout outside
/// training.
static const spec::Primitive &findComputed(const std::vector<spec::Primitive> &stages,
                                           const spec::Primitive &stage,
                                           ArrayRef<OriginAttr> computed) {
  const spec::Primitive *at = &stage;
  auto isWithin = [&](OriginAttr origin) { return origin.isWithin(at->prefix); };
  while (llvm::none_of(computed, isWithin) && at->input >= 0) {
    at = &stages[static_cast<size_t>(at->input)];
  }
  return *at;
}

static json::Array getStreams(const std::vector<spec::Primitive> &stages, ModuleOp imported) {
  SmallVector<OriginAttr> computed = imported ? listComputed(imported) : SmallVector<OriginAttr>();
  json::Array streams;
  for (const spec::Primitive &stage : stages) {
    bool hasRows = stage.op() != spec::Op::Head && stage.op() != spec::Op::Loss &&
                   stage.op() != spec::Op::Boundaries;
    json::Object stream{{"stage", stage.prefix}, {"factor", stage.factor}};
    if (!stage.axis.empty()) {
      stream["rows"] = "input";
      stream["of"] = stage.axis;
    } else if (!stage.segments.empty()) {
      stream["rows"] = "segments";
      stream["of"] = stage.segments;
    } else if (!hasRows) {
      stream["rows"] = "none";
    } else if (const spec::Primitive &other = findComputed(stages, stage, computed);
               imported && other.id != stage.id) {
      stream["value"] = other.prefix;
    }
    streams.push_back(std::move(stream));
  }
  return streams;
}

/// The op of a boundaries stage whose result has the numbers: the last one before bits are cut.
static std::string getBitsName(const spec::Primitive &stage, const spec::Boundaries &made) {
  if (made.hidden > 0) {
    return stage.prefix + ".out";
  }
  bool isChange = made.rule == spec::BoundaryRule::SpaceLike;
  bool isForced = made.begins && made.rule != spec::BoundaryRule::Every;
  return stage.prefix + (isForced           ? ".begun"
                         : made.documentEnd ? ".ended"
                         : isChange         ? ".change"
                                            : ".rule");
}

static json::Array getBoundaries(const std::vector<spec::Primitive> &stages) {
  json::Array all;
  for (const spec::Primitive &stage : stages) {
    const auto *made = std::get_if<spec::Boundaries>(&stage.settings);
    if (!made) {
      continue;
    }
    json::Object object{{"name", made->name},
                        {"value", getBitsName(stage, *made)},
                        {"numbers", made->hidden > 0  ? "logits"
                                    : made->ratio > 0 ? "probabilities"
                                                      : "bits"},
                        {"factor", stage.factor}};
    if (double shift = made->computeLogitShift(); shift != 0) {
      object["shift"] = shift;
    }
    if (!stage.segments.empty()) {
      object["parent"] = stage.segments;
    }
    if (made->begins) {
      object["begins"] = true;
    }
    if (made->documentEnd) {
      object["document_end"] = *made->documentEnd;
    }
    all.push_back(std::move(object));
  }
  return all;
}

json::Object driver::getSpecFacts(const spec::Model &model, ModuleOp imported) {
  std::vector<spec::Primitive> stages = spec::expand(model);
  json::Array names;
  for (const spec::Stage &stage : model.stages) {
    if (!stage.to.empty()) {
      names.push_back(json::Object{{"name", stage.to}, {"stage", stage.prefix}});
    }
  }
  return json::Object{
      {"precision", json::Object{{"compute", getTypeName(model.precision.compute)},
                                 {"residual", getTypeName(model.precision.residual)}}},
      {"optimizer", getOptimizer(model.training)},
      {"schedule", getSchedule(model.training.schedule)},
      {"streams", getStreams(stages, imported)},
      {"names", std::move(names)},
      {"boundaries", getBoundaries(stages)}};
}

bool driver::trainsOnTokens(ModuleOp imported) {
  auto function = imported.lookupSymbol<func::FuncOp>("train");
  function = function ? function : imported.lookupSymbol<func::FuncOp>("evaluate");
  Value losses = function.getBody().front().getTerminator()->getOperand(0); // the head's lead
  while (auto weighted = losses.getDefiningOp<MapOp>()) {
    losses = weighted.getInputs().front();
  }
  auto head = losses.getDefiningOp<CrossEntropyOp>();
  return !head || (head.getSmoothing().isZero() && head.getTarget().empty());
}

std::optional<driver::SpecDescription> driver::describeSpec(const std::string &path) {
  spec::Diagnostic ignored;
  std::optional<spec::Model> model = spec::readFile(path, ignored);
  if (!model) {
    return std::nullopt;
  }
  SpecDescription description;
  description.model.name = model->name;
  description.model.vocabulary = model->vocabulary;
  description.model.context = model->context;
  description.model.batch = model->batch;
  description.model.width = model->width;
  description.model.seed = model->seed;
  description.model.parameters = spec::parameterCount(*model);
  description.model.spec = model->text;
  std::string facts;
  llvm::raw_string_ostream(facts) << json::Value(getSpecFacts(*model, {}));
  description.facts = runtime::parseSpecFacts(facts, path);
  return description;
}
