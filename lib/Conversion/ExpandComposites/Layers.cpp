// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Expansions.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::spec;

/// Replaces a stack by its layers.
Value spec::expandLayers(LayersOp op, StageAppender &appender) {
  InsidePaths paths(getPath(op));
  NamedAttrList settings = getLayerSettings(op);
  Value x = op.getInput();
  for (int64_t i = 0; i < op.getCount(); ++i) {
    x = appender.add("layer", {op.getLoc(), paths.next()}, x, {{"first", op.getFirst()}}, settings);
  }
  return x;
}
