// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The top-down model of "Multi-scale Transformer Language Models" (Subramanian et al., 2020,
// section 3.1): groups are pooled from the input itself, and each scale reads the one above it,
// from whole groups that have ended.
#include "Expansions.h"

#include "sluice/Dialect/Spec/Hierarchy.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::spec;

namespace {

class TopDownExpander {
public:
  TopDownExpander(TopDownOp op, StageAppender &appender)
      : op(op), appender(appender), place(getInsideLoc(op, "hierarchy")), paths(getPath(op)),
        isLearned(op.getStart() == StartRows::null) {}

  Value run() {
    Hierarchy hierarchy = *parseHierarchy(op, op.getHierarchy(), HierarchyOrder::Falling);
    coarsest = hierarchy.levels.front().factor;
    Value above;
    int64_t factorAbove = 0;
    for (const HierarchyLevel &level : hierarchy.levels) {
      above = addLevel(level, above, factorAbove);
      factorAbove = level.factor;
    }
    return above;
  }

private:
  Value add(StringRef word, ValueRange operands, ArrayRef<StageSetting> settings,
            const NamedAttrList &own = {}) {
    return appender.add(word, {place, paths.next()}, operands, settings, own);
  }

  /// Makes row g read the last group of the coarser scale that ends at it or before.
  Value alignAbove(Value above, int64_t ratio) {
    Value fine = add("upsample", above,
                     {{"factor", ratio}, {"method", stringifyUpsampleMethod(op.getUpsample())}});
    StartRows start = ratio > 1 ? op.getStart() : StartRows::zeros;
    return add("shift", fine, {{"by", ratio - 1}, {"start", stringifyStartRows(start)}});
  }

  /// Adds one scale; `above` is the result of the next coarser one, null for the coarsest.
  Value addLevel(const HierarchyLevel &level, Value above, int64_t factorAbove) {
    int64_t k = level.factor;
    Value aligned = above ? alignAbove(above, factorAbove / k) : Value();
    Value x = op.getInput();
    if (k > 1) {
      x = add("shorten", x,
              {{"factor", k},
               {"method", stringifyShortenMethod(op.getShorten())},
               {"window", op.getShortenWindowAttr()}});
    }
    if (aligned) {
      x = add("project", {x, aligned},
              {{"activation", stringifyActivationFunction(op.getProjectionActivation())},
               {"bias", op.getBias()}});
    }
    int64_t first = isLearned ? 0 : coarsest / k - 1;
    for (int64_t j = 0; j < level.layers; ++j) {
      x = add("layer", x, {{"first", first}}, getLayerSettings(op));
    }
    if (level.layers > 0 && op.getPlacement() == NormPlacement::pre) {
      x = add("norm", x, {}, getNormSettings(op));
    }
    if (op.getBags() && k > 1) {
      addBag(k, x);
    }
    return x;
  }

  /// Adds a loss of groups against the tokens that follow them.
  void addBag(int64_t k, Value x) {
    std::string name = "bag_" + std::to_string(k);
    // A trained row takes the place of a group that does not exist yet, so every row is scored.
    Builder b(op.getContext());
    IntegerAttr first = isLearned ? IntegerAttr() : b.getI64IntegerAttr(op.getTokensBefore());
    NamedAttrList own;
    own.set("bag", b.getUnitAttr());
    add("loss", x, {{"name", StringRef(name)}, {"factor", op.getBagsAttr()}, {"first", first}},
        own);
  }

  TopDownOp op;
  StageAppender &appender;
  const Location place;
  InsidePaths paths;
  const bool isLearned;
  int64_t coarsest = 1;
};

} // namespace

Value spec::expandTopDown(TopDownOp op, StageAppender &appender) {
  Value result = TopDownExpander(op, appender).run();
  if (int64_t tokens = op.getTokensBefore(); tokens > 0 && result != op.getInput()) {
    cast<StageInterface>(result.getDefiningOp())
        .setFirstTokensAttr(Builder(op.getContext()).getI64IntegerAttr(tokens));
  }
  return result;
}
