// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Properties of models and primitive stages that conversions need, derived from keys and types.
#include "StageChecks.h"

#include <numeric>

using namespace mlir;
using namespace sluice;
using namespace sluice::spec;

//===----------------------------------------------------------------------===//
// Model
//===----------------------------------------------------------------------===//

int64_t InputOp::getTokenCount() {
  constexpr int64_t bitValues = 2;
  return getVocabulary().value_or(getDerived() ? bitValues
                                               : int64_t(getModel(*this).getVocabulary()));
}

int64_t InputOp::countEdges() {
  int64_t rows = getModel(*this).getContextOfInput(getOn().value_or(""));
  return getPattern() == EdgePattern::half ? 0
         : getPattern()                    ? rows
                                           : getCapacity().value_or(2 * rows);
}

int64_t InputOp::getRowWidth() {
  int64_t usual = getRole() == InputUse::target ? getModel(*this).getVocabulary() : 1;
  return getWidth().value_or(usual);
}

int64_t ModelOp::getContextOfInput(StringRef input) {
  if (BoundariesOp cut = input.empty() ? BoundariesOp() : findBoundaries(input)) {
    return cut.getMostSegments();
  }
  InputOp found = input.empty() ? InputOp() : findInput(input);
  found = found && found.getOn() ? findInput(*found.getOn()) : found;
  return found && found.getLength() ? *found.getLength() : getLength();
}

BoundariesOp ModelOp::findBoundaries(StringRef name) {
  for (auto cut : getBody().getOps<BoundariesOp>()) {
    if (cut.getName() == name) {
      return cut;
    }
  }
  return {};
}

int64_t ModelOp::countRows(StreamType stream) {
  int64_t factor = stream.getFactor();
  if (stream.getAxis() == AxisKind::segments) {
    return (getLength() + factor) / factor;
  }
  StringRef input = stream.getName() ? stream.getName().getValue() : StringRef();
  return (getContextOfInput(input) + factor - 1) / factor;
}

//===----------------------------------------------------------------------===//
// Layer
//===----------------------------------------------------------------------===//

bool LayerOp::isXl() {
  RelativeTerms terms = getRelative() ? getRelative()->getTerms() : RelativeTerms::none;
  return terms == RelativeTerms::xl || terms == RelativeTerms::xl_shared;
}

bool LayerOp::hasVectors() {
  return getRelative() && getRelative()->getTerms() == RelativeTerms::vectors;
}

bool LayerOp::readsOther() { return getSources().size() == 1 && !getOver(); }

int64_t LayerOp::getGroupCount() {
  std::optional<ArrayAttr> groups = getOver() ? getOver() : getScales();
  return groups ? static_cast<int64_t>(groups->size()) : 0;
}

int64_t LayerOp::getGroupWidth(int64_t group) {
  return getStream(getOver() ? getSources()[group] : getInput()).getWidth();
}

bool LayerOp::normsGroups() { return getOver() && getPlacement() == NormPlacement::pre; }

bool LayerOp::normsOther() {
  return readsOther() && getPlacement() == NormPlacement::pre && getAttentionNorm();
}

bool AttentionOp::normsStreams() {
  return getPlacement() == NormPlacement::pre && getAttentionNorm();
}

int64_t LayerOp::getDistanceStep() {
  int64_t own = getStream(getInput()).getFactor();
  return readsOther() ? std::gcd(own, getStream(getSources().front()).getFactor()) : own;
}

int64_t LayerOp::getDistanceCount() {
  ModelOp model = getModel(*this);
  StreamType own = getStream(getInput());
  if (own.getAxis() == AxisKind::segments) {
    return model.countRows(own);
  }
  int64_t step = getDistanceStep();
  return (static_cast<int64_t>(model.getLength()) + step - 1) / step;
}

//===----------------------------------------------------------------------===//
// Shorten and upsample
//===----------------------------------------------------------------------===//

bool ShortenOp::isLinear() {
  return getMethod() == ShortenMethod::linear || getMethod() == ShortenMethod::convolution;
}

int64_t ShortenOp::getRows() { return getWindow().value_or(*getFactor()); }

bool UpsampleOp::isLinear() {
  return getMethod() == UpsampleMethod::linear || getMethod() == UpsampleMethod::transposed;
}

int64_t UpsampleOp::getGroups() { return getWindow().value_or(*getFactor()) / *getFactor(); }
