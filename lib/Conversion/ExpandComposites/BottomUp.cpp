// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The bottom-up model of Subramanian, Collobert, Ranzato and Boureau (2020), section 3.3.
#include "Expansions.h"

#include "sluice/Dialect/Spec/Hierarchy.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::spec;

namespace {

class BottomUpExpander {
public:
  BottomUpExpander(BottomUpOp op, StageAppender &appender)
      : op(op), appender(appender), place(getInsideLoc(op, "hierarchy")), paths(getPath(op)),
        layer(getLayerSettings(op)) {}

  Value run() {
    Hierarchy hierarchy = *parseHierarchy(op, op.getHierarchy(), HierarchyOrder::Rising);
    ArrayRef<HierarchyLevel> levels = hierarchy.levels;
    bool isRepooled = op.getPooling() == PoolingSource::repooled;
    SmallVector<Value> streams = {op.getInput()};
    for (size_t i = 1; i < levels.size(); ++i) {
      int64_t from = isRepooled ? 1 : levels[i - 1].factor;
      Value coarse = add("shorten", isRepooled ? op.getInput() : streams.back(),
                         {{"factor", levels[i].factor / from},
                          {"method", stringifyShortenMethod(op.getShorten())},
                          {"window", op.getShortenWindowAttr()}});
      streams.push_back(addStack(levels[i].layers, coarse));
    }
    return addStack(levels.front().layers, addGathering(streams));
  }

private:
  Value add(StringRef word, ValueRange operands, ArrayRef<StageSetting> settings,
            const NamedAttrList &own = {}) {
    return appender.add(word, {place, paths.next()}, operands, settings, own);
  }
  Value addStack(int64_t layers, Value x) {
    for (int64_t i = 0; i < layers; ++i) {
      x = add("layer", x, {}, layer);
    }
    return layers > 0 && op.getPlacement() == NormPlacement::pre
               ? add("norm", x, {}, getNormSettings(op))
               : x;
  }

  /// Adds a layer whose queries are the first stream; each group of heads reads one of the coarse
  /// streams.
  Value addGathering(ArrayRef<Value> streams) {
    NamedAttrList settings = layer;
    for (StringRef key : {"rotary", "lsh", "relative", "distances"}) {
      settings.erase(key);
    }
    SmallVector<Attribute> masks(streams.size() - 1,
                                 MaskAttr::get(op.getContext(), MaskShape::complete, 0, 0));
    return add("layer", streams, {{"over", ArrayAttr::get(op.getContext(), masks)}}, settings);
  }

  BottomUpOp op;
  StageAppender &appender;
  const Location place;
  InsidePaths paths;
  const NamedAttrList layer;
};

} // namespace

Value spec::expandBottomUp(BottomUpOp op, StageAppender &appender) {
  return BottomUpExpander(op, appender).run();
}
