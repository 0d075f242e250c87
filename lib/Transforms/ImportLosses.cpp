// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Losses, the head, and what training minimizes.
#include "ImportStages.h"
#include "sluice/Dialect/Sluice/Labels.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::importing;
using namespace sluice::spec;

Value StageWriter::score(const Head &settings, Value x) {
  Value weight = readWeight(settings.tied ? embedding : current->prefix + ".weight");
  Value bias = settings.bias ? parameter("bias") : Value();
  bool isTrained = purpose == Purpose::Train;
  double smoothing = isTrained ? settings.labelSmoothing : 0;
  // What the head predicts is evaluated by the tokens, as all models are.
  bool isAgainstTokens = !isTrained && current->op() == spec::Op::Head;
  Value losses = CrossEntropyOp::create(
      b, sequence(1, 0, b.getF32Type()), x, weight, function.getArgument(0), bias, 1,
      settings.firstOf(current->factor), llvm::APFloat(static_cast<float>(smoothing)),
      isAgainstTokens ? "" : settings.target);
  if (!isTrained || settings.weights.empty()) {
    return losses;
  }
  name("weights");
  Value weights = LabelsOp::create(b, losses.getType(), function.getArgument(0), settings.weights,
                                   /*numbers=*/true);
  name("weighted");
  return map({losses, weights},
             [&](ArrayRef<Value> v) -> Value { return arith::MulFOp::create(b, v[0], v[1]); });
}

std::string StageWriter::weightsOf(const Head &settings) const {
  return purpose == Purpose::Train ? settings.weights : "";
}

/// The bag of a group's next f tokens: row t reads group (t - shift) div f and is scored against
/// token t + 1. The first `shift` rows have no group.
Value StageWriter::rowsOf(const Head &settings, Value x) {
  int64_t factor = current->factor, shift = settings.shiftOf(factor);
  SequenceType type = sequence(1, current->width, cast<SequenceType>(x.getType()).getElement());
  if (factor > 1) {
    name("upsample");
    x = UpsampleOp::create(b, type, x, factor);
  }
  if (shift > 0) {
    name("shift");
    x = ShiftOp::create(b, type, x, shift);
  }
  return x;
}

/// What a head scores, whose softmax boundaries may ask by the loss's name.
Value StageWriter::ask(const std::string &loss, const Head &settings) {
  Value x = streams[current->input];
  asked[loss] = {x, settings.tied ? embedding : current->prefix + ".weight",
                 settings.bias ? current->prefix + ".bias" : ""};
  return x;
}

/// A term of the objective, of rows x, and the labels that wait for its softmax.
Value StageWriter::addLoss(const Head &settings, const std::string &loss, double factor, Value x) {
  name(spec::name(current->op()));
  terms.push_back(
      {score(settings, x), loss, factor, settings.firstOf(current->factor), weightsOf(settings)});
  labelEarlier(loss);
  return terms.back().losses;
}

Value StageWriter::stage(const Loss &settings) {
  Value x = ask(settings.name, settings.head);
  return purpose == Purpose::Predict
             ? x
             : addLoss(settings.head, settings.name, settings.factor, rowsOf(settings.head, x));
}

Value StageWriter::stage(const Head &settings) {
  Value x = rowsOf(settings, ask(std::string(mainLoss), settings));
  if (purpose != Purpose::Predict) {
    return addLoss(settings, std::string(mainLoss), 1, x);
  }
  name("head");
  Value weight = readWeight(settings.tied ? embedding : current->prefix + ".weight");
  Value bias = settings.bias ? parameter("bias") : Value();
  auto last = FlatSymbolRefAttr::get(b.getContext(), lastScale);
  auto row = SequenceType::get(b.getContext(), last, current->width, computeType);
  auto logits = SequenceType::get(b.getContext(), last, model.vocabulary, b.getF32Type());
  return LinearOp::create(b, logits, LastOp::create(b, row, x), weight, bias);
}

void StageWriter::finish() {
  SmallVector<Value> results = {streams.back()};
  if (purpose != Purpose::Predict) {
    std::rotate(terms.begin(), terms.end() - 1, terms.end()); // the head's loss leads
    results.clear();
    SmallVector<Attribute> names, weights;
    SmallVector<double> factors;
    SmallVector<int64_t> first;
    for (const Term &term : terms) {
      results.push_back(term.losses);
      names.push_back(b.getStringAttr(term.name));
      weights.push_back(b.getStringAttr(term.weights));
      factors.push_back(term.factor);
      first.push_back(term.first);
    }
    bool isWeighted = llvm::any_of(terms, [](const Term &term) { return !term.weights.empty(); });
    name("objective");
    // Lines of named inputs end before their rows do.
    ObjectiveOp::create(b, results, b.getArrayAttr(names), factors, first, !model.inputs.empty(),
                        /*batches=*/1, isWeighted ? b.getArrayAttr(weights) : ArrayAttr());
  }
  func::ReturnOp::create(b, results);
  function.setType(b.getFunctionType(function.getArgumentTypes(), ValueRange(results).getTypes()));
}
