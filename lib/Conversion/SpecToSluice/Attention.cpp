// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Converts the attention of a layer: sources of queries, keys and values, masks and scores.
#include "Attention.h"
#include "SpecToSluice.h"

#include "Tables.h"
#include "sluice/Dialect/Sluice/Hashed.h"
#include "sluice/Dialect/Sluice/MaskBounds.h"

#include <cmath>
#include <numeric>

using namespace mlir;
using namespace sluice;
using namespace sluice::spec_to_sluice;

//===----------------------------------------------------------------------===//
// Masks and distances
//===----------------------------------------------------------------------===//

static IntegerSet createMaskSet(spec::MaskAttr mask, int64_t queryFactor, int64_t keyFactor) {
  MLIRContext *context = mask.getContext();
  ScaleRatio scales = scaleRatio(queryFactor, keyFactor);
  int64_t common = std::gcd(queryFactor, keyFactor);
  auto toCommon = [&](int64_t tokens) { return (tokens + common - 1) / common; };
  switch (mask.getShape()) {
  case spec::MaskShape::causal:
    return causalMask(context, scales);
  case spec::MaskShape::complete:
    return completeMask(context, scales);
  case spec::MaskShape::window:
    return windowMask(context, scales, mask.getBegin(), mask.getEnd());
  case spec::MaskShape::tokens:
    return tokenMask(context, scales, toCommon(mask.getBegin()), toCommon(mask.getEnd()));
  case spec::MaskShape::block:
    return blockMask(context, mask.getBegin(), mask.getEnd());
  case spec::MaskShape::bidirectional:
    return everyKey(context);
  }
  llvm_unreachable("unknown mask");
}

/// Returns true for terms that are a number per head and distance.
static bool hasBiasTable(spec::RelativeTerms terms) {
  return terms == spec::RelativeTerms::bias || terms == spec::RelativeTerms::signed_bias;
}

static spec::RelativeTerms getRelativeTerms(spec::LayerOp op) {
  return op.getRelative() ? op.getRelative()->getTerms() : spec::RelativeTerms::none;
}

/// Returns the distance between a query and a key: between their first tokens or, for a complete
/// mask, whose keys end where the query does, between their last tokens. Its step is the finest
/// scale of which both factors are multiples.
static dispatch::Distance getDistance(const HeadSettings &heads, ScaleRatio scales,
                                      int64_t keyRows) {
  if (heads.terms == spec::RelativeTerms::none) {
    return {};
  }
  if (spec::isSigned(heads.terms)) { // no pair of positions has a distance below 0
    return {scales.query, scales.key, scales.key * (keyRows - 1)};
  }
  bool isComplete = heads.mask.getShape() == spec::MaskShape::complete;
  return {scales.query, scales.key, isComplete ? scales.query - scales.key : 0};
}

//===----------------------------------------------------------------------===//
// Queries, keys and values
//===----------------------------------------------------------------------===//

/// Returns the stream of keys and values: the stream of the queries or another one, normed if the
/// layer norms.
static Value createKeyStream(StageContext &c, spec::LayerOp op, Value x) {
  if (!op.readsOther()) {
    return x;
  }
  Value over = c.getValue(op.getSources().front());
  return op.normsOther()
             ? c.createNorm("attention.over", op.getNorm(), op.getEpsilon(), over, c.computeType)
             : over;
}

/// Creates the inputs of Transformer-XL's attention (Dai et al. 2019, section 3.3): queries q + u
/// and q + v with q = Wq x, and rows W_r s of the sinusoids s of distances, one row per step of
/// distance.
static AttentionInputs createXlInputs(StageContext &c, spec::LayerOp op, Value x) {
  int64_t queries = *op.getHeads() * *op.getHeadSize();
  Value over = createKeyStream(c, op, x);
  SequenceType type = c.getSequence(c.getFactor(), queries, c.computeType);
  Value weight = c.readWeight(c.getSymbol("attention.query.weight"));
  auto createQuery = [&](StringRef part, const char *bias) -> Value {
    c.setName(part);
    return LinearOp::create(c.b, type, x, weight,
                            c.readOwn((Twine("attention.relative.") + bias + ".bias").str()));
  };
  Value content = createQuery("attention.query", "content");
  Value position = createQuery("attention.query_position", "position");
  Value packed = c.createLinear("attention.kv", over, c.computeType);
  c.setName("attention.distance");
  Value distances =
      PositionOp::create(c.b, c.getSequence(op.getDistanceStep(), c.getWidth(), c.computeType),
                         c.read(getDistancesName(c.model, op)));
  Value rows = c.createLinear("attention.relative", distances, c.computeType);
  return {content, packed, packed, 0, *op.getKeyValueHeads() * *op.getHeadSize(), {position, rows}};
}

/// Creates queries, keys and values: by one linear map, or by one map of the stream itself and one
/// of another stream for keys and values.
static AttentionInputs createInputs(StageContext &c, spec::LayerOp op, Value x) {
  if (op.isXl()) {
    return createXlInputs(c, op, x);
  }
  int64_t queries = *op.getHeads() * *op.getHeadSize(),
          keys = *op.getKeyValueHeads() * *op.getHeadSize();
  AttentionInputs inputs;
  if (op.hasOwnQueries()) {
    Value over = createKeyStream(c, op, x);
    Value query = c.createLinear("attention.query", x, c.computeType);
    Value packed = c.createLinear("attention.kv", over, c.computeType);
    inputs = {query, packed, packed, 0, keys, {}};
    if (getRelativeTerms(op) == spec::RelativeTerms::vectors) { // Shaw et al. 2018, equation 4
      Value table = c.readWeight(c.getSymbol("attention.relative.table"));
      inputs.extras = {query, table};
    }
  } else {
    Value packed = c.createLinear("attention.qkv", x, c.computeType);
    inputs = {packed, packed, packed, queries, queries + keys, {}};
  }
  if (hasBiasTable(getRelativeTerms(op))) {
    inputs.extras.push_back(c.readOwn("attention.relative.table"));
  }
  if (op.getRotary()) {
    inputs.extras.push_back(c.read(getRotaryName(c.model, op)));
  }
  if (op.getWithin()) {
    llvm::append_range(inputs.extras,
                       createSegmentRange(c, "attention.mix", c.segmentations.at(*op.getWithin())));
  }
  return inputs;
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

/// LSH attention (Kitaev et al. 2020, section 2): queries are keys.
static Value convertHashedAttention(StageContext &c, spec::LayerOp op, Value x) {
  spec::LshAttr lsh = *op.getLsh();
  int64_t heads = *op.getHeads(), size = *op.getHeadSize();
  Value rows = c.createLinear("attention.query_key", x, c.computeType);
  Value values = c.createLinear("attention.value", x, c.computeType);
  Value table = c.readOwn(rotationsPart);
  c.setName("attention.buckets");
  Value buckets = HashedBucketsOp::create(
      c.b, c.getSequence(c.getFactor(), lsh.getHashes(), c.b.getF32Type()), rows, table);
  c.setName("attention.mix", spec::getKeyLoc(op, "lsh"));
  auto mix = HashedAttentionOp::create(
      c.b, c.getSequence(c.getFactor(), heads * size, c.computeType),
      c.getSequence(c.getFactor(), heads, c.b.getF32Type()), rows, rows, values, buckets, heads,
      size, lsh.getBuckets(), lsh.getChunk(), !lsh.getCausal());
  return c.createLinear("attention.output", mix.getOutput(), c.residualType);
}

Value spec_to_sluice::convertAttention(StageContext &c, spec::LayerOp op, Value x) {
  if (op.getLsh()) {
    return convertHashedAttention(c, op, x);
  }
  if (op.isGrouped()) {
    return convertGroupedAttention(c, op, x);
  }
  HeadSettings heads = {*op.getHeads(),
                        *op.getKeyValueHeads(),
                        *op.getHeadSize(),
                        op.getAttentionDropout(),
                        getRelativeTerms(op),
                        op.getMask(),
                        static_cast<int64_t>(op.getFirst())};
  AttentionInputs inputs = createInputs(c, op, x);
  Value mixed = createMix(c, "attention", heads, inputs, spec::getKeyLoc(op, "mask"));
  return c.createLinear("attention.output", mixed, c.residualType);
}

Value spec_to_sluice::convertStreams(StageContext &c, spec::AttentionOp op) {
  llvm::SmallDenseMap<Value, Value> normed;
  auto createRows = [&](StringRef part, Value stream) {
    auto [at, isNew] = normed.try_emplace(stream, c.getValue(stream));
    if (isNew && op.normsStreams()) {
      at->second = c.createNorm(part, op.getNorm(), op.getEpsilon(), at->second, c.computeType);
    }
    return c.createLinear(part, at->second, c.computeType);
  };
  Value query = createRows("attention.query", op.getQuery());
  Value keys = createRows("attention.key", op.getKey());
  Value values = createRows("attention.value", op.getValue());
  HeadSettings heads = {*op.getHeads(),
                        *op.getKeyValueHeads(),
                        *op.getHeadSize(),
                        op.getAttentionDropout(),
                        spec::RelativeTerms::none,
                        op.getMask(),
                        static_cast<int64_t>(op.getFirst())};
  Value mixed = createMix(c, "attention", heads, {query, keys, values, 0, 0, {}},
                          spec::getKeyLoc(op, "mask"));
  return c.createLinear("attention.output", mixed, c.residualType);
}

/// Creates the score of a query and a key: their product, terms by distance, and the scale.
static void createScore(StageContext &c, const HeadSettings &heads, Region &region) {
  auto &b = c.b;
  OpBuilder::InsertionGuard guard(b);
  Block *body = b.createBlock(&region);
  Type i32 = b.getI32Type();
  body->addArguments({b.getF32Type(), i32, i32, i32}, SmallVector<Location>(4, b.getLoc()));
  auto addTerm = [&] { return ScalarValue(b, body->addArgument(b.getF32Type(), b.getLoc())); };
  ScalarValue score = {b, body->getArgument(0)};
  bool isBias = hasBiasTable(heads.terms);
  // The product of the position query and the row for the distance.
  if (heads.terms != spec::RelativeTerms::none && !isBias) {
    score = score + addTerm();
  }
  score = score * (1 / std::sqrt(static_cast<double>(heads.size)));
  if (isBias) { // the table's number for the distance and head
    score = score + addTerm();
  }
  YieldOp::create(b, ValueRange{score});
}

Value spec_to_sluice::createMix(StageContext &c, const std::string &block,
                                const HeadSettings &heads, const AttentionInputs &inputs,
                                Location place) {
  auto keys = cast<SequenceType>(inputs.keys.getType());
  int64_t keyFactor = getFactor(c.function, keys), keyRows = getPositions(c.function, keys);
  bool drops = c.purpose == Purpose::Train && heads.dropout > 0;
  c.setName(block + ".mix", place);
  IntegerSet mask = withStride(createMaskSet(heads.mask, c.getFactor(), keyFactor),
                               heads.mask.getBegin(), heads.stride);
  auto mix = AttentionOp::create(
      c.b, c.getSequence(c.getFactor(), heads.heads * heads.size, c.computeType),
      c.getSequence(c.getFactor(), heads.heads, c.b.getF32Type()), inputs.query, inputs.keys,
      inputs.values, inputs.extras, heads.heads, heads.keyValueHeads, heads.size, 0,
      inputs.keyColumn, inputs.valueColumn, withFirstKey(mask, heads.first),
      llvm::APFloat(drops ? static_cast<float>(heads.dropout) : 0.0F), drops ? c.nextRandom++ : 0,
      hasBiasTable(heads.terms),
      getDistance(heads, scaleRatio(c.getFactor(), keyFactor), keyRows).attribute(c.b.getContext()),
      spec::isSigned(heads.terms));
  createScore(c, heads, mix.getScore());
  return mix.getOutput();
}
