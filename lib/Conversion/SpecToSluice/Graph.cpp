// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Converts stages of rows that are joined by edges or by their segment: graph convolutions, and
// attention over rows and segments (Li et al. 2022).
#include "Attention.h"
#include "SpecToSluice.h"

#include <utility>

using namespace mlir;
using namespace sluice;
using namespace sluice::spec_to_sluice;

//===----------------------------------------------------------------------===//
// Graph convolution
//===----------------------------------------------------------------------===//

namespace {
/// The edges that a stage reads, as attributes of ops over their lists.
struct EdgeLists {
  EdgeLists() = default;
  EdgeLists(StageContext &c, spec::GraphConvolutionOp op) : name(op.getEdgesAttr()) {
    spec::InputOp edges = c.model.findInput(*op.getEdges());
    spec::InputOp on = c.model.findInput(*edges.getOn());
    bits = on.ownsAxis() ? StringAttr() : on.getSymNameAttr();
    capacity = c.b.getI64IntegerAttr(edges.countEdges());
    drawn = capacity.getInt() == 0 ? c.b.getUnitAttr() : UnitAttr();
  }
  StringAttr name, bits;
  IntegerAttr capacity;
  UnitAttr drawn; ///< pairs of rows are drawn, none is listed
};
} // namespace

/// Creates P x with P = D^-1/2 (A + I) D^-1/2, or D^-1 (A + I) x, for the degrees D of A + I.
static Value convertEdges(StageContext &c, spec::GraphConvolutionOp op, Value x) {
  EdgeLists edges(c, op);
  bool isMean = op.getMethod() == spec::GraphMethod::mean;
  c.setName("degrees");
  Value weights = DegreesOp::create(c.b, c.getSequence(c.getFactor(), 0, c.b.getF32Type()),
                                    edges.name, edges.bits, edges.capacity, edges.drawn);
  c.setName("weights");
  weights = c.createMap(weights,
                        [&](ArrayRef<ScalarValue> v) { return 1 / (isMean ? v[0] : sqrt(v[0])); });
  c.setName("graph");
  return GraphSumOp::create(c.b, c.getSequence(c.getFactor(), c.getWidth(), c.residualType), x,
                            weights, isMean ? Value() : weights, edges.name, edges.bits,
                            edges.capacity, edges.drawn);
}

/// Creates (x[p] + the sum of x over the segment of p) / (n + 1) for a segment of n rows, or the
/// mean over the segment.
static Value convertSegments(StageContext &c, spec::GraphConvolutionOp op, Value x) {
  const Segmentation &of = c.getSegmentation(op.getSegments());
  bool isMean = op.getMethod() == spec::GraphMethod::mean;
  c.setName("pool");
  Value sums = createSegmentSums(c, x, of, isMean);
  c.setName("spread");
  sums = createOwnSegments(c, sums, of);
  if (isMean) {
    return sums;
  }
  Value sizes = createSegmentSizes(c, of);
  c.setName("sizes.spread");
  sizes = createOwnSegments(c, sizes, of);
  c.setName("sum");
  return createGatedRows(c, c.createSum({x, sums}), sizes,
                         [](ScalarValue n) { return 1 / (n + 1); });
}

/// Creates the sums of W x[q] over the neighbours q of a row, weighted by a softmax (Velickovic et
/// al. 2018, equations 1 to 4, with one head).
static Value convertGraphAttention(StageContext &c, spec::GraphConvolutionOp op, Value x) {
  constexpr float leak = 0.2F;
  Value values = c.createLinear("", x, c.computeType);
  SequenceType numbers = c.getSequence(c.getFactor(), 0, c.b.getF32Type());
  auto createScores = [&](const std::string &part) {
    Value scores = c.createLinear(part, values, c.b.getF32Type());
    c.setName(part + ".number");
    return c.createColumnSum(scores);
  };
  Value source = createScores("source"), target = createScores("target"), first, end;
  EdgeLists edges = op.getEdges() ? EdgeLists(c, op) : EdgeLists();
  if (op.getSegments()) {
    SmallVector<Value> range = createSegmentRange(c, "graph", c.getSegmentation(op.getSegments()));
    first = range[0];
    end = range[1];
  }
  c.setName("graph");
  return GraphAttentionOp::create(c.b, c.getSequence(c.getFactor(), c.getWidth(), c.residualType),
                                  numbers, source, target, values, first, end, edges.name,
                                  edges.bits, edges.capacity, c.b.getF32FloatAttr(leak))
      .getResult();
}

static Value convertGraphConvolution(StageContext &c, spec::GraphConvolutionOp op) {
  Value x = c.materialize("rows", c.getValue(op.getInput()));
  bool attends = op.getMethod() == spec::GraphMethod::attention;
  Value y = attends            ? convertGraphAttention(c, op, x)
            : op.getSegments() ? convertSegments(c, op, x)
                               : convertEdges(c, op, x);
  if (op.getActivation() == spec::ActivationFunction::none) {
    return y;
  }
  c.setName("activation");
  return c.createMap(
      y, [&](ArrayRef<ScalarValue> v) { return applyActivation(op.getActivation(), v[0]); });
}

//===----------------------------------------------------------------------===//
// Attention over rows and segments
//===----------------------------------------------------------------------===//

/// Creates queries and keys of normed rows, named after `part`, by the maps of `maps`.
static AttentionInputs createQueriesAndKeys(StageContext &c, spec::RectifiedAttentionOp op,
                                            const std::string &part, const std::string &maps,
                                            Value x) {
  Value query = c.createLinear(part + ".query", x, c.computeType, maps + ".query");
  Value keys = c.createLinear(part + ".key", x, c.computeType, maps + ".key");
  AttentionInputs inputs = {query, keys, {}, 0, 0, {}};
  if (op.getVectors()) { // Shaw et al. 2018, equation 4
    inputs.extras = {query, c.readWeight(c.getSymbol("attention.relative.table"))};
  }
  return inputs;
}

/// Creates T^t x for the matrix T of `expand`: sums of rows by segment.
static Value createSums(StageContext &c, spec::RectifiedAttentionOp op, Value x,
                        const Segmentation &of) {
  if (op.getExpand() == spec::WordExpansion::own) {
    return createSegmentSums(c, x, of);
  }
  bool isLinear = op.getExpand() == spec::WordExpansion::linear;
  return ResampleOp::create(c.b, withScale(c, x, of.ends), x, isLinear, /*transposed=*/true);
}

/// Creates T x: rows from rows of segments.
static Value createExpanded(StageContext &c, spec::RectifiedAttentionOp op, Value x,
                            const Segmentation &of) {
  if (op.getExpand() == spec::WordExpansion::own) {
    return createOwnSegments(c, x, of);
  }
  bool isLinear = op.getExpand() == spec::WordExpansion::linear;
  return ResampleOp::create(c.b, withScale(c, x, of.counts), x, isLinear, /*transposed=*/false);
}

/// Creates W_o (A1 v + T A2 V) / 2 for the maps A1 and A2 of attention over rows and over segments,
/// V = T^t v the sums of v by segment and T x rows of segments for rows; `x` is normed.
static Value convertRectified(StageContext &c, spec::RectifiedAttentionOp op, Value x) {
  spec::StreamType own = c.type, words = getStreamType(op.getWords());
  const Segmentation &of = c.segmentations.at(words.getName().getValue());
  HeadSettings heads = {*op.getHeads(), *op.getHeads(), *op.getHeadSize(),
                        op.getAttentionDropout()};
  heads.terms = op.getVectors() ? spec::RelativeTerms::vectors : spec::RelativeTerms::none;
  heads.mask = spec::MaskAttr::get(c.b.getContext(), spec::MaskShape::bidirectional, 0, 0);
  Location place = spec::getKeyLoc(op, "words");
  Value coarse = c.createNorm("attention.words", op.getNorm(), op.getEpsilon(),
                              c.getValue(op.getWords()), c.computeType);
  AttentionInputs fine = createQueriesAndKeys(c, op, "attention", "attention", x);
  fine.values = c.createLinear("attention.value", x, c.computeType);
  Value mixed = createMix(c, "attention", heads, fine, place);
  const char *maps = op.getSharedMaps() ? "attention" : "attention.words";
  AttentionInputs sums = createQueriesAndKeys(c, op, "attention.words", maps, coarse);
  c.setName("attention.words.value");
  sums.values = createSums(c, op, fine.values, of);
  c.type = words;
  Value spread = createMix(c, "attention.words", heads, sums, place);
  c.type = own;
  c.setName("attention.words.spread");
  spread = createExpanded(c, op, spread, of);
  c.setName("attention.half");
  mixed = c.createMap({mixed, spread}, [](ArrayRef<ScalarValue> v) { return (v[0] + v[1]) * 0.5; });
  return c.createLinear("attention.output", mixed, c.residualType);
}

static Value convertRectifiedAttention(StageContext &c, spec::RectifiedAttentionOp op) {
  Value x = c.getValue(op.getInput());
  Value branch = convertRectified(
      c, op, c.createNorm("attention", op.getNorm(), op.getEpsilon(), x, c.computeType));
  c.setName("attention.sum");
  return c.createMap({x, branch}, [&](ArrayRef<ScalarValue> v) {
    return v[0] + c.createDropout(v[1], op.getDropout(), c.getWidth());
  });
}

void spec_to_sluice::populateGraphConversions(StageConversions &conversions) {
  conversions.add(convertGraphConvolution);
  conversions.add(convertRectifiedAttention);
}
