// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Pairs of layers, over the rows of a word and over all rows: a Transformer in Transformer as Li et
// al. (2022) compare with.
#include "Expansions.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::spec;

Value spec::expandTnt(TntOp op, StageAppender &appender) {
  InsideStages stages(op, appender);
  Builder b(op.getContext());
  NamedAttrList settings = stages.getBidirectionalSettings();
  StringAttr words = cast<SegmentationType>(op.getSegments().getType()).getName();
  Value x = op.getInput();
  for (int64_t i = 0; i < op.getCount(); ++i) {
    if (op.getSharedLayers()) {
      settings.set("share", b.getStringAttr(getPath(op) + ".layer." + std::to_string(i)));
    }
    x = stages.add("layer", x, {{"within", words}}, settings);
    x = stages.add("layer", x, {}, settings);
  }
  return stages.add("norm", x, {}, getNormSettings(op));
}
