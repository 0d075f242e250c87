// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The Hourglass of Nawrot et al. (2021).
#include "Expansions.h"

#include "sluice/Dialect/Spec/Hierarchy.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::spec;

namespace {

class HourglassExpander {
public:
  HourglassExpander(HourglassOp op, Hierarchy parsed, StageAppender &appender)
      : op(op), hierarchy(std::move(parsed)), levels(hierarchy.levels),
        coarsest(hierarchy.getCoarsest()), up(coarsest + 1), place(getInsideLoc(op, "hierarchy")),
        shiftPlace(getInsideLoc(op, op.getShift() ? "shift" : "hierarchy")), appender(appender),
        isPre(op.getPlacement() == NormPlacement::pre), layer(getLayerSettings(op)),
        normSettings(getNormSettings(op)) {}

  /// Adds a level on the way down and everything inside it. Returns the result on the level's own
  /// scale.
  Value addLevel(size_t depth, const std::string &prefix, Value x) {
    InsidePaths inside(prefix);
    x = addStack(levels[depth].layers, x, inside);
    if (depth == coarsest) { // only layers here; the enclosing call adds the layers on the way up
      return x;
    }
    Value skip = x;
    x = shorten(levels[depth + 1].factor / levels[depth].factor, x, inside);
    factor = levels[depth + 1].factor;
    x = depth + 1 == coarsest ? addStack(levels[coarsest].layers, x, inside)
                              : addLevel(depth + 1, inside.next(), x);
    bool isBack = false;
    while (!isBack && levels[up].factor >= levels[depth].factor) { // the last one's factor is 1
      const HierarchyLevel &to = levels[up++];
      isBack = to.factor == levels[depth].factor;
      x = upsample(factor / to.factor, x, isBack ? skip : Value(), inside);
      factor = to.factor;
      x = addStack(to.layers, x, inside);
    }
    return x;
  }

private:
  Value add(StringRef word, ValueRange operands, ArrayRef<StageSetting> settings,
            InsidePaths &inside, const NamedAttrList &own = {}) {
    return appender.add(word, {place, inside.next()}, operands, settings, own);
  }
  Value norm(Value x, InsidePaths &inside) { return add("norm", x, {}, inside, normSettings); }
  Value normIfPre(Value x, InsidePaths &inside) { return isPre ? norm(x, inside) : x; }

  Value addStack(int64_t layers, Value x, InsidePaths &inside) {
    for (int64_t i = 0; i < layers; ++i) {
      x = add("layer", x, {}, inside, layer);
    }
    return layers > 0 ? normIfPre(x, inside) : x;
  }

  /// Adds a layer whose keys are on another scale. In a pre-norm stack both streams are normed
  /// before.
  Value addResampler(MaskAttr mask, Value queries, Value keys, InsidePaths &inside) {
    return add("layer", {queries, keys}, {{"attention_norm", !isPre}, {"mask", mask}}, inside,
               layer);
  }
  MaskAttr getGroupMask(int64_t k) {
    return op.getShortenKeys() == ShortenKeySet::group
               ? MaskAttr::get(op.getContext(), MaskShape::window, 0, k)
               : MaskAttr::get(op.getContext(), MaskShape::causal, 0, 0);
  }

  /// Shifts rows of a scale, so that a scale that is k times coarser reads only earlier groups.
  Value shift(int64_t k, Value x, InsidePaths &inside) {
    int64_t by = op.getShift() ? *op.getShift() : k - 1;
    bool isLearned = by > 0 && op.getStart() == StartRows::null;
    StartRows start = isLearned ? StartRows::null : StartRows::zeros;
    return appender.add("shift", {shiftPlace, inside.next()}, x,
                        {{"by", by}, {"start", stringifyStartRows(start)}});
  }

  Value shorten(int64_t k, Value x, InsidePaths &inside) {
    bool isLinear = op.getShorten() == ShortenMethod::attention_linear;
    ShortenMethod method = isLinear           ? ShortenMethod::linear
                           : op.attendsDown() ? ShortenMethod::average
                                              : op.getShorten();
    Value keys = op.attendsDown() ? normIfPre(x, inside) : x;
    Value delayed = op.getShifted() == ShiftedSide::output ? keys : shift(k, keys, inside);
    bool isNorm = op.getStart() == StartRows::norm;
    Value pooled = add("shorten", delayed,
                       {{"factor", k},
                        {"method", stringifyShortenMethod(method)},
                        {"window", op.getShortenWindowAttr()},
                        {"start", stringifyStartRows(isNorm ? StartRows::norm : StartRows::zeros)}},
                       inside);
    if (!op.attendsDown()) {
      return pooled;
    }
    return addResampler(getGroupMask(k), normIfPre(pooled, inside), keys, inside);
  }

  /// Upsamples by k, and adds the stream that was shortened, `skip`, if there is one; attention
  /// also reads it as queries.
  Value upsample(int64_t k, Value x, Value skip, InsidePaths &inside) {
    auto interpolate = [&](Value coarse, UpsampleMethod method) {
      Value fine = add("upsample", coarse,
                       {{"factor", k}, {"method", stringifyUpsampleMethod(method)}}, inside);
      return op.getUpsampleNorm() || (isPre && op.attendsUp()) ? norm(fine, inside) : fine;
    };
    if (!op.attendsUp()) {
      x = interpolate(x, op.getUpsample());
      x = op.getShifted() == ShiftedSide::output ? shift(k, x, inside) : x;
      return skip ? add("add", {x, skip}, {}, inside) : x;
    }
    Value keys = normIfPre(x, inside), queries = skip;
    if (op.getUpsample() != UpsampleMethod::attention) {
      bool isLinear = op.getUpsample() == UpsampleMethod::attention_linear;
      x = interpolate(keys, isLinear ? UpsampleMethod::linear : UpsampleMethod::repeat);
      queries = add("add", {x, skip}, {}, inside);
    }
    x = addResampler(MaskAttr::get(op.getContext(), MaskShape::causal, 0, 0), queries, keys,
                     inside);
    return add("add", {normIfPre(x, inside), skip}, {}, inside);
  }

  HourglassOp op;
  const Hierarchy hierarchy;
  const std::vector<HierarchyLevel> &levels;
  const size_t coarsest;
  size_t up; ///< the next level on the way up
  int64_t factor = 1;
  const Location place;
  const Location shiftPlace;
  StageAppender &appender;
  const bool isPre;
  const NamedAttrList layer;
  const NamedAttrList normSettings;
};

} // namespace

Value spec::expandHourglass(HourglassOp op, StageAppender &appender) {
  Hierarchy hierarchy = *parseHierarchy(op, op.getHierarchy(), HierarchyOrder::DownAndUp);
  if (!hierarchy.drawn.empty()) {
    emitKeyError(op, "hierarchy") << "expected one factor per level, found \"" << op.getHierarchy()
                                  << "\", of which each step would draw one; run "
                                     "spec-choose-factor first";
    appender.fail();
    return op.getInput();
  }
  return HourglassExpander(op, std::move(hierarchy), appender)
      .addLevel(0, getPath(op), op.getInput());
}
