// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Shapes.h"
#include "sluice/Dialect/Sluice/Sluice.h"

#include <numeric>

using namespace mlir;
using namespace sluice;
using runtime::BatchShape;

int64_t driver::getBatchTokens(const ParsedSpec &spec) {
  spec::TrainingOp training = *spec.getModel().getBody().getOps<spec::TrainingOp>().begin();
  return static_cast<int64_t>(training.getBatchTokens().value_or(0));
}

namespace {
/// Requirements of a model on its capacities.
struct CapacityLimits {
  int64_t period = 1; ///< capacities are multiples of it: of the factors of all streams
  int64_t least = 1;  ///< minimum capacity: a layer has at least as many distances as its table of
                      ///< biases, but tables of signed distances are clipped
};
} // namespace

static CapacityLimits getLimits(const ParsedSpec &spec) {
  ParsedSpec expanded = spec.expand(0);
  CapacityLimits limits;
  int64_t distances = 1;
  for (Operation &stage : expanded.getModel().getBody().getOps()) {
    for (Type type : stage.getResultTypes()) {
      if (auto stream = dyn_cast<spec::StreamType>(type)) {
        limits.period = std::lcm(limits.period, std::max<int64_t>(1, stream.getFactor()));
      }
    }
    auto layer = dyn_cast<spec::LayerOp>(stage);
    spec::RelativeAttr relative =
        layer ? layer.getRelative().value_or(spec::RelativeAttr()) : spec::RelativeAttr();
    if (relative && relative.getTerms() == spec::RelativeTerms::bias) {
      distances = std::max(distances, std::min(relative.getDistances(), layer.getDistanceCount()));
    }
  }
  limits.least = distances * limits.period;
  return limits;
}

std::vector<BatchShape> driver::chooseShapes(const ParsedSpec &spec) {
  spec::ModelOp model = spec.getModel();
  int64_t tokens = getBatchTokens(spec);
  if (tokens == 0) {
    return {};
  }
  BatchShape shape{1, 1, static_cast<int64_t>(model.getLength()), {}};
  int64_t longest = shape.context, shortest = shape.context, shared = shape.context;
  for (auto input : model.getBody().getOps<spec::InputOp>()) {
    if (input.ownsAxis()) {
      int64_t capacity = model.getContextOfInput(input.getSymName());
      shape.given[input.getSymName().str()] = capacity;
      longest = std::max(longest, capacity);
      shortest = std::min(shortest, capacity);
      shared = std::gcd(shared, capacity);
    }
  }
  auto mostRows = static_cast<int64_t>(model.getBatch());
  CapacityLimits limits = getLimits(spec);
  std::vector<BatchShape> shapes;
  while (true) {
    shape.rows = std::min(mostRows, tokens / longest);
    shapes.push_back(shape);
    bool isHalved = shared % (2 * limits.period) == 0 && shortest / 2 >= limits.least;
    if (shape.rows == mostRows || !isHalved) {
      return shapes;
    }
    shape.parts *= 2;
    shape.context /= 2;
    longest /= 2;
    shortest /= 2;
    shared /= 2;
    for (auto &[name, capacity] : shape.given) {
      capacity /= 2;
    }
  }
}

llvm::json::Array driver::shapesToJson(const std::vector<BatchShape> &shapes) {
  llvm::json::Array list;
  for (const BatchShape &shape : shapes) {
    llvm::json::Object inputs;
    for (const auto &[name, capacity] : shape.given) {
      inputs[name] = capacity;
    }
    list.push_back(llvm::json::Object{
        {"rows", shape.rows}, {"context", shape.context}, {"inputs", std::move(inputs)}});
  }
  return list;
}

/// Sets the capacities of a module of the first shape.
static void setShape(ModuleOp module, const BatchShape &shape) {
  Builder b(module.getContext());
  setFact<SluiceDialect::BatchAttrHelper>(module, b.getI64IntegerAttr(shape.rows));
  setFact<SluiceDialect::ContextAttrHelper>(module, b.getI64IntegerAttr(shape.context));
  setFact<SluiceDialect::DrawPartsAttrHelper>(module, b.getI64IntegerAttr(shape.parts));
  for (auto axis : module.getOps<AxisOp>()) { // outer axes come first
    if (axis.getCapacity()) {
      axis.setCapacity(shape.given.at(axis.getSymName().str()));
    } else if (axis.getSegments()) {
      // A row of the input each, also where the rule has fewer segments: capacities of all shapes,
      // and so the indices of random numbers, then have the ratio `parts`.
      auto rows = SequenceType::get(b.getContext(), axis.getSegmentsAttr(), 0, b.getF32Type());
      axis.setRows(getPositions(module, rows));
    }
  }
}

void driver::addShapes(std::vector<ImportedVariant> &variants,
                       const std::vector<BatchShape> &shapes) {
  for (const BatchShape &shape : shapes) {
    auto number = static_cast<int64_t>(&shape - shapes.data());
    if (number > 0) {
      ModuleOp first = *variants.front().module;
      variants.push_back({0, cast<ModuleOp>(first->clone()), number});
    }
    setShape(*variants.back().module, shape);
  }
}
