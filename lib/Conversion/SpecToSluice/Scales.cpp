// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Adds axes and scales to the module.
#include "SpecToSluice.h"
#include "StageContext.h"

#include <numeric>
#include <set>

using namespace mlir;
using namespace sluice;
using namespace sluice::spec_to_sluice;

/// Adds the factors of the scales that a stage's rows and keys are on.
static void addFactors(spec::StageInterface stage, std::set<int64_t> &factors) {
  int64_t own = getRowsType(stage).getFactor();
  factors.insert(own);
  auto layer = dyn_cast<spec::LayerOp>(stage.getOperation());
  if (layer) {
    factors.insert(layer.getDistanceStep());
  }
  if (layer && layer.getScales()) {
    for (auto scale : layer.getScales()->getAsRange<spec::ScaleAttr>()) {
      factors.insert(own * scale.getFactor());
    }
  }
}

static void createScales(ImplicitLocOpBuilder &b, StringRef axis, StringRef prefix,
                         const std::set<int64_t> &factors) {
  for (int64_t factor : factors) {
    ScaleOp::create(b, getScaleName(factor, prefix), axis, factor);
  }
}

/// Returns the factors of the scales on an axis of an input or of segments.
static std::set<int64_t> findFactors(spec::ModelOp model, StringRef axis) {
  std::set<int64_t> factors = {1};
  for (auto stage : model.getBody().getOps<spec::StageInterface>()) {
    StringAttr name = getRowsType(stage).getName();
    if (name && name.getValue() == axis) {
      addFactors(stage, factors);
    }
  }
  return factors;
}

/// Adds an axis for the segments of each boundaries stage, and the scales on it.
static void addSegmentScales(ImplicitLocOpBuilder &b, spec::ModelOp model) {
  for (auto cut : model.getBody().getOps<spec::BoundariesOp>()) {
    spec::StreamType input = getRowsType(cut);
    b.setLoc(spec::getKeyLoc(cut, ""));
    StringRef cutAxis = input.getName() ? input.getName().getValue() : StringRef();
    auto scale = FlatSymbolRefAttr::get(b.getContext(), getScaleName(input.getFactor(), cutAxis));
    AxisOp::create(b, cut.getName(), IntegerAttr(), IntegerAttr(), scale,
                   b.getI64IntegerAttr(cut.getMostSegments() + cut.getSpareRows()), /*least=*/1,
                   DictionaryAttr());
    createScales(b, cut.getName(), cut.getName(), findFactors(model, cut.getName()));
  }
}

/// Returns the vocabularies of the other inputs on an input's axis; null if there are none.
static DictionaryAttr collectStreams(spec::InputOp axis) {
  NamedAttrList streams;
  Builder b(axis.getContext());
  for (auto input : axis->getParentOfType<spec::ModelOp>().getBody().getOps<spec::InputOp>()) {
    if (input.isTokens() && !input.ownsAxis() && input.getAxisName() == axis.getSymName()) {
      streams.set(input.getSymName(), b.getI64IntegerAttr(input.getTokenCount()));
    }
  }
  return streams.empty() ? DictionaryAttr() : streams.getDictionary(axis.getContext());
}

void spec_to_sluice::addScales(ImplicitLocOpBuilder &b, spec::ModelOp model) {
  AxisOp::create(b, "target", IntegerAttr(), IntegerAttr(), FlatSymbolRefAttr(), IntegerAttr(),
                 /*least=*/1, DictionaryAttr());
  std::set<int64_t> factors = {1};
  for (auto stage : model.getBody().getOps<spec::StageInterface>()) {
    if (!getRowsType(stage).getName()) {
      addFactors(stage, factors);
    }
  }
  createScales(b, "target", "", factors);
  ScaleOp::create(b, lastScale, "target", 0);
  for (auto input : model.getBody().getOps<spec::InputOp>()) {
    if (input.ownsAxis()) {
      b.setLoc(spec::getKeyLoc(input, ""));
      AxisOp::create(b, input.getSymName(), b.getI64IntegerAttr(*input.getLength()),
                     b.getI64IntegerAttr(input.getTokenCount()), FlatSymbolRefAttr(), IntegerAttr(),
                     /*least=*/1, collectStreams(input));
      createScales(b, input.getSymName(), input.getSymName(),
                   findFactors(model, input.getSymName()));
    }
  }
  addSegmentScales(b, model);
}
