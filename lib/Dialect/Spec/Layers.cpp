// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Verifiers of layers, their blocks, and attention between a scale and its segments: combinations
// of settings.
#include "Layers.h"
#include "StageChecks.h"

#include "VerifyStage.h"
#include <numeric>

using namespace mlir;
using namespace sluice;
using namespace sluice::spec;

static RelativeTerms getTerms(LayerSettingsInterface layer) {
  return layer.getRelative() ? layer.getRelative()->getTerms() : RelativeTerms::none;
}
static bool isXl(LayerSettingsInterface layer) {
  return getTerms(layer) == RelativeTerms::xl || getTerms(layer) == RelativeTerms::xl_shared;
}

//===----------------------------------------------------------------------===//
// Settings
//===----------------------------------------------------------------------===//

template <typename Op> static LogicalResult verifyHeadCounts(Op layer) {
  if (!layer.getHeads()) {
    return emitMissingKey(layer, "heads");
  }
  if (failed(verifyDerived(layer, {"key_value_heads"}))) {
    return failure();
  }
  int64_t heads = *layer.getHeads(), width = getStream(layer->getOperand(0)).getWidth();
  if (heads % *layer.getKeyValueHeads() != 0) {
    return emitKeyError(layer, "key_value_heads")
           << "expected \"key_value_heads\" to divide \"heads\", found "
           << *layer.getKeyValueHeads() << " of " << heads
           << "; each key and value head serves the same number of query heads";
  }
  if (!layer.getHeadSize()) {
    return emitKeyError(layer, "heads")
           << "expected \"heads\" to divide the width, found " << heads << " heads for width "
           << width << "; change one of the two or give \"head_size\"";
  }
  return success();
}

static LogicalResult verifyHeads(LayerSettingsInterface layer) {
  if (failed(verifyHeadCounts(layer)) || failed(verifyDerived(layer, {"feed_forward"}))) {
    return failure();
  }
  if (layer.getRotary() && *layer.getHeadSize() % 2 != 0) {
    bool given = isWritten(layer, "head_size");
    return emitKeyError(layer, given ? "head_size" : "rotary")
           << "expected an even head size with \"rotary\", which rotates pairs, found "
           << *layer.getHeadSize() << (given ? "" : " (width / heads)")
           << "; change the size or turn \"rotary\" off";
  }
  return success();
}

/// Verifies relative position terms: keys must be at or before the query, and rotation and
/// Transformer-XL's terms exclude each other.
static LogicalResult verifyRelative(LayerSettingsInterface layer) {
  if (getTerms(layer) == RelativeTerms::none) {
    return success();
  }
  if (layer.getMask().getShape() == MaskShape::bidirectional && isWritten(layer, "mask") &&
      !isSigned(getTerms(layer))) {
    return emitKeyError(layer, "relative")
           << "expected a mask of keys at or before the query with \"relative\", found "
              "\"bidirectional\"; use \"causal\", a window, or the terms of both directions "
              "\"signed_bias\" or \"vectors\", or leave \"relative\" out";
  }
  bool hasVectors = getTerms(layer) == RelativeTerms::vectors;
  if ((isXl(layer) || hasVectors) && layer.getRotary()) {
    return emitKeyError(layer, "relative")
           << "expected one of \"rotary\" and "
           << (hasVectors ? "vectors by distance" : "Transformer-XL's \"relative\" terms")
           << ", found both; turn one of them off";
  }
  return success();
}

static InFlightDiagnostic refuseWithLsh(Operation *layer, StringRef key) {
  return emitKeyError(layer, key) << "expected no " << quote(key)
                                  << " with \"lsh\", whose keys are the queries and are found by "
                                     "their buckets, found both; ";
}

/// Verifies LSH attention, whose buckets select the keys and whose keys are the queries.
static LogicalResult verifyLsh(LayerSettingsInterface layer) {
  if (!layer.getLsh()) {
    return success();
  }
  if (layer.getMask().getShape() != MaskShape::causal) {
    return refuseWithLsh(layer, "mask") << "write \"mask\": \"causal\", or \"lsh\": false";
  }
  if (layer.getRotary()) {
    return refuseWithLsh(layer, "rotary") << "turn one of them off";
  }
  if (getTerms(layer) != RelativeTerms::none) {
    return refuseWithLsh(layer, "relative") << "turn one of them off";
  }
  if (layer.getAttentionDropout() > 0) {
    return refuseWithLsh(layer, "attention_dropout")
           << "write \"attention_dropout\": 0, or \"lsh\": false";
  }
  if (layer.getScales()) {
    return refuseWithLsh(layer, "scales") << "write \"scales\": [], or \"lsh\": false";
  }
  if (*layer.getKeyValueHeads() != *layer.getHeads()) {
    return refuseWithLsh(layer, "key_value_heads") << "leave one of them out";
  }
  return success();
}

/// Verifies that heads form equal groups; the key `cause` makes `count` of them.
LogicalResult spec::verifyGroups(LayerSettingsInterface layer, StringRef cause, int64_t count) {
  for (auto [key, heads] : {std::pair("heads", *layer.getHeads()),
                            std::pair("key_value_heads", *layer.getKeyValueHeads())}) {
    if (heads % count != 0) {
      return emitKeyError(layer, cause)
             << "expected as many groups of heads as divide " << quote(key) << ", found " << count
             << " groups of " << heads << " heads; each group has the same number";
    }
  }
  return success();
}

/// Rejects settings that a stage with separate keys per group of heads excludes.
static LogicalResult verifyScoresOfGroups(LayerSettingsInterface layer, StringRef cause) {
  if (layer.getRotary()) {
    return emitKeyError(layer, "rotary") << "expected no \"rotary\" where " << quote(cause)
                                         << " gives groups of heads keys of their own, found both; "
                                            "write \"rotary\": false in this stage";
  }
  if (getTerms(layer) != RelativeTerms::none) {
    return emitKeyError(layer, "relative") << "expected no \"relative\" where " << quote(cause)
                                           << " gives groups of heads keys of their own, found "
                                              "both; write \"relative\": \"none\" in this stage";
  }
  return success();
}

LogicalResult spec::verifyLayerSettings(Operation *stage) {
  auto layer = cast<LayerSettingsInterface>(stage);
  if (failed(verifyHeads(layer)) || failed(verifyRelative(layer)) || failed(verifyLsh(layer))) {
    return failure();
  }
  if (!layer.getScales()) {
    return success();
  }
  if (failed(verifyGroups(layer, "scales", static_cast<int64_t>(layer.getScales()->size()))) ||
      failed(verifyScoresOfGroups(layer, "scales"))) {
    return failure();
  }
  if (layer.getMask().getShape() != MaskShape::causal) {
    return emitKeyError(layer, "mask")
           << "expected no \"mask\" where \"scales\" gives each group of heads a window, found "
              "both; leave one of them out, or write \"mask\": \"causal\" in this stage";
  }
  return success();
}

template <typename Op> static void setHeadDefaults(Op layer, int64_t width) {
  Builder b(layer->getContext());
  int64_t heads = *layer.getHeads();
  if (!layer.getKeyValueHeads()) {
    layer.setKeyValueHeadsAttr(b.getI64IntegerAttr(heads));
  }
  if (!layer.getHeadSize() && width % heads == 0) {
    layer.setHeadSizeAttr(b.getI64IntegerAttr(width / heads));
  }
}

void spec::setLayerDefaults(Operation *stage, int64_t width) {
  auto layer = cast<LayerSettingsInterface>(stage);
  if (!layer.getHeads()) {
    return;
  }
  setHeadDefaults(layer, width);
  if (!layer.getFeedForward()) {
    layer.setFeedForwardAttr(Builder(stage->getContext()).getI64IntegerAttr(4 * width));
  }
}

//===----------------------------------------------------------------------===//
// Layer
//===----------------------------------------------------------------------===//

LogicalResult spec::verifyFirst(Operation *stage, int64_t first) {
  auto layer = cast<LayerSettingsInterface>(stage);
  if (first > 0 && layer.getLsh()) {
    return refuseWithLsh(stage, "first") << "write \"lsh\": false in this stage";
  }
  auto single = dyn_cast<LayerOp>(stage);
  if (first > 0 && (layer.getScales() || (single && single.getOver()))) {
    return emitKeyError(stage, "first") << "expected no \"first\" with groups of heads, whose keys "
                                           "are rows of several scales, found both; leave it out";
  }
  return success();
}

/// Fails if `mask` between two scales has no keys, or requires one scale.
static LogicalResult verifyMaskBetween(Operation *stage, StringRef key, MaskAttr mask,
                                       int64_t queryFactor, int64_t keyFactor) {
  if (mask.getShape() == MaskShape::block && queryFactor != keyFactor) {
    return emitKeyError(stage, key)
           << "expected keys on the queries' scale where \"mask\" is a block of rows, found scales "
           << queryFactor << " and " << keyFactor
           << "; use a window in tokens, or upsample the stream first";
  }
  int64_t common = std::gcd(queryFactor, keyFactor);
  auto toCommon = [&](int64_t tokens) { return (tokens + common - 1) / common; };
  if (mask.getShape() == MaskShape::tokens &&
      toCommon(mask.getBegin()) == toCommon(mask.getEnd())) {
    return emitKeyError(stage, key)
           << "expected a window that holds the last token of some position, found ["
           << mask.getBegin() << ", " << mask.getEnd() << "] between scales " << queryFactor
           << " and " << keyFactor
           << ", where the last tokens are never so far apart; make it longer";
  }
  return success();
}

/// Verifies that keys on another scale are not segments.
static LogicalResult verifyPlace(Operation *stage, StringRef key, Value keys) {
  if (getStream(keys).getAxis() == AxisKind::segments) {
    return emitKeyError(stage, key)
           << "expected keys of no segments, whose rows have no place among the queries, found "
           << describeStream(keys) << "; upsample it first";
  }
  return success();
}

/// Returns true if positions of both streams are on one axis, or on the tokens and their segments.
static bool areComparable(StreamType own, StreamType other) {
  bool isSameAxis = own.getAxis() == other.getAxis() && own.getName() == other.getName();
  return isSameAxis || (own.getAxis() != AxisKind::input && other.getAxis() != AxisKind::input);
}

/// Sets the mask `bidirectional` over another axis, unless the stage has a mask of its own.
template <typename Op> static void setMaskDefault(Op op, StreamType own, StreamType other) {
  bool isApart = other.getAxis() == AxisKind::input && !areComparable(own, other);
  if (isApart && !isWritten(op, "mask")) { // positions of two axes do not compare
    op.setMaskAttr(MaskAttr::get(op.getContext(), MaskShape::bidirectional, 0, 0));
  }
}

/// Verifies the mask of keys of another stream, which `key` names. On another axis every key is
/// visible: its positions are not comparable with the queries' positions.
template <typename Op>
static LogicalResult verifySourceMask(Op op, StringRef key, Value queries, Value keys) {
  StreamType own = getStream(queries), other = getStream(keys);
  if (areComparable(own, other)) {
    return verifyMaskBetween(op, "mask", op.getMask(), own.getFactor(), other.getFactor());
  }
  if (other.getAxis() != AxisKind::input) {
    return emitKeyError(op, key)
           << "expected a stream of an input where " << quote(key)
           << " belongs to a layer of one, as an input is read before the first token, found "
           << describeStream(queries) << " over " << describeStream(keys);
  }
  if (isWritten(op, "mask") && op.getMask().getShape() != MaskShape::bidirectional) {
    return emitKeyError(op, "mask")
           << "expected \"bidirectional\" for \"mask\" over the axis of the input "
           << quote(other.getName().getValue())
           << ", whose positions are not those of the queries, found another; write \"mask\": "
              "\"bidirectional\" in this stage, or leave it out";
  }
  return success();
}

/// Verifies the source of a layer.
static LogicalResult verifySingleSource(LayerOp op) {
  if (op.getRotary()) {
    return emitKeyError(op, "rotary")
           << "expected no \"rotary\" where \"over\" names another stream, whose positions are not "
              "those of the queries, found both; write \"rotary\": false in this stage";
  }
  Value over = op.getSources().front();
  StreamType own = getStream(op.getInput()), other = getStream(over);
  if (failed(verifyPlace(op, "over", over))) {
    return failure();
  }
  bool hasTerms = getTerms(op) != RelativeTerms::none;
  if (hasTerms && areComparable(own, other) && own.getFactor() != other.getFactor() &&
      op.getMask().getShape() == MaskShape::tokens) {
    return emitKeyError(op, "relative")
           << "expected \"none\" for \"relative\" by a window in tokens between two scales, "
              "where a key may begin after its query, found another; write \"relative\": "
              "\"none\" in this stage, or use another mask";
  }
  if (isSigned(getTerms(op))) {
    return emitKeyError(op, "relative")
           << "expected \"signed_bias\" and \"vectors\" only for the layer's own rows, found one "
              "where \"over\" names another stream; write \"relative\": \"none\" in this stage";
  }
  if (failed(verifySourceMask(op, "over", op.getInput(), over))) {
    return failure();
  }
  if (hasTerms && !areComparable(own, other)) {
    return emitKeyError(op, "relative")
           << "expected \"none\" for \"relative\" over the axis of the input "
           << quote(other.getName().getValue())
           << ", whose positions have no distance from those of the queries, found another; write "
              "\"relative\": \"none\" in this stage, or leave it out";
  }
  return success();
}

/// Verifies groups of heads with one source each.
static LogicalResult verifySources(LayerOp op) {
  auto count = static_cast<int64_t>(op.getSources().size());
  if (failed(verifyGroups(op, "over", count)) || failed(verifyScoresOfGroups(op, "over"))) {
    return failure();
  }
  StreamType own = getStream(op.getInput());
  for (auto [i, source] : llvm::enumerate(op.getSources())) {
    std::string key = "over." + std::to_string(i);
    StreamType other = getStream(source);
    if (failed(verifyPlace(op, key, source))) {
      return failure();
    }
    if (own.getAxis() == AxisKind::input || other.getAxis() == AxisKind::input) {
      StringAttr name = other.getAxis() == AxisKind::input ? other.getName() : own.getName();
      return emitKeyError(op, key) << "expected groups of heads to read streams of the tokens, "
                                      "found one on the axis of the input "
                                   << quote(name.getValue())
                                   << "; give it a layer of its own, whose \"over\" is its name";
    }
    if (failed(verifyMaskBetween(op, key, cast<MaskAttr>((*op.getOver())[i]), own.getFactor(),
                                 other.getFactor()))) {
      return failure();
    }
  }
  return success();
}

/// Verifies windows in tokens over means of groups of the layer's own rows.
static LogicalResult verifyScales(LayerOp op) {
  StreamType own = getStream(op.getInput());
  for (auto [i, attribute] : llvm::enumerate(*op.getScales())) {
    auto scale = cast<ScaleAttr>(attribute);
    std::string key = "scales." + std::to_string(i);
    if (own.getAxis() == AxisKind::input) {
      return emitKeyError(op, key) << "expected groups of heads to read streams of the tokens, "
                                      "found one on the axis of the input "
                                   << quote(own.getName().getValue())
                                   << "; give it a layer of its own, whose \"over\" is its name";
    }
    if (own.getFactor() * scale.getFactor() > mostSize) {
      return emitKeyError(op, key)
             << "expected scales of at most " << mostSize << " tokens a position, found "
             << own.getFactor() << " * " << scale.getFactor() << "; take a smaller factor";
    }
    MaskAttr mask = scale.getMask();
    auto toRows = [&](int64_t tokens) { return (tokens + own.getFactor() - 1) / own.getFactor(); };
    if (!scale.getMoving()) {
      if (failed(verifyMaskBetween(op, key, mask, own.getFactor(),
                                   own.getFactor() * scale.getFactor()))) {
        return failure();
      }
    } else if (toRows(mask.getEnd()) - toRows(mask.getBegin()) < scale.getFactor()) {
      return emitKeyError(op, key) << "expected a window of a whole group of " << scale.getFactor()
                                   << " rows or more, which a moving grid reads, found ["
                                   << mask.getBegin() << ", " << mask.getEnd() << "] on scale "
                                   << own.getFactor() << "; make it longer, or the factor smaller";
    }
  }
  return success();
}

/// Rejects streams that LSH attention and windows in tokens do not support.
static LogicalResult verifyRows(LayerOp op) {
  StreamType own = getStream(op.getInput());
  if (op.getLsh() && own.getAxis() != AxisKind::tokens) {
    return emitKeyError(op, "lsh")
           << "expected a layer of tokens, or of groups of them, with \"lsh\", found one of the "
           << (own.getAxis() == AxisKind::input ? "input " : "segments ")
           << quote(own.getName().getValue()) << "; write \"lsh\": false in this stage";
  }
  if (op.getMask().getShape() == MaskShape::tokens && own.getAxis() == AxisKind::segments) {
    return emitKeyError(op, "mask")
           << "expected a mask that counts segments, as the segments "
           << quote(own.getName().getValue())
           << " have no constant number of tokens, found a window in tokens; write \"mask\": "
              "{\"window\": ["
           << op.getMask().getBegin() << ", " << op.getMask().getEnd() << "]} in this stage";
  }
  return success();
}

template <typename Op> static LogicalResult verifyAttentionNorm(Op op) {
  if (!op.getAttentionNorm() && op.getPlacement() == NormPlacement::post) {
    return emitKeyError(op, "attention_norm")
           << "expected \"attention_norm\" only where \"placement\" is \"pre\", as a post-norm "
              "block norms its sum, found false; leave it out";
  }
  return success();
}

static LogicalResult verifyLayerNorms(LayerOp op) {
  if (!op.getAttentionNorm() && (op.getOver() || op.getScales())) {
    return emitKeyError(op, "attention_norm")
           << "expected no \"attention_norm\" with groups of heads, whose streams have norms of "
              "their own, found false; leave it out";
  }
  return success();
}

/// Verifies that the keys of a layer of an input may be the rows of the query's own segment.
static LogicalResult verifyWithin(LayerOp op) {
  if (!op.getWithin()) {
    return success();
  }
  BoundariesOp cut = getModel(op).findBoundaries(*op.getWithin());
  if (!cut || !cut->isBeforeInBlock(op)) {
    return emitKeyError(op, "within")
           << "expected the name of earlier segments, found " << quote(*op.getWithin())
           << "; add a boundaries stage of this name before the layer";
  }
  StreamType own = getStream(op.getInput());
  if (own.getAxis() != AxisKind::input ||
      withWidth(getStream(cut.getInput()), own.getWidth()) != own) {
    return emitKeyError(op, "within")
           << "expected segments of the rows of an input, which the layer reads, found segments of "
           << describeStream(cut.getInput()) << " for " << describeStream(op.getInput())
           << "; name segments of this stream, or leave it out";
  }
  bool isPlain = op.getMask().getShape() == MaskShape::bidirectional && op.getSources().empty() &&
                 !op.getScales() && !op.getLsh() && getTerms(op) == RelativeTerms::none;
  if (!isPlain) {
    return emitKeyError(op, "within")
           << "expected the mask \"bidirectional\" and no \"over\", \"scales\", \"lsh\" or "
              "\"relative\" together with \"within\", found others; remove them";
  }
  return success();
}

LogicalResult LayerOp::verify() {
  size_t masks = getOver() ? getOver()->size() : std::min<size_t>(1, getSources().size());
  if (masks != getSources().size()) {
    return emitKeyError(*this, "over")
           << "expected a mask in \"over\" for each of several sources, found " << masks << " for "
           << getSources().size();
  }
  if (failed(verifyLayerSettings(*this))) {
    return failure();
  }
  if (getScales() && !getSources().empty()) {
    return emitKeyError(*this, "over")
           << "expected one of \"over\" and \"scales\", which both choose the keys and values, "
              "found both; leave one out, or write \"scales\": [] in this stage";
  }
  if (failed(verifyFirst(*this, getFirst()))) {
    return failure();
  }
  if (getLsh() && !getSources().empty()) {
    return refuseWithLsh(*this, "over") << "write \"lsh\": false in this stage";
  }
  if (failed(verifyAttentionNorm(*this)) || failed(verifyLayerNorms(*this)) ||
      failed(verifyAxis(*this, getInput()))) {
    return failure();
  }
  bool isSingle = getSources().size() == 1 && !getOver();
  int64_t factor = getStream(getInput()).getFactor();
  LogicalResult sources = getScales() ? verifyScales(*this)
                          : isSingle  ? verifySingleSource(*this)
                          : getSources().empty()
                              ? verifyMaskBetween(*this, "mask", getMask(), factor, factor)
                              : verifySources(*this);
  return failure(failed(sources) || failed(verifyRows(*this)) || failed(verifyWithin(*this)));
}
Type LayerOp::computeResultType() { return getInput().getType(); }
void LayerOp::setDerivedDefaults() {
  setLayerDefaults(*this, getStream(getInput()).getWidth());
  StreamType own = getStream(getInput());
  bool readsOther = getSources().size() == 1 && !getOver();
  if (readsOther) {
    setMaskDefault(*this, own, getStream(getSources().front()));
  }
}

LogicalResult LayersOp::verify() {
  return failure(failed(verifyLayerSettings(*this)) || failed(verifyFirst(*this, getFirst())) ||
                 failed(verifyAxis(*this, getInput())));
}

//===----------------------------------------------------------------------===//
// Blocks
//===----------------------------------------------------------------------===//

LogicalResult FeedForwardOp::verify() {
  return failure(failed(verifyDerived(*this, {"feed_forward"})) ||
                 failed(verifyAxis(*this, getInput())));
}
Type FeedForwardOp::computeResultType() { return getInput().getType(); }
void FeedForwardOp::setDerivedDefaults() {
  if (!getFeedForward()) {
    setFeedForward(4 * getStream(getInput()).getWidth());
  }
}

LogicalResult AttentionOp::verify() {
  return failure(failed(verifyHeadCounts(*this)) || failed(verifyAttentionNorm(*this)) ||
                 failed(verifyAxis(*this, getInput())) ||
                 failed(verifyPair(*this, getInput(), getQuery(), false, "query")) ||
                 failed(verifyPlace(*this, "key", getKey())) ||
                 failed(verifyPair(*this, getKey(), getValue(), false, "value")) ||
                 failed(verifySourceMask(*this, "key", getQuery(), getKey())));
}
Type AttentionOp::computeResultType() { return getInput().getType(); }
void AttentionOp::setDerivedDefaults() {
  if (getHeads()) {
    setHeadDefaults(*this, getStream(getInput()).getWidth());
  }
  setMaskDefault(*this, getStream(getQuery()), getStream(getKey()));
}

//===----------------------------------------------------------------------===//
// Attend
//===----------------------------------------------------------------------===//

/// Returns true if a stream's rows are the segments.
static bool isSegments(StreamType stream, SegmentationType of) {
  return stream.getAxis() == AxisKind::segments && stream.getName() == of.getName() &&
         stream.getFactor() == 1;
}
/// Returns true if a stream is on the segmented scale.
static bool isCutScale(StreamType stream, SegmentationType of) {
  StreamType cut = of.getStream();
  return stream.getAxis() == cut.getAxis() && stream.getName() == cut.getName() &&
         stream.getFactor() == cut.getFactor();
}

bool AttendOp::readsRows() { return isSegments(getStream(getInput()), getSegmentation()); }

LogicalResult AttendOp::verify() {
  if (!getHeads()) {
    return emitMissingKey(*this, "heads");
  }
  if (failed(verifyAxis(*this, getInput()))) {
    return failure();
  }
  if (failed(verifyDerived(*this, {"by"}))) {
    return failure();
  }
  StreamType own = getStream(getInput()), over = getStream(getOver());
  SegmentationType of = getSegmentation();
  BoundariesOp cut = getCut(getSegments());
  bool asks = readsRows();
  if ((!asks && !isCutScale(own, of)) || !(asks ? isCutScale(over, of) : isSegments(over, of))) {
    return emitKeyError(*this, "over")
           << "expected one stream of the segments " << quote(of.getName().getValue())
           << " and one of the scale that "
           << describePlace(getSegments().getDefiningOp()->getLoc()) << " cuts, found "
           << describeStream(getInput()) << ", and " << describeStream(getOver())
           << "; shorten or upsample one of them by these segments";
  }
  if (asks && cut && cut.getPredictor() && !cut.getRule()) {
    return emitKeyError(*this, "segments")
           << "expected segments that a rule or a router makes, as attention has no derivative by "
              "the bits that a predictor draws, found "
           << quote(cut.getName()) << "; give its boundaries a \"rule\"";
  }
  if (asks && isWritten(*this, "by")) {
    return emitKeyError(*this, "by") << "expected \"by\" only where rows of the scale that is cut "
                                        "read segments, found it where "
                                        "segments read their own rows; leave it out";
  }
  if (!getHeadSize()) {
    return emitKeyError(*this, "heads")
           << "expected \"heads\" to divide the width of the stream that is cut, found "
           << *getHeads() << " heads for width " << (asks ? over : own).getWidth()
           << "; change one of the two or give \"head_size\"";
  }
  return success();
}
Type AttendOp::computeResultType() { return getInput().getType(); }
void AttendOp::setDerivedDefaults() {
  int64_t width = getStream(readsRows() ? getOver() : getInput()).getWidth();
  if (!getHeadSize() && getHeads() && width % *getHeads() == 0) {
    setHeadSize(width / *getHeads());
  }
  if (!getBy()) {
    setBy(1);
  }
}
