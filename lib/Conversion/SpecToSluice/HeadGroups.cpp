// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Converts attention of groups of heads (docs/spec.md, "Groups of heads").
#include "Attention.h"
#include "SpecToSluice.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::spec_to_sluice;

/// A group of heads: its mask, and the factor of the rows whose means are its keys.
struct HeadGroup {
  HeadSettings heads;
  int64_t factor = 1;
  bool isMoving = false; ///< groups of rows end at the query's own row
};

/// Returns the window in rows for a moving grid, whose keys are means of `factor` rows: whole
/// groups. Every `factor`-th key is read.
static spec::MaskAttr getMovingWindow(spec::ScaleAttr scale, int64_t rowFactor) {
  auto toRows = [&](int64_t tokens) { return (tokens + rowFactor - 1) / rowFactor; };
  int64_t begin = toRows(scale.getMask().getBegin()), end = toRows(scale.getMask().getEnd());
  int64_t whole = (end - begin) / scale.getFactor() * scale.getFactor();
  return spec::MaskAttr::get(scale.getContext(), spec::MaskShape::window, begin, begin + whole);
}

static HeadGroup getGroup(StageContext &c, spec::LayerOp op, int64_t index) {
  int64_t count = op.getGroupCount();
  HeadGroup group = {{*op.getHeads() / count, *op.getKeyValueHeads() / count, *op.getHeadSize(),
                      op.getAttentionDropout()}};
  if (op.getOver()) {
    group.heads.mask = cast<spec::MaskAttr>((*op.getOver())[index]);
    return group;
  }
  auto scale = cast<spec::ScaleAttr>((*op.getScales())[index]);
  group.factor = scale.getFactor();
  group.isMoving = scale.getMoving() && group.factor > 1; // with factor 1 both grids are the same
  group.heads.mask = group.isMoving ? getMovingWindow(scale, c.getFactor()) : scale.getMask();
  if (group.isMoving) { // only whole groups
    group.heads.first = group.factor - 1;
    group.heads.stride = group.factor;
  }
  return group;
}

/// Returns the rows from which a group's keys and values are linear maps: another stream, or means
/// of rows of the layer's own input.
static Value createGroupKeys(StageContext &c, spec::LayerOp op, const HeadGroup &group,
                             int64_t index, Value x) {
  std::string block = "attention." + std::to_string(index);
  if (op.getOver()) {
    Value over = c.getValue(op.getSources()[index]);
    return op.normsGroups()
               ? c.createNorm(block + ".over", op.getNorm(), op.getEpsilon(), over, c.computeType)
               : over;
  }
  if (group.factor == 1) {
    return x;
  }
  c.setName(block + ".shorten");
  Type element = cast<SequenceType>(x.getType()).getElement();
  if (group.isMoving) { // a group ends at each row
    return ShortenOp::create(c.b, c.getSequence(c.getFactor(), c.getWidth(), element), x, 1,
                             dispatch::ReduceKind::Add, group.factor, /*mean=*/true);
  }
  auto type = c.getSequence(c.getFactor() * group.factor, c.getWidth(), element);
  return ShortenOp::create(c.b, type, x, group.factor, dispatch::ReduceKind::Add, 0, /*mean=*/true);
}

/// Adds the maps of the groups' outputs, each by its columns of one matrix, with one bias: the same
/// as one map of the concatenated outputs.
Value spec_to_sluice::convertGroupedAttention(StageContext &c, spec::LayerOp op, Value x) {
  SequenceType type = c.getSequence(c.getFactor(), c.getWidth(), c.residualType);
  SmallVector<Value> outputs;
  for (int64_t i = 0; i < op.getGroupCount(); ++i) {
    std::string block = "attention." + std::to_string(i);
    std::string key = (op.getOver() ? "over." : "scales.") + std::to_string(i);
    HeadGroup group = getGroup(c, op, i);
    Value keys = createGroupKeys(c, op, group, i, x);
    Value query = c.createLinear(block + ".query", x, c.computeType);
    keys = c.createLinear(block + ".kv", keys, c.computeType);
    int64_t columns = group.heads.keyValueHeads * group.heads.size;
    AttentionInputs inputs = {query, keys, keys, 0, columns, {}};
    Value mixed = createMix(c, block, group.heads, inputs, spec::getKeyLoc(op, key));
    c.setName(block + ".output");
    Value weight = c.readWeight(c.getSymbol(block + ".output.weight"));
    Value bias = i == 0 ? c.readOwn("attention.output.bias") : Value();
    outputs.push_back(LinearOp::create(c.b, type, mixed, weight, bias));
  }
  if (outputs.size() == 1) {
    return outputs.front();
  }
  c.setName("attention.output.sum");
  return c.createSum(outputs);
}
