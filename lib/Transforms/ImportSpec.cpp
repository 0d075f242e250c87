// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The module around the stages: scales, parameters, training, functions.
#include "sluice/Transforms/ImportSpec.h"
#include "ImportStages.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include <set>

using namespace mlir;
using namespace sluice;
using namespace sluice::importing;

namespace {

class Importer {
public:
  Importer(MLIRContext &context, const spec::Model &model)
      : model(model), primitives(spec::expand(model)),
        b(locationOf(&context, model.location), &context) {}

  OwningOpRef<ModuleOp> run();

private:
  void setAttributes(ModuleOp module);
  DictionaryAttr training();
  void addScales();
  void addParameters();
  size_t addPacked(const std::vector<spec::Tensor> &tensors, size_t first);
  void addParameter(const std::string &symbol, ArrayRef<const spec::Tensor *> parts);
  void addTables();
  void addTable(const std::string &name, ArrayRef<int64_t> shape, StringRef initial, double base,
                int64_t stride = 1, ArrayRef<int64_t> members = {});
  void addSegments();
  void addFunction(StringRef name, Purpose purpose);
  bool trainsOtherwise() const;

  const spec::Model &model;
  std::vector<spec::Primitive> primitives;
  ImplicitLocOpBuilder b;
};

} // namespace

DictionaryAttr Importer::training() {
  const spec::Training &t = model.training;
  auto real = [&](StringRef name, double value) {
    return b.getNamedAttr(name, b.getF64FloatAttr(value));
  };
  auto text = [&](StringRef name, StringRef value) {
    return b.getNamedAttr(name, b.getStringAttr(value));
  };
  SmallVector<NamedAttribute> all = {
      text("optimizer", t.optimizer == spec::Optimizer::Adam ? "adam" : "adamw"),
      text("schedule", spec::scheduleNames[static_cast<size_t>(t.schedule.kind)]),
      real("learning_rate", t.learningRate),
      real("beta1", t.beta1),
      real("beta2", t.beta2),
      real("epsilon", t.epsilon),
      real("weight_decay", t.weightDecay),
      real("clip", t.clip),
      real("warmup", static_cast<double>(t.schedule.warmup)),
      real("steps", static_cast<double>(t.schedule.steps)),
      real("floor", t.schedule.floor),
  };
  if (const auto &then = t.schedule.then) {
    all.push_back(real("then_from", t.schedule.last()));
    all.push_back(real("then_steps", static_cast<double>(then->steps)));
    all.push_back(real("then_floor", then->floor));
  }
  if (t.cyclic) {
    all.push_back(text("order", "cyclic"));
  }
  return b.getDictionaryAttr(all);
}

void Importer::setAttributes(ModuleOp module) {
  auto integer = [&](StringRef name, int64_t value) {
    module->setAttr(name, b.getI64IntegerAttr(value));
  };
  integer("sluice.batch", model.batch);
  integer("sluice.context", model.context);
  integer("sluice.vocabulary", model.vocabulary);
  integer("sluice.width", model.width);
  integer("sluice.seed", model.seed);
  if (primitives.back().factor > 1) { // the head's: what it predicts is no next token
    integer("sluice.group", primitives.back().factor);
  }
  module->setAttr("sluice.name", b.getStringAttr(model.name));
  module->setAttr("sluice.training", training());
  if (model.training.accumulate > 1) {
    integer(accumulateName, model.training.accumulate);
  }
}

void Importer::addScales() {
  AxisOp::create(b, "target", IntegerAttr(), IntegerAttr(), FlatSymbolRefAttr(), IntegerAttr());
  std::set<int64_t> factors = {1};
  for (const spec::Primitive &primitive : primitives) {
    if (!primitive.segments.empty()) {
      continue;
    }
    factors.insert({primitive.factor, spec::distanceStep(primitives, primitive)});
    const auto *layer = std::get_if<spec::Layer>(&primitive.settings);
    for (size_t i = 0; layer && i < layer->groups.size(); ++i) {
      factors.insert(primitive.factor * layer->groups[i].factor);
    }
  }
  for (int64_t factor : factors) {
    ScaleOp::create(b, scaleName(factor), "target", factor);
  }
  ScaleOp::create(b, lastScale, "target", 0);
  for (const spec::Input &input : model.inputs) {
    b.setLoc(locationOf(b.getContext(), input.location));
    AxisOp::create(b, input.name, b.getI64IntegerAttr(input.context),
                   b.getI64IntegerAttr(input.vocabulary), FlatSymbolRefAttr(), IntegerAttr());
    ScaleOp::create(b, scaleName(1, input.name), input.name, 1);
  }
  addSegments();
}

/// An axis for the segments that each boundaries stage makes, and the scales on it.
void Importer::addSegments() {
  for (const spec::Primitive &primitive : primitives) {
    if (const auto *made = std::get_if<spec::Boundaries>(&primitive.settings)) {
      b.setLoc(locationOf(b.getContext(), primitive.location));
      auto cut =
          FlatSymbolRefAttr::get(b.getContext(), scaleName(primitive.factor, primitive.segments));
      AxisOp::create(b, made->name, IntegerAttr(), IntegerAttr(), cut,
                     b.getI64IntegerAttr(made->capacity + made->spare));
      std::set<int64_t> factors = {1};
      for (const spec::Primitive &on : primitives) {
        if (on.segments == made->name) {
          factors.insert({on.factor, spec::distanceStep(primitives, on)});
        }
      }
      for (int64_t factor : factors) {
        ScaleOp::create(b, scaleName(factor, made->name), made->name, factor);
      }
    }
  }
}

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

/// One parameter made of `parts`, stored one after the other along dimension 0.
void Importer::addParameter(const std::string &symbol, ArrayRef<const spec::Tensor *> parts) {
  const spec::Tensor &first = *parts.front();
  SmallVector<int64_t> shape = llvm::to_vector(first.shape), sizes;
  SmallVector<Attribute> names;
  shape[0] = 0;
  for (const spec::Tensor *part : parts) {
    shape[0] += part->shape[0];
    sizes.push_back(part->shape[0]);
    names.push_back(b.getStringAttr(part->name));
  }
  StringRef initial = spec::initialNames[static_cast<size_t>(first.initial.kind)];
  b.setLoc(locationOf(b.getContext(), primitives[static_cast<size_t>(first.stage)].location));
  ParameterOp::create(b, symbol, RankedTensorType::get(shape, b.getF32Type()),
                      b.getArrayAttr(names), sizes, initial, llvm::APFloat(first.initial.deviation),
                      llvm::APFloat(10000.0), first.decay && !first.isFrozen, /*frozen=*/false,
                      /*stride=*/1, DenseI64ArrayAttr(), first.isFrozen);
}

/// Query, key and value, or where queries are apart key and value, which stand one after the other
/// and begin alike: one parameter. Returns the tensors it used.
size_t Importer::addPacked(const std::vector<spec::Tensor> &tensors, size_t first) {
  const spec::Primitive &stage = primitives[static_cast<size_t>(tensors[first].stage)];
  const auto *layer = std::get_if<spec::Layer>(&stage.settings);
  if (!layer) {
    return 0;
  }
  bool isApart = layer->hasOwnQueries();
  StringRef part = isApart ? ".key." : ".query.", packed = isApart ? ".kv." : ".qkv.";
  StringRef name = tensors[first].name;
  size_t at = name.rfind(part);
  if (at == StringRef::npos) {
    return 0;
  }
  SmallVector<const spec::Tensor *> parts;
  for (size_t i = 0, count = isApart ? 2 : 3; i < count; ++i) {
    parts.push_back(&tensors[first + i]);
  }
  addParameter((name.take_front(at) + packed + name.drop_front(at + part.size())).str(), parts);
  return parts.size();
}

void Importer::addParameters() {
  std::vector<spec::Tensor> tensors = spec::tensors(model, primitives);
  for (size_t i = 0; i < tensors.size();) {
    size_t packed = addPacked(tensors, i);
    if (packed == 0) {
      addParameter(tensors[i].name, {&tensors[i]});
    }
    i += std::max<size_t>(packed, 1);
  }
}

void Importer::addTable(const std::string &name, ArrayRef<int64_t> shape, StringRef initial,
                        double base, int64_t stride, ArrayRef<int64_t> members) {
  ParameterOp::create(b, name, RankedTensorType::get(shape, b.getF32Type()),
                      b.getStrArrayAttr({name}), ArrayRef<int64_t>(shape[0]), initial,
                      llvm::APFloat(0.0), llvm::APFloat(base), /*decay=*/false,
                      /*frozen=*/true, stride,
                      initial == "members" ? b.getDenseI64ArrayAttr(members) : DenseI64ArrayAttr());
}

/// Tables of constants that stages read, one of each kind.
void Importer::addTables() {
  std::set<std::string> known;
  int64_t sinusoids = 0;                    // positions, of the longest axis that has them
  std::map<std::string, int64_t> distances; // by table, of the layer that has most
  auto tableOf = [&](const spec::Primitive &layer) {
    return distancesName(model, spec::distanceStep(primitives, layer), layer.width,
                         std::get<spec::Layer>(layer.settings).countsRows);
  };
  for (const spec::Primitive &primitive : primitives) {
    if (const auto *layer = std::get_if<spec::Layer>(&primitive.settings); layer && layer->isXl()) {
      int64_t &most = distances[tableOf(primitive)];
      most = std::max(most, spec::distanceCount(model, primitives, primitive));
    }
  }
  for (const spec::Primitive &primitive : primitives) {
    b.setLoc(locationOf(b.getContext(), primitive.location));
    if (const auto *layer = std::get_if<spec::Layer>(&primitive.settings);
        layer && layer->rotaryBase) {
      int64_t positions = spec::positionsOf(model, primitive);
      std::string name = rotaryName(*layer->rotaryBase, layer->headSize, positions);
      if (known.insert(name).second) {
        addTable(name, {positions, layer->headSize}, "rotary", *layer->rotaryBase);
      }
    }
    if (const auto *layer = std::get_if<spec::Layer>(&primitive.settings); layer && layer->isXl()) {
      std::string name = tableOf(primitive);
      if (known.insert(name).second) {
        addTable(name, {distances[name], primitive.width}, "sinusoidal", 10000,
                 layer->countsRows ? 1 : spec::distanceStep(primitives, primitive));
      }
    }
    if (const auto *layer = std::get_if<spec::Layer>(&primitive.settings); layer && layer->lsh) {
      addTable(rotationsName(primitive),
               {layer->lsh->hashes * layer->lsh->buckets / 2, layer->heads * layer->headSize},
               "rotations", 0);
    }
    const auto *made = std::get_if<spec::Boundaries>(&primitive.settings);
    bool hasTable = made && made->rule && made->rule != spec::BoundaryRule::Labels &&
                    made->rule != spec::BoundaryRule::Entropy &&
                    made->rule != spec::BoundaryRule::CodingRate;
    if (hasTable && known.insert(boundariesName(primitive)).second) {
      bool isEvery = *made->rule == spec::BoundaryRule::Every;
      int64_t rows = isEvery ? spec::positionsOf(model, primitive) : model.vocabulary;
      addTable(boundariesName(primitive), {rows, 1}, "members", 0, 1, membersOf(*made, rows));
    }
    if (made && made->documentEnd && known.insert(documentEndName(*made)).second) {
      addTable(documentEndName(*made), {model.vocabulary, 1}, "members", 0, 1,
               {*made->documentEnd});
    }
    bool knowsFirst =
        made && ((made->begins && (made->hidden > 0 || made->rule != spec::BoundaryRule::Every)) ||
                 made->spike > 0);
    if (knowsFirst && known.insert(firstName(model, primitive)).second) {
      addTable(firstName(model, primitive), {spec::positionsOf(model, primitive), 1}, "members", 0,
               1, {0});
    }
    const auto *embedding = std::get_if<spec::Embedding>(&primitive.settings);
    if (embedding && embedding->positions == spec::Positions::Sinusoidal) {
      sinusoids = std::max(sinusoids, model.contextOf(embedding->input));
    }
  }
  if (sinusoids > 0) {
    addTable(sinusoidalName.str(), {sinusoids, model.width}, "sinusoidal", 10000);
  }
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

/// With dropout, smoothed labels, a head with a target, weights or drawn boundaries, what is
/// trained is not what is evaluated.
bool Importer::trainsOtherwise() const {
  return llvm::any_of(primitives, [](const spec::Primitive &primitive) {
    if (const auto *layer = std::get_if<spec::Layer>(&primitive.settings)) {
      return layer->dropout > 0 || layer->attentionDropout > 0;
    }
    if (const auto *embedding = std::get_if<spec::Embedding>(&primitive.settings)) {
      return embedding->dropout > 0;
    }
    if (const auto *head = std::get_if<spec::Head>(&primitive.settings)) {
      return head->labelSmoothing > 0 || !head->target.empty() || !head->weights.empty();
    }
    if (const auto *loss = std::get_if<spec::Loss>(&primitive.settings)) {
      return loss->head.labelSmoothing > 0 || !loss->head.weights.empty();
    }
    if (const auto *made = std::get_if<spec::Boundaries>(&primitive.settings)) {
      return (made->hidden > 0 && !made->rule) || made->moving;
    }
    const auto *dropout = std::get_if<spec::Dropout>(&primitive.settings);
    return dropout && dropout->rate > 0;
  });
}

void Importer::addFunction(StringRef name, Purpose purpose) {
  b.setLoc(locationOf(b.getContext(), model.location));
  auto scale = FlatSymbolRefAttr::get(b.getContext(), scaleName(1));
  auto tokens = SequenceType::get(b.getContext(), scale, 0, b.getI32Type());
  SmallVector<Type> arguments = {tokens};
  for (const spec::Input &input : model.inputs) {
    auto own = FlatSymbolRefAttr::get(b.getContext(), scaleName(1, input.name));
    arguments.push_back(SequenceType::get(b.getContext(), own, 0, b.getI32Type()));
  }
  auto function = func::FuncOp::create(b, name, b.getFunctionType(arguments, {}));
  function.addEntryBlock();
  StageWriter writer(function, model, purpose);
  for (const spec::Primitive &primitive : primitives) {
    writer.write(primitive);
  }
  writer.finish();
}

OwningOpRef<ModuleOp> Importer::run() {
  OwningOpRef<ModuleOp> module = ModuleOp::create(b.getLoc());
  setAttributes(*module);
  b.setInsertionPointToEnd(module->getBody());
  addScales();
  addParameters();
  addTables();
  addFunction("evaluate", Purpose::Evaluate);
  addFunction("predict", Purpose::Predict);
  if (trainsOtherwise()) {
    addFunction("train", Purpose::Train);
  }
  return module;
}

OwningOpRef<ModuleOp> sluice::importSpec(MLIRContext &context, const spec::Model &model) {
  context.loadDialect<SluiceDialect, dispatch::DispatchDialect, func::FuncDialect,
                      arith::ArithDialect, math::MathDialect>();
  return Importer(context, model).run();
}

std::vector<ImportedVariant> sluice::importVariants(MLIRContext &context,
                                                    const spec::Model &model) {
  std::vector<ImportedVariant> variants;
  for (int64_t factor : model.factors()) {
    variants.push_back({factor, importSpec(context, model.withFactor(factor))});
  }
  if (variants.empty()) {
    variants.push_back({0, importSpec(context, model)});
  }
  return variants;
}
