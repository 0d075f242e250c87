// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Layers on rows, then on words: the multi-stage encoder that Li et al. (2022) compare with.
#include "Expansions.h"
#include "StageList.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::spec;

Value spec::expandMultiStage(MultiStageOp op, StageAppender &appender) {
  InsideStages stages(op, appender);
  NamedAttrList layer = stages.getBidirectionalSettings();
  auto addLayers = [&](size_t part, Value x) {
    int64_t count = getCount(op.getLayers(), part);
    return count > 0 ? stages.add("layers", x, {{"count", count}}, layer) : x;
  };
  Value x = addLayers(0, op.getInput());
  x = addLayers(1, stages.add("shorten", {x, op.getSegments()}));
  Value y = stages.add("norm", x, {}, getNormSettings(op));
  y = stages.add("graph_convolution", y, {{"edges", op.getEdgesAttr()}});
  y = stages.add("project", y, {{"activation", "relu"}, {"bias", op.getBias()}});
  y = stages.add("dropout", y, {{"rate", op.getDropoutAttr()}});
  x = addLayers(2, stages.add("add", {y, x}));
  return stages.add("norm", x, {}, getNormSettings(op));
}
