// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Creates bits by a rule: by token, by position, or by the entropy of a model's next token (Pagnoni
// et al. 2024, section 2.3; Nawrot et al. 2023, section 3.1.3).
#include "SpecToSluice.h"
#include "Tables.h"
#include "sluice/Dialect/Sluice/Labels.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::spec_to_sluice;

//===----------------------------------------------------------------------===//
// Entropy
//===----------------------------------------------------------------------===//

/// Returns the entropies, and the entropies of the `count` rows before; 0 before the first row.
static SmallVector<Value> createDelayed(StageContext &c, Value entropies, int64_t count) {
  SmallVector<Value> all = {entropies};
  for (int64_t by = 1; by <= count; ++by) {
    c.setName("entropy.before." + std::to_string(by));
    all.push_back(c.createShift(entropies, by));
  }
  return all;
}

/// Returns 1 where an entropy is above the entropies of each of the `spike` rows before it
/// (equation 6). Rows before the first count as 0, below any entropy, and the first row is no
/// spike. In the paper, the label of token t uses the entropy of x_t, in row t - 1; in the public
/// code it uses row t, and the first label is 1.
static Value createSpikes(StageContext &c, spec::BoundariesOp op, Value entropies) {
  SmallVector<Value> rows = createDelayed(c, entropies, *op.getSpike());
  c.setName("rule.first");
  rows.push_back(
      PositionOp::create(c.b, entropies.getType(), c.read(getFirstRowName(c.model, op))));
  c.setName("rule");
  Value bits = c.createMap(rows, [&](ArrayRef<ScalarValue> v) {
    ScalarValue one = c.createNumber(1), zero = c.createNumber(0), bit = one;
    for (ScalarValue before : v.drop_front().drop_back()) {
      bit = selectAbove(v[0], before, bit, zero);
    }
    return selectAbove(v.back(), c.createNumber(0.5), op.followsCode() ? one : zero, bit);
  });
  if (!op.getPredictor() || op.followsCode()) {
    return bits;
  }
  c.setName("rule.before");
  return c.createShift(bits, 1);
}

/// Returns 1 where the entropy of the softmax by which a loss scores row t is above the threshold,
/// has risen by more than it since row t - 1, or spikes. This is the entropy of token t + 1, and
/// depends on tokens up to t.
static Value createEntropyBits(StageContext &c, spec::BoundariesOp op) {
  const ScoredRows &of = c.scored.at(op.getLoss()->str());
  Value rows = c.materialize("rows", of.rows);
  auto scale = cast<SequenceType>(rows.getType()).getScale();
  auto getType = [&](int64_t width) {
    return SequenceType::get(c.b.getContext(), scale, width, c.b.getF32Type());
  };
  Value weight = c.readWeight(of.weight), bias = c.read(of.bias);
  c.setName("logits");
  Value logits = LinearOp::create(c.b, getType(c.model.getVocabulary()), rows, weight, bias);
  c.setName("entropy");
  Value entropies = EntropyOp::create(c.b, getType(1), logits);
  if (op.getSpike()) {
    return createSpikes(c, op, entropies);
  }
  std::optional<double> rise = op.getRise();
  SmallVector<Value> compared = createDelayed(c, entropies, rise ? 1 : 0);
  c.setName("rule");
  return c.createMap(compared, [&](ArrayRef<ScalarValue> v) {
    return selectAbove(rise ? v[0] - v[1] : v[0], rise ? *rise : *op.getThreshold(), 1, 0);
  });
}

//===----------------------------------------------------------------------===//
// Tables and labels
//===----------------------------------------------------------------------===//

/// Returns bits of the tokens, or of the tokens of an input: labels from a file, or rows of a table
/// of one column.
static Value createBitsOfTokens(StageContext &c, spec::BoundariesOp op) {
  if (*op.getRule() == spec::SegmentRule::labels) {
    c.setName("labels");
    Value given = LabelsOp::create(c.b, c.getTokenSequence(0), c.getTokens(), op.getName());
    c.setName("rule");
    return RepeatColumnsOp::create(c.b, c.getTokenSequence(1), given);
  }
  c.setName("rule");
  spec::StreamType rows = getRowsType(op);
  bool isGiven = rows.getAxis() == spec::AxisKind::input;
  StringRef input = op.getBits() ? *op.getBits() : isGiven ? rows.getName().getValue() : "";
  SequenceType type = isGiven ? c.getSequence(1, 1, c.b.getF32Type()) : c.getTokenSequence(1);
  Value like = EmbedOp::create(c.b, type, c.getTokens(input), c.read(getRuleName(op)));
  if (*op.getRule() != spec::SegmentRule::space_like) {
    return like;
  }
  c.setName("before");
  Value before = c.createShift(like, 1);
  c.setName("change");
  return c.createMap({like, before}, [](ArrayRef<ScalarValue> v) { return v[0] * (1 - v[1]); });
}

/// Returns bits of the rows of `segments`, or of tokens: a segment has the bit of the token that
/// ends it.
static Value createBitsByToken(StageContext &c, spec::BoundariesOp op, StringRef segments) {
  if (*op.getRule() == spec::SegmentRule::entropy) {
    return createEntropyBits(c, op);
  }
  if (segments.empty()) {
    return createBitsOfTokens(c, op);
  }
  const Segmentation &of = c.segmentations.at(segments);
  Value bits = createBitsByToken(c, op, of.outer);
  c.setName("rule");
  auto scale = cast<SequenceType>(of.ends.getType()).getScale();
  return SelectSegmentsOp::create(c.b,
                                  SequenceType::get(c.b.getContext(), scale, 1, c.b.getF32Type()),
                                  bits, of.counts, of.ends);
}

/// Also sets a bit in each row whose distance to the last bit before it, or to the row before the
/// first, is a multiple of `longest`. A recurrence counts the rows since that bit.
static Value createLongestBits(StageContext &c, spec::BoundariesOp op, Value bits) {
  if (!op.getLongest()) {
    return bits;
  }
  auto most = static_cast<double>(*op.getLongest());
  c.setName("longest.before");
  Value before = c.materialize("longest.rows", c.createShift(bits, 1));
  c.setName("longest.count");
  Value counts = createScan(c, ValueRange{before}, [&](ArrayRef<ScalarValue> v) {
    ScalarValue one = c.createNumber(1), count = v[1];
    return selectAbove(v[0], c.createNumber(0.5), one,
                       selectAbove(count, c.createNumber(most - 0.5), one, count + 1));
  });
  c.setName("longest");
  return c.createMap({bits, counts}, [&](ArrayRef<ScalarValue> v) {
    return selectAbove(v[1], c.createNumber(most - 0.5), c.createNumber(1), v[0]);
  });
}

Value spec_to_sluice::createRuleBits(StageContext &c, spec::BoundariesOp op) {
  if (*op.getRule() == spec::SegmentRule::coding_rate) {
    return createLongestBits(c, op, createForcedBits(c, op, createCodingRateBits(c, op)));
  }
  if (*op.getRule() != spec::SegmentRule::every) {
    Value bits = createBitsByToken(c, op, getSegmentsName(c.type));
    return createLongestBits(c, op, createForcedBits(c, op, bits));
  }
  c.setName("rule"); // the table has a bit for the first row
  Value bits = PositionOp::create(c.b, c.getSequence(c.getFactor(), 1, c.b.getF32Type()),
                                  c.read(getRuleName(op)));
  return op.getDocumentEnd() ? createForcedBits(c, op, bits) : bits;
}
