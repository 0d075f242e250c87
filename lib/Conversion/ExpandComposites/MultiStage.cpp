// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Layers on rows, then on words: the multi-stage encoder that Li et al. (2022) compare with.
#include "Expansions.h"
#include "StageList.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::spec;

Value spec::expandMultiStage(MultiStageOp op, StageAppender &appender) {
  Location place = getInsideLoc(op, "");
  InsidePaths paths(getPath(op));
  auto add = [&](StringRef word, ValueRange operands, ArrayRef<StageSetting> settings = {},
                 const NamedAttrList &own = {}) {
    return appender.add(word, {place, paths.next()}, operands, settings, own);
  };
  NamedAttrList layer = getLayerSettings(op);
  layer.set("mask", MaskAttr::get(op.getContext(), MaskShape::bidirectional, 0, 0));
  auto addLayers = [&](size_t part, Value x) {
    int64_t count = getCount(op.getLayers(), part);
    return count > 0 ? add("layers", x, {{"count", count}}, layer) : x;
  };
  Value x = addLayers(0, op.getInput());
  x = addLayers(1, add("shorten", {x, op.getSegments()}));
  Value y = add("norm", x, {}, getNormSettings(op));
  y = add("graph_convolution", y, {{"edges", op.getEdgesAttr()}});
  y = add("project", y, {{"activation", "relu"}, {"bias", op.getBias()}});
  y = add("dropout", y, {{"rate", op.getDropoutAttr()}});
  x = addLayers(2, add("add", {y, x}));
  return add("norm", x, {}, getNormSettings(op));
}
