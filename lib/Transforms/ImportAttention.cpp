// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention of a layer: where queries, keys and values come from, masks and scores.
#include "ImportStages.h"
#include "sluice/Dialect/Sluice/Hashed.h"
#include "sluice/Dialect/Sluice/MaskBounds.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include <cmath>
#include <numeric>

using namespace mlir;
using namespace sluice;
using namespace sluice::importing;
using namespace sluice::spec;

static IntegerSet maskSet(MLIRContext *context, const Mask &mask, int64_t queryFactor,
                          int64_t keyFactor) {
  ScaleRatio scales = scaleRatio(queryFactor, keyFactor);
  switch (mask.kind) {
  case MaskKind::Causal:
    return causalMask(context, scales);
  case MaskKind::Complete:
    return completeMask(context, scales);
  case MaskKind::Window:
    return windowMask(context, scales, mask.begin, mask.end);
  case MaskKind::Tokens: {
    Mask common = inCommonTokens(mask, queryFactor, keyFactor);
    return tokenMask(context, scales, common.begin, common.end);
  }
  case MaskKind::Block:
    return blockMask(context, mask.begin, mask.end);
  case MaskKind::Bidirectional:
    return everyKey(context);
  }
  llvm_unreachable("every kind of mask is above");
}

/// Between beginnings, or under `complete`, whose keys end where the query does, between ends; in
/// steps of the finest scale that both are whole numbers of.
static dispatch::Distance distanceOf(const Layer &settings, ScaleRatio scales) {
  if (settings.relative == Relative::None) {
    return {};
  }
  bool isComplete = settings.mask.kind == MaskKind::Complete;
  return {scales.query, scales.key, isComplete ? scales.query - scales.key : 0};
}

Value StageWriter::rotaryTable(const Layer &settings) {
  if (!settings.rotaryBase) {
    return {};
  }
  return read(
      rotaryName(*settings.rotaryBase, settings.headSize, spec::positionsOf(model, *current)));
}

/// The stream of keys and values: the queries' own, or another, normed where the layer norms.
Value StageWriter::keyStream(const Layer &settings, Value x) {
  if (!settings.isOver) {
    return x;
  }
  Value over = streams[current->second];
  return settings.normsOver()
             ? norm("attention.over", settings.norm, settings.epsilon, over, computeType)
             : over;
}

/// Where queries, keys and values come from: one linear map, or one of the stream itself and one of
/// keys and values of another.
StageWriter::Sources StageWriter::attentionSources(const Layer &settings, Value x) {
  int64_t queries = settings.heads * settings.headSize,
          keys = settings.keyValueHeads * settings.headSize;
  if (settings.isXl()) {
    return relativeSources(settings, x);
  }
  if (!settings.isOver) {
    Value packed = linear("attention.qkv", x, computeType);
    Sources sources{packed, packed, queries, queries + keys, {}};
    if (settings.relative == Relative::Bias) {
      sources.extras.push_back(parameter("attention.relative.table"));
    }
    if (Value table = rotaryTable(settings)) {
      sources.extras.push_back(table);
    }
    return sources;
  }
  Value over = keyStream(settings, x);
  Value query = linear("attention.query", x, computeType);
  Sources sources{query, linear("attention.kv", over, computeType), 0, keys, {}};
  if (settings.relative == Relative::Bias) {
    sources.extras.push_back(parameter("attention.relative.table"));
  }
  return sources;
}

/// Transformer-XL (Dai et al. 2019, section 3.3): queries q + u and q + v, q = Wq x, and rows W_r s
/// of the sinusoids s of distances, in tokens or in steps: a row a step of distance.
StageWriter::Sources StageWriter::relativeSources(const Layer &settings, Value x) {
  int64_t queries = settings.heads * settings.headSize,
          keys = settings.keyValueHeads * settings.headSize;
  bool isShared = settings.relative == Relative::XlShared;
  if (isShared && sharedBiases.empty()) {
    sharedBiases = current->prefix;
  }
  const std::string &owner = isShared ? sharedBiases : current->prefix;
  Value over = keyStream(settings, x);
  SequenceType type = sequence(current->factor, queries, computeType);
  Value weight = readWeight(current->prefix + ".attention.query.weight");
  auto query = [&](StringRef part, const char *bias) -> Value {
    name(part);
    return LinearOp::create(b, type, x, weight,
                            read(owner + ".attention.relative." + bias + ".bias"));
  };
  Value content = query("attention.query", "content");
  Value position = query("attention.query_position", "position");
  Value packed = linear("attention.kv", over, computeType);
  name("attention.distance");
  int64_t step = std::gcd(current->factor, getFactor(function, cast<SequenceType>(over.getType())));
  int64_t width = current->width;
  Value distances =
      PositionOp::create(b, sequence(step, width, computeType),
                         read(distancesName(model, step, width, settings.countsRows)));
  Value rows = linear("attention.relative", distances, computeType);
  return {content, packed, 0, keys, {position, rows}};
}

/// Attention by hashes (Kitaev et al. 2020, section 2): queries are keys.
Value StageWriter::hashedAttention(const Layer &settings, Value x) {
  int64_t size = settings.headSize;
  Value rows = linear("attention.query_key", x, computeType);
  Value values = linear("attention.value", x, computeType);
  Value table = read(rotationsName(*current));
  name("attention.buckets");
  Value buckets = HashedBucketsOp::create(
      b, sequence(current->factor, settings.lsh->hashes, b.getF32Type()), rows, table);
  name("attention.mix", current->at("lsh"));
  auto op = HashedAttentionOp::create(
      b, sequence(current->factor, settings.heads * size, computeType),
      sequence(current->factor, settings.heads, b.getF32Type()), rows, rows, values, buckets,
      settings.heads, size, settings.lsh->buckets, settings.lsh->chunk, !settings.lsh->isCausal);
  return linear("attention.output", op.getOutput(), residualType);
}

Value StageWriter::attention(const Layer &settings, Value x) {
  if (settings.lsh) {
    return hashedAttention(settings, x);
  }
  if (!settings.groups.empty()) {
    return groupedAttention(settings, x);
  }
  Sources sources = attentionSources(settings, x);
  Value mixed = mix("attention", settings, sources, current->at("mask"));
  return linear("attention.output", mixed, residualType);
}

Value StageWriter::mix(const std::string &block, const Layer &settings, const Sources &sources,
                       const SourceLocation &place) {
  int64_t size = settings.headSize;
  auto [query, keys, keyColumn, valueColumn, extras] = sources;
  int64_t keyFactor = getFactor(function, cast<SequenceType>(keys.getType()));
  bool dropped = purpose == Purpose::Train && settings.attentionDropout > 0;
  name(block + ".mix", place);
  auto op = AttentionOp::create(
      b, sequence(current->factor, settings.heads * size, computeType),
      sequence(current->factor, settings.heads, b.getF32Type()), query, keys, keys, extras,
      settings.heads, settings.keyValueHeads, size, 0, keyColumn, valueColumn,
      withFirstKey(withStride(maskSet(b.getContext(), settings.mask, current->factor, keyFactor),
                              settings.mask.begin, settings.mask.stride),
                   settings.first),
      llvm::APFloat(dropped ? static_cast<float>(settings.attentionDropout) : 0.0F),
      dropped ? nextRandom++ : 0, settings.relative == Relative::Bias,
      distanceOf(settings, scaleRatio(current->factor, keyFactor)).attribute(b.getContext()));
  {
    OpBuilder::InsertionGuard guard(b);
    Block *body = b.createBlock(&op.getScore());
    Type i32 = b.getI32Type();
    body->addArguments({b.getF32Type(), i32, i32, i32}, SmallVector<Location>(4, b.getLoc()));
    Value score = body->getArgument(0);
    if (settings.isXl()) { // the position query's product with the row by distance
      score = arith::AddFOp::create(b, score, body->addArgument(b.getF32Type(), b.getLoc()));
    }
    Value scale = number(1 / std::sqrt(static_cast<double>(size)));
    score = arith::MulFOp::create(b, score, scale);
    if (settings.relative == Relative::Bias) { // the table's row by distance, by head
      score = arith::AddFOp::create(b, score, body->addArgument(b.getF32Type(), b.getLoc()));
    }
    YieldOp::create(b, ValueRange{score});
  }
  return op.getOutput();
}
