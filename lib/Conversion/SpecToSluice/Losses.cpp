// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Converts the head and the losses of rows.
#include "SpecToSluice.h"
#include "sluice/Dialect/Sluice/Labels.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::spec_to_sluice;

namespace {

/// Converts a head or a loss.
template <typename Op> class LossConversion {
public:
  LossConversion(StageContext &context, Op op, std::string name, double factor)
      : c(context), op(op), name(std::move(name)), factor(factor) {}

  /// Records the rows and weights of the softmax, for boundaries that read its entropy.
  Value registerRows() {
    Value x = c.getValue(op.getInput());
    c.scored[name] = {x, getWeightName(), op.getBias() ? c.getSymbol("bias") : ""};
    return x;
  }
  Value createScoredRows(Value x);
  Value addTerm(Value x);
  Value createLogits(Value x);

private:
  std::string getWeightName() { return c.getSymbol("weight"); }
  Value readBias() { return op.getBias() ? c.readOwn("bias") : Value(); }
  std::string getRowWeights() {
    return c.purpose == Purpose::Train ? op.getWeights().value_or("").str() : "";
  }
  Value createLosses(Value x);

  StageContext &c;
  Op op;
  std::string name;
  double factor;
};

} // namespace

/// Creates rows on the tokens' scale from groups of f: row t reads group (t - shift) div f.
static Value createTokenRows(StageContext &c, Value x, int64_t shift, StringRef prefix = "") {
  auto groups = cast<SequenceType>(x.getType());
  SequenceType type = c.getSequence(1, groups.getWidth(), groups.getElement());
  if (c.getFactor() > 1) {
    c.setName((prefix + "upsample").str());
    x = UpsampleOp::create(c.b, type, x, c.getFactor());
  }
  if (shift > 0) {
    c.setName((prefix + "shift").str());
    x = c.createShift(x, shift);
  }
  return x;
}

/// Creates the rows that are scored, on the tokens' scale: row t is scored against token t + 1. So
/// a group predicts the bag of its next f tokens.
template <typename Op> Value LossConversion<Op>::createScoredRows(Value x) {
  return createTokenRows(c, x, op.getShiftOrDefault());
}

/// Creates the losses of rows from the first scored row on. A head is always evaluated against the
/// tokens, even if it trains against other targets.
template <typename Op> Value LossConversion<Op>::createLosses(Value x) {
  Value weight = c.readWeight(getWeightName()), bias = readBias();
  bool isTrained = c.purpose == Purpose::Train;
  double smoothing = isTrained ? op.getLabelSmoothing() : 0;
  bool readsTokens = !isTrained && std::is_same_v<Op, spec::HeadOp>;
  Value losses = CrossEntropyOp::create(c.b, c.getSequence(1, 0, c.b.getF32Type()), x, weight,
                                        c.getTokens(), bias, 1, op.getFirstOrDefault(),
                                        llvm::APFloat(static_cast<float>(smoothing)),
                                        readsTokens ? "" : op.getTarget().value_or(""));
  std::string numbers = getRowWeights();
  if (numbers.empty()) {
    return losses;
  }
  c.setName("weights");
  Value weights = LabelsOp::create(c.b, losses.getType(), c.getTokens(), numbers, /*numbers=*/true);
  c.setName("weighted");
  return c.createProduct(losses, weights);
}

/// Adds the term of rows x to the objective, and the labels that wait for the softmax of x.
template <typename Op> Value LossConversion<Op>::addTerm(Value x) {
  c.setName(op->getName().stripDialect());
  Value losses = createLosses(x);
  c.terms.push_back({losses, name, factor, op.getFirstOrDefault(), getRowWeights()});
  superviseWaiting(c, name);
  return losses;
}

/// Creates the logits of the last row.
template <typename Op> Value LossConversion<Op>::createLogits(Value x) {
  c.setName(op->getName().stripDialect());
  Value weight = c.readWeight(getWeightName()), bias = readBias();
  auto last = FlatSymbolRefAttr::get(c.b.getContext(), lastScale);
  auto row = SequenceType::get(c.b.getContext(), last, c.getWidth(), c.computeType);
  auto logits =
      SequenceType::get(c.b.getContext(), last, c.model.getVocabulary(), c.b.getF32Type());
  return LinearOp::create(c.b, logits, LastOp::create(c.b, row, x), weight, bias);
}

static Value convertLoss(StageContext &c, spec::LossOp op) {
  LossConversion<spec::LossOp> loss(c, op, op.getName().str(), op.getFactor());
  Value x = loss.registerRows();
  return c.purpose == Purpose::Predict ? x : loss.addTerm(loss.createScoredRows(x));
}

static Value convertHead(StageContext &c, spec::HeadOp op) {
  LossConversion<spec::HeadOp> head(c, op, spec::mainLossName.str(), 1);
  Value x = head.createScoredRows(head.registerRows());
  return c.purpose == Purpose::Predict ? head.createLogits(x) : head.addTerm(x);
}

/// Creates rows in the type of the factors of products.
static Value createFactor(StageContext &c, Value x, StringRef part) {
  auto type = cast<SequenceType>(x.getType());
  if (type.getElement() == c.computeType) {
    return x;
  }
  c.setName(part);
  type = SequenceType::get(c.b.getContext(), type.getScale(), type.getWidth(), c.computeType);
  return c.createMap(type, x, [](ArrayRef<ScalarValue> v) { return v[0]; });
}

namespace {

/// Converts a contrast: losses of rows that choose among candidates, each at one token of the row
/// that it should choose, and 1 at these tokens.
class ContrastConversion {
public:
  ContrastConversion(StageContext &context, spec::ContrastOp op)
      : c(context), op(op), number(c.getSequence(c.getFactor(), 0, c.b.getF32Type())) {
    bool isTrained = c.purpose == Purpose::Train;
    parts = isTrained ? static_cast<int64_t>(op.getExtraBatches()) + 1 : 1;
  }

  Value convert();

private:
  void createSegmentLosses();
  void createGroupLosses();
  Value createWholeGroups(int64_t firstCandidate);
  void createLosses(Value valid);
  Value createCounted(int64_t first, int64_t every, int64_t parts);

  StageContext &c;
  spec::ContrastOp op;
  SequenceType number;
  int64_t parts;                  ///< the texts of the first of this many parts have losses
  Value rows, factor, candidates; ///< `factor`: rows in the type of factors of products
  Value scored;                   ///< rows that score the next token
  Value losses, counted;          ///< one number per token
  int64_t first = 0;              ///< first token that may have a loss
};

} // namespace

/// Creates losses of rows, on their scale.
void ContrastConversion::createLosses(Value valid) {
  c.setName("losses");
  losses = sluice::ContrastOp::create(c.b, number, factor, candidates, valid, parts);
}

Value ContrastConversion::createCounted(int64_t first, int64_t every, int64_t parts) {
  return CountedRowsOp::create(c.b, c.getTokenSequence(0), first, every, parts, c.hasLines());
}

/// Creates the rows of closed segments at the tokens that follow them, and the loss of each segment
/// that another one follows at the last token of the following one.
void ContrastConversion::createSegmentLosses() {
  const Segmentation &of = c.segmentations.at(getSegmentsName(c.type));
  c.setName("spread");
  SequenceType finer = c.getTokenSequence(c.getWidth());
  finer = SequenceType::get(c.b.getContext(), finer.getScale(), finer.getWidth(),
                            cast<SequenceType>(rows.getType()).getElement());
  scored = SpreadSegmentsOp::create(c.b, finer, rows, of.counts, of.ends, /*by=*/1);
  c.setName("ones");
  Value ones = c.createConstants(of.bits, 1); // texts of segments are no lines
  c.setName("closed");
  Value closed =
      SelectSegmentsOp::create(c.b, withScale(c, of.bits, rows), ones, of.counts, of.ends);
  createLosses(closed);
  auto moveToTokens = [&](StringRef name, Value x) {
    c.setName(name);
    x = c.materialize(name, c.createShift(x, 1));
    return c.createColumnSum(createTokenNumbers(c, x));
  };
  losses = moveToTokens("next", c.createRepeated(losses, closed));
  counted = moveToTokens("counted", closed);
  if (parts > 1) {
    c.setName("counted.texts");
    counted = c.createProduct(counted, createCounted(0, 1, parts));
  }
}

/// Creates 1 in groups, from `firstCandidate`, all of whose tokens are in the text, else 0.
Value ContrastConversion::createWholeGroups(int64_t firstCandidate) {
  c.setName("whole");
  Value counted = createCounted(firstCandidate * c.getFactor(), 1, 1);
  Value ones = RepeatColumnsOp::create(c.b, c.getTokenSequence(1), counted);
  SequenceType type = c.getSequence(c.getFactor(), 1, c.b.getF32Type());
  Value share = ShortenOp::create(c.b, type, ones, c.getFactor(), dispatch::ReduceKind::Add,
                                  /*window=*/0, /*mean=*/true);
  double most = 1 - 0.5 / static_cast<double>(c.getFactor());
  return c.createMap(share, [&](ArrayRef<ScalarValue> v) { return selectAbove(v[0], most, 1, 0); });
}

/// Creates the rows of groups that score tokens, and the loss of each group that another one
/// follows at the last token of the following one.
void ContrastConversion::createGroupLosses() {
  scored = createTokenRows(c, rows, op.getShiftOrDefault());
  auto candidate = static_cast<int64_t>(op.getFirst());
  bool areAllValid = c.getFactor() == 1 && !c.hasLines() && candidate == 0;
  createLosses(areAllValid ? Value() : createWholeGroups(candidate));
  first = c.getFactor();
  c.setName("counted");
  int64_t firstChosen = std::max<int64_t>(candidate, 1); // no row chooses group 0
  counted = createCounted((firstChosen + 1) * first - 1, first, parts);
  c.setName("column");
  SequenceType column = c.getSequence(c.getFactor(), 1, c.b.getF32Type());
  losses = createTokenRows(c, RepeatColumnsOp::create(c.b, column, losses), first, "losses.");
  c.setName("losses.tokens");
  losses = c.createProduct(c.createColumnSum(losses), counted);
}

/// Declares that the rows score the next token: no row may read a token of its target. The texts
/// that only give candidates have losses of 0.
Value ContrastConversion::convert() {
  rows = c.materialize("rows", c.getValue(op.getInput()));
  candidates = c.materialize("candidates", c.getValue(op.getCandidates()));
  factor = createFactor(c, rows, "rows.factor");
  candidates = createFactor(c, candidates, "candidates.factor");
  c.type.getAxis() == spec::AxisKind::segments ? createSegmentLosses() : createGroupLosses();
  c.setName("contrast");
  losses = CrossEntropyOp::create(c.b, losses.getType(), scored, losses, c.getTokens(), Value(), 1,
                                  first, llvm::APFloat(0.0F), "");
  c.terms.push_back(
      {losses, op.getLossName().str(), op.getFactor(), first, /*weights=*/"", counted});
  return losses;
}

static Value convertContrast(StageContext &c, spec::ContrastOp op) {
  return c.purpose == Purpose::Predict ? c.getValue(op.getInput())
                                       : ContrastConversion(c, op).convert();
}

void spec_to_sluice::populateLossConversions(StageConversions &conversions) {
  conversions.add(convertLoss);
  conversions.add(convertHead);
  conversions.add(convertContrast);
}
