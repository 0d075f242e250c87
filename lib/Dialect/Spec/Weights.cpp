// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Lists the trained tensors of each primitive stage.
#include "sluice/Dialect/Spec/Weights.h"

#include "StageChecks.h"

#include <cmath>

using namespace mlir;
using namespace sluice;
using namespace sluice::spec;

//===----------------------------------------------------------------------===//
// List
//===----------------------------------------------------------------------===//

static std::string join(StringRef prefix, StringRef part) {
  return (prefix.empty() ? part : prefix + "." + part).str();
}

WeightList::WeightList(ModelOp model) : builder(model.getContext()) {
  int64_t blocks = 0;
  for (Operation &stage : model.getBody().getOps()) {
    auto layer = dyn_cast<LayerOp>(stage);
    blocks += layer ? (*layer.getFeedForward() > 0 ? 2 : 1)
                    : isa<FeedForwardOp, AttentionOp, RectifiedAttentionOp>(stage);
  }
  residualScale = std::sqrt(static_cast<double>(blocks == 0 ? 2 : blocks));
  builder.setInsertionPointToEnd(&model.getBody().front());
}

void WeightList::addStage(WeightsInterface owner) {
  stage = owner;
  owner.listWeights(*this);
}

void WeightList::add(StringRef name, ArrayRef<int64_t> shape, InitialValues initial,
                     double deviation, bool decays) {
  auto owner = cast<StageInterface>(stage.getOperation());
  StringAttr path = owner.getPathAttr();
  StringRef kind = name.substr(name.rfind('.') + 1);
  auto whole = parameter.empty()
                   ? StringAttr()
                   : builder.getStringAttr(path.getValue() + "." + parameter + "." + kind);
  WeightOp::create(
      builder, getKeyLoc(stage, ""), builder.getStringAttr(path.getValue() + "." + name), path,
      builder.getDenseI64ArrayAttr(shape), InitialValuesAttr::get(builder.getContext(), initial),
      builder.getF64FloatAttr(deviation), decays ? builder.getUnitAttr() : UnitAttr(),
      owner.getFrozen() ? builder.getUnitAttr() : UnitAttr(), whole,
      /*group=*/IntegerAttr());
}

void WeightList::addMatrix(StringRef prefix, int64_t out, int64_t in, double shrink,
                           InitialValues initial) {
  add(join(prefix, "weight"), {out, in}, initial, 1 / std::sqrt(static_cast<double>(in)) / shrink,
      /*decays=*/true);
}

void WeightList::addBias(StringRef prefix, int64_t size) {
  add(join(prefix, "bias"), {size}, InitialValues::zeros);
}

void WeightList::addLinear(StringRef prefix, int64_t out, int64_t in, double shrink, bool hasBias) {
  addMatrix(prefix, out, in, shrink);
  if (hasBias) {
    addBias(prefix, out);
  }
}

void WeightList::addNorm(StringRef prefix, NormFunction norm, int64_t width) {
  add(join(prefix, "weight"), {width}, InitialValues::ones);
  if (norm == NormFunction::layer) {
    addBias(prefix, width);
  }
}

//===----------------------------------------------------------------------===//
// Layer
//===----------------------------------------------------------------------===//

/// Returns true if the linear maps of queries, keys and values have biases.
template <typename Op> static bool hasInputBias(Op op) {
  return op.getAttentionInBias().value_or(op.getBias());
}

/// Returns true if the linear map of attention's result has a bias.
template <typename Op> static bool hasOutputBias(Op op) {
  return op.getAttentionOutBias().value_or(op.getBias());
}

/// Adds the linear maps of keys and values, which are stored as one parameter, with `queries`
/// including the queries.
static void listPacked(LayerOp op, WeightList &list, std::string prefix, int64_t queries,
                       int64_t keys, int64_t over) {
  list.setParameter(prefix + (queries > 0 ? "qkv" : "kv"));
  if (queries > 0) {
    list.addMatrix(prefix + "query", queries, over);
  }
  for (const char *part : {"key", "value"}) {
    list.addMatrix(prefix + part, keys, over);
  }
  if (hasInputBias(op) && queries > 0) {
    list.addBias(prefix + "query", queries);
  }
  for (const char *part : {"key", "value"}) {
    if (hasInputBias(op)) {
      list.addBias(prefix + part, keys);
    }
  }
  list.setParameter("");
}

/// Adds the tensors of groups of heads. Output maps are columns of one matrix, which is initialized
/// as one, and share a bias.
static void listGroups(LayerOp op, WeightList &list, int64_t width) {
  int64_t count = op.getGroupCount();
  int64_t queries = *op.getHeads() / count * *op.getHeadSize();
  int64_t keys = *op.getKeyValueHeads() / count * *op.getHeadSize();
  double shrink = list.getResidualScale() * std::sqrt(static_cast<double>(count));
  for (int64_t i = 0; i < count; ++i) {
    std::string prefix = "attention." + std::to_string(i) + ".";
    int64_t over = op.getGroupWidth(i);
    if (op.normsGroups()) {
      list.addNorm(prefix + "over.norm", op.getNorm(), over);
    }
    list.addLinear(prefix + "query", queries, width, 1, hasInputBias(op));
    listPacked(op, list, prefix, 0, keys, over);
    list.addMatrix(prefix + "output", width, queries, shrink);
  }
  if (hasOutputBias(op)) {
    list.addBias("attention.output", width);
  }
}

/// Returns the number of rows of a table of relative position biases: the number of distances
/// between rows on the layer's scale.
static int64_t countTableRows(LayerOp op) {
  StreamType own = getStream(op.getInput());
  if (BoundariesOp cut = getCutBelow(own, op)) {
    int64_t rows = cut.getMostSegments() + cut.getSpareRows();
    return (rows + own.getFactor() - 1) / own.getFactor();
  }
  return op.getDistanceCount();
}

/// Adds relative position terms.
static void listRelative(LayerOp op, WeightList &list, int64_t queries, int64_t width) {
  RelativeAttr relative = op.getRelative().value_or(RelativeAttr());
  if (relative && relative.getTerms() == RelativeTerms::bias) {
    list.add("attention.relative.table",
             {std::min(relative.getDistances(), countTableRows(op)), *op.getHeads()},
             InitialValues::zeros);
  }
  if (relative && isSigned(relative.getTerms())) {
    bool isVectors = relative.getTerms() == RelativeTerms::vectors;
    list.add("attention.relative.table",
             {2 * relative.getDistances() + 1, isVectors ? *op.getHeadSize() : *op.getHeads()},
             isVectors ? InitialValues::normal : InitialValues::zeros,
             isVectors ? embeddingDeviation : 0);
  }
  if (!op.isXl()) {
    return;
  }
  list.addMatrix("attention.relative", queries, width);
  list.addBias("attention.relative.content", queries);
  list.addBias("attention.relative.position", queries);
}

static void listAttention(LayerOp op, WeightList &list, int64_t width) {
  int64_t queries = *op.getHeads() * *op.getHeadSize();
  int64_t keys = *op.getKeyValueHeads() * *op.getHeadSize();
  if (op.getLsh()) { // queries are keys
    list.addLinear("attention.query_key", queries, width, 1, hasInputBias(op));
    list.addLinear("attention.value", queries, width, 1, hasInputBias(op));
  } else if (op.hasOwnQueries()) {
    int64_t over = op.readsOther() ? getStream(op.getSources().front()).getWidth() : width;
    if (op.normsOther()) {
      list.addNorm("attention.over.norm", op.getNorm(), over);
    }
    list.addLinear("attention.query", queries, width, 1, hasInputBias(op) && !op.isXl());
    listPacked(op, list, "attention.", 0, keys, over);
  } else {
    listPacked(op, list, "attention.", queries, keys, width);
  }
  listRelative(op, list, queries, width);
  list.addLinear("attention.output", width, queries, list.getResidualScale(), hasOutputBias(op));
}

template <typename Op> static void listFeedForward(Op op, WeightList &list) {
  int64_t width = getStream(op.getInput()).getWidth();
  int64_t hidden = *op.getFeedForward();
  SmallVector<StringRef> maps = {"feed_forward.in"};
  if (op.getActivation() == ActivationFunction::swiglu) {
    maps.insert(maps.begin(), "feed_forward.gate");
  }
  list.addNorm("feed_forward.norm", op.getNorm(), width);
  for (StringRef map : maps) {
    list.addMatrix(map, hidden, width);
  }
  for (StringRef map : maps) {
    if (op.getFeedForwardInBias().value_or(op.getBias())) {
      list.addBias(map, hidden);
    }
  }
  list.addLinear("feed_forward.out", width, hidden, list.getResidualScale(),
                 op.getFeedForwardOutBias().value_or(op.getBias()));
}

void LayerOp::listWeights(WeightList &list) {
  int64_t width = getStream(getInput()).getWidth();
  if (getAttentionNorm()) {
    list.addNorm("attention.norm", getNorm(), width);
  }
  if (isGrouped()) {
    listGroups(*this, list, width);
  } else {
    listAttention(*this, list, width);
  }
  if (*getFeedForward() > 0) {
    listFeedForward(*this, list);
  }
}

void FeedForwardOp::listWeights(WeightList &list) { listFeedForward(*this, list); }

/// Lists a norm for each of the streams, and a map for each of queries, keys and values.
void AttentionOp::listWeights(WeightList &list) {
  int64_t width = getStream(getInput()).getWidth();
  int64_t queries = *getHeads() * *getHeadSize(), keys = *getKeyValueHeads() * *getHeadSize();
  if (getPlacement() == NormPlacement::post) {
    list.addNorm("attention.norm", getNorm(), width);
  }
  SmallVector<Value> normed;
  auto listMap = [&](const std::string &part, Value stream, int64_t columns) {
    int64_t over = getStream(stream).getWidth();
    if (normsStreams() && !llvm::is_contained(normed, stream)) {
      list.addNorm(part + ".norm", getNorm(), over);
      normed.push_back(stream);
    }
    list.addLinear(part, columns, over, 1, hasInputBias(*this));
  };
  listMap("attention.query", getQuery(), queries);
  listMap("attention.key", getKey(), keys);
  listMap("attention.value", getValue(), keys);
  list.addLinear("attention.output", width, queries, list.getResidualScale(), hasOutputBias(*this));
}

void RectifiedAttentionOp::listWeights(WeightList &list) {
  int64_t width = getStream(getInput()).getWidth(), words = getStream(getWords()).getWidth();
  int64_t columns = *getHeads() * *getHeadSize();
  list.addNorm("attention.norm", getNorm(), width);
  list.addNorm("attention.words.norm", getNorm(), words);
  list.addLinear("attention.query", columns, width, 1, getBias());
  list.addLinear("attention.key", columns, width, 1, getBias());
  if (!getSharedMaps()) {
    list.addLinear("attention.words.query", columns, words, 1, getBias());
    list.addLinear("attention.words.key", columns, words, 1, getBias());
  }
  list.addLinear("attention.value", columns, width, 1, getBias());
  if (getVectors()) {
    list.add("attention.relative.table", {2 * *getVectors() + 1, *getHeadSize()},
             InitialValues::normal, embeddingDeviation);
  }
  list.addLinear("attention.output", width, columns, list.getResidualScale(), getBias());
}

//===----------------------------------------------------------------------===//
// Embedding and losses
//===----------------------------------------------------------------------===//

void EmbeddingOp::listWeights(WeightList &list) {
  ModelOp model = getModel(*this);
  int64_t width = getStream(getResult()).getWidth();
  InputOp input = getInput() ? model.findInput(*getInput()) : InputOp();
  if (input && input.isNumbers()) {
    return list.addMatrix("", width, input.getRowWidth());
  }
  double deviation = getDeviation().value_or(embeddingDeviation);
  int64_t tokens = input ? input.getTokenCount() : static_cast<int64_t>(model.getVocabulary());
  list.add("token.weight", {tokens, width}, InitialValues::normal, deviation);
  for (int64_t size : getNgrams().value_or(ArrayRef<int64_t>())) {
    list.add("ngram." + std::to_string(size) + ".weight", {*getNgramRows(), width},
             InitialValues::normal, deviation);
  }
  if (getPositions() == PositionTable::learned) {
    list.add("position.weight", {model.getContextOfInput(getInput().value_or("")), width},
             InitialValues::normal, embeddingDeviation);
  }
}

template <typename Op> static void listHead(Op op, WeightList &list) {
  int64_t vocabulary = getModel(op).getVocabulary();
  list.add("weight", {vocabulary, getStream(op.getInput()).getWidth()}, InitialValues::normal,
           embeddingDeviation, /*decays=*/true);
  if (op.getBias()) {
    list.addBias("", vocabulary);
  }
}
void HeadOp::listWeights(WeightList &list) { listHead(*this, list); }
void LossOp::listWeights(WeightList &list) { listHead(*this, list); }
void ContrastOp::listWeights(WeightList &) {}

//===----------------------------------------------------------------------===//
// Maps, shifts and resampling
//===----------------------------------------------------------------------===//

void NormOp::listWeights(WeightList &list) {
  list.addNorm("", getNorm(), getStream(getInput()).getWidth());
}

void ShiftOp::listWeights(WeightList &list) {
  if (getStart() == StartRows::null) {
    list.add("start.weight", {getStream(getInput()).getWidth()}, InitialValues::normal,
             embeddingDeviation);
  }
}

void ShortenOp::listWeights(WeightList &list) {
  int64_t width = getStream(getInput()).getWidth();
  if (getMethod() == ShortenMethod::concatenate) {
    list.addMatrix("", getStream(getResult()).getWidth() / *getFactor(), width);
  } else if (isLinear()) {
    list.addLinear("", width, getRows() * width, 1, /*hasBias=*/true);
  }
}

void UpsampleOp::listWeights(WeightList &list) {
  int64_t width = getStream(getInput()).getWidth();
  if (getMethod() == UpsampleMethod::split) {
    list.addLinear("", getStream(getResult()).getWidth(), width / *getFactor(), 1, true);
  } else if (isLinear()) {
    list.addLinear("", *getFactor() * width, getGroups() * width, 1, /*hasBias=*/true);
  }
}

/// Lists two matrices, columns of one.
/// Lists the map of values, and the rows that map a value to the two numbers of its scores.
void GraphConvolutionOp::listWeights(WeightList &list) {
  if (getMethod() != GraphMethod::attention) {
    return;
  }
  int64_t width = getStream(getInput()).getWidth();
  list.addMatrix("", width, width);
  list.addMatrix("source", 1, width);
  list.addMatrix("target", 1, width);
}

/// Lists a row for each row of the scale.
void PositionsOp::listWeights(WeightList &list) {
  StreamType own = getStream(getInput());
  int64_t rows = getModel(*this).countRows(own);
  if (BoundariesOp cut = getCutBelow(own, *this)) {
    rows = (cut.getMostSegments() + cut.getSpareRows() + own.getFactor() - 1) / own.getFactor();
  }
  list.add("weight", {rows, getColumns().value_or(own.getWidth())}, InitialValues::normal,
           embeddingDeviation);
}

void ProjectOp::listWeights(WeightList &list) {
  int64_t own = getStream(getInput()).getWidth(), rows = getStream(getResult()).getWidth();
  int64_t other = getWith() ? getStream(getWith()).getWidth() : 0;
  auto getShrink = [&](int64_t columns) {
    return std::sqrt(static_cast<double>(own + other) / static_cast<double>(columns));
  };
  list.addMatrix("", rows, own, getShrink(own), getInitial());
  if (getBias()) {
    list.addBias("", rows);
  }
  if (other > 0) {
    list.addMatrix("with", rows, other, getShrink(other), getInitial());
  }
}

/// Lists the maps of the input and of the state to the four gates, uniform in +-1/sqrt(state) as in
/// torch.nn.LSTM, and trained states.
void RecurrenceOp::listWeights(WeightList &list) {
  constexpr int64_t gates = 4;
  int64_t own = getStream(getInput()).getWidth(), state = getStream(getResult()).getWidth();
  double bound = 1 / std::sqrt(static_cast<double>(state));
  list.add("input.weight", {gates * state, own}, InitialValues::uniform, bound, /*decays=*/true);
  list.add("input.bias", {gates * state}, InitialValues::uniform, bound);
  list.add("state.weight", {gates * state, state}, InitialValues::uniform, bound, /*decays=*/true);
  if (getStart() == StartRows::null) {
    for (const char *name : {"start.hidden.weight", "start.cell.weight"}) {
      list.add(name, {state, 1}, InitialValues::zeros);
    }
  }
}

//===----------------------------------------------------------------------===//
// Segments
//===----------------------------------------------------------------------===//

/// Lists the two maps that a router compares, which are initialized as the identity (Hwang et al.
/// 2025, section 2.2), or the two maps of a predictor, which end in one number.
void BoundariesOp::listWeights(WeightList &list) {
  int64_t width = getStream(getInput()).getWidth();
  for (const char *name : {"own", "previous"}) {
    if (getRatio()) {
      list.addMatrix(name, width, width, 1, InitialValues::identity);
    }
  }
  if (getPredictor()) {
    list.addLinear("in", *getPredictor(), width, 1, /*hasBias=*/true);
    list.addLinear("out", 1, *getPredictor(), 1, /*hasBias=*/true);
  }
}

/// Lists the maps of attention over segments: one for each part of a row, of queries and results,
/// or of keys and values. Maps that are added to the stream are initialized as small as those in a
/// layer's block.
void AttendOp::listWeights(WeightList &list) {
  int64_t width = getStream(getInput()).getWidth(), over = getStream(getOver()).getWidth();
  int64_t columns = *getHeads() * *getHeadSize();
  auto name = [](const char *map, int64_t part) {
    return std::string(map) + "." + std::to_string(part);
  };
  list.addNorm("own.norm", getNorm(), width);
  list.addNorm("over.norm", getNorm(), over);
  if (!readsRows()) {
    list.addLinear("query", columns, width, 1, getBias());
    for (int64_t i = 0; i < getParts(); ++i) {
      list.addLinear(name("key", i), columns, over, 1, getBias());
      list.addLinear(name("value", i), columns, over, 1, getBias());
    }
    return list.addLinear("output", width, columns, list.getResidualScale(), getBias());
  }
  for (int64_t i = 0; i < getParts(); ++i) {
    list.addLinear(name("query", i), columns, width, 1, getBias());
  }
  list.addLinear("key", columns, over, 1, getBias());
  list.addLinear("value", columns, over, 1, getBias());
  double shrink = list.getResidualScale() * std::sqrt(static_cast<double>(getParts()));
  for (int64_t i = 0; i < getParts(); ++i) {
    list.addMatrix(name("output", i), width, columns, shrink);
  }
  if (getBias()) {
    list.addBias("output", width);
  }
}
