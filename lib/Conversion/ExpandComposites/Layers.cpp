// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Patterns.h"
#include "StageAppender.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::spec;

namespace {

/// Replaces a stack by its layers.
struct ExpandLayers : CompositePattern<LayersOp> {
  using CompositePattern::CompositePattern;

  Value expand(LayersOp op, StageAppender &appender) const override {
    InsidePaths paths(getPath(op));
    NamedAttrList settings = getLayerSettings(op);
    Value x = op.getInput();
    for (int64_t i = 0; i < op.getCount(); ++i) {
      x = appender.add("layer", {op.getLoc(), paths.next()}, x, {{"first", op.getFirst()}},
                       settings);
    }
    return x;
  }
};

} // namespace

void spec::populateExpandLayers(RewritePatternSet &patterns, const int64_t &stages) {
  patterns.add<ExpandLayers>(patterns.getContext(), stages);
}
