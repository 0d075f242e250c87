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

/// Creates the rows that are scored, on the tokens' scale: row t reads group (t - shift) div f and
/// is scored against token t + 1. So a group predicts the bag of its next f tokens.
template <typename Op> Value LossConversion<Op>::createScoredRows(Value x) {
  int64_t shift = op.getShiftOrDefault();
  SequenceType type = c.getSequence(1, c.getWidth(), cast<SequenceType>(x.getType()).getElement());
  if (c.getFactor() > 1) {
    c.setName("upsample");
    x = UpsampleOp::create(c.b, type, x, c.getFactor());
  }
  if (shift > 0) {
    c.setName("shift");
    x = c.createShift(x, shift);
  }
  return x;
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

void spec_to_sluice::populateLossConversions(StageConversions &conversions) {
  conversions.add(convertLoss);
  conversions.add(convertHead);
}
