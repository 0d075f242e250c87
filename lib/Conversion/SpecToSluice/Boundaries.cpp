// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Converts boundaries: the bits of a stage, and the segments that they cut (Nawrot et al. 2023).
#include "SpecToSluice.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::spec_to_sluice;

Value spec_to_sluice::createClosedBits(StageContext &c, Value bits) {
  StringRef segments = getSegmentsName(c.type);
  if (segments.empty()) {
    return bits;
  }
  const Segmentation &of = c.segmentations.at(segments);
  c.setName("ones");
  Value ones = c.createConstants(of.bits, 1);
  c.setName("closed");
  Value closed = SelectSegmentsOp::create(c.b, bits.getType(), ones, of.counts, of.ends);
  c.setName("cut");
  return c.createProduct(bits, closed);
}

Value spec_to_sluice::createTokenNumbers(StageContext &c, Value x) {
  int64_t factor = c.getFactor();
  for (StringRef segments = getSegmentsName(c.type); !segments.empty();) {
    const Segmentation &of = c.segmentations.at(segments);
    Value all = SpreadSegmentsOp::create(c.b, of.bits.getType(), x, of.counts, of.ends, 1);
    x = c.createMap({all, of.bits},
                    [](ArrayRef<ScalarValue> v) { // bits have no gradient here
                      return v[0] * selectAbove(v[1], 0.5, 1, 0);
                    });
    segments = of.outer;
    factor = of.factor;
  }
  if (factor == 1) {
    return x;
  }
  SequenceType type = c.getTokenSequence(cast<SequenceType>(x.getType()).getWidth());
  x = UpsampleOp::create(c.b, type, x, factor);
  return c.createMap(
      x, [&](ArrayRef<ScalarValue> v) { return v[0] * (1 / static_cast<double>(factor)); });
}

/// Also reports the share of tokens that end a segment, which no loss minimizes. Its inverse is the
/// shortening factor.
static Value convertBoundaries(StageContext &c, spec::BoundariesOp op) {
  std::string name = op.getName().str();
  Value bits = op.getRatio()       ? createRoutedBits(c, op)
               : op.getPredictor() ? createPredictedBits(c, op)
                                   : createClosedBits(c, createRuleBits(c, op));
  c.setName("segment");
  auto scale = FlatSymbolRefAttr::get(c.b.getContext(), getScaleName(1, name));
  auto ends = SequenceType::get(c.b.getContext(), scale, 0, c.b.getI32Type());
  auto segment = SegmentOp::create(c.b, c.getSequence(c.getFactor(), 0, c.b.getI32Type()), ends,
                                   bits, op.getSpareRows(), op.getLongestSegment());
  Segmentation &made = c.segmentations[op.getName()];
  made = {bits,
          segment.getCounts(),
          segment.getEnds(),
          made.chances,
          getSegmentsName(c.type),
          c.getFactor(),
          op.beginsSegments(),
          op.getLongestSegment()};
  bool isGiven = c.type.getAxis() == spec::AxisKind::input; // its rows share no scale with losses
  if (c.purpose != Purpose::Predict && !isGiven) {
    c.setName("share");
    c.terms.push_back({c.createColumnSum(createTokenNumbers(c, bits)), name + ".share", 0, 0});
  }
  return bits;
}

void spec_to_sluice::populateBoundariesConversions(StageConversions &conversions) {
  conversions.add(convertBoundaries);
}
