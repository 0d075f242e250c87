// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Dialect/Spec/VerifyModel.h"

#include "StageChecks.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::spec;

/// Losses of a model by name. The head's is mainLossName.
using Losses = llvm::StringMap<Operation *>;

static LogicalResult collectLosses(ModelOp model, Losses &losses) {
  for (auto loss : model.getBody().getOps<LossOp>()) {
    auto [at, isNew] = losses.try_emplace(loss.getName(), loss);
    if (!isNew) {
      StringRef key = loss.getBag() ? "bags" : "name";
      return emitKeyError(loss, key)
             << "expected a name that no earlier loss has, found " << quote(loss.getName())
             << ", which "
             << describePlace(
                    getKeyLoc(at->second, cast<LossOp>(at->second).getBag() ? "bags" : "name"))
             << " defines; choose another";
    }
  }
  for (auto head : model.getBody().getOps<HeadOp>()) {
    losses[mainLossName] = head;
  }
  for (auto contrast : model.getBody().getOps<ContrastOp>()) {
    bool isNew = losses.try_emplace(contrast.getLossName(), contrast).second;
    if (!isNew || (!contrast.getName() && contrast->getNextNode() &&
                   isa<StageInterface>(contrast->getNextNode()))) {
      return emitKeyError(contrast, "name")
             << "expected a name that no other loss has, found " << quote(contrast.getLossName())
             << "; add \"name\", or choose another";
    }
  }
  return success();
}

/// Verifies that boundaries by entropy use a loss on the tokens' scale; a later loss only gives
/// labels of a predictor.
static LogicalResult verifyEntropy(BoundariesOp cut, const Losses &losses) {
  if (cut.getRule() != SegmentRule::entropy) {
    return success();
  }
  Operation *asked = losses.lookup(*cut.getLoss());
  if (!asked) {
    return emitKeyError(cut, "loss") << "expected the name of a loss stage, or "
                                     << quote(mainLossName) << " of the head, for \"loss\", found "
                                     << quote(*cut.getLoss()) << "; give such a stage that name";
  }
  if (isa<ContrastOp>(asked)) {
    return emitKeyError(cut, "loss")
           << "expected the loss of a head or of a loss stage, over tokens, for \"loss\", found "
           << quote(*cut.getLoss()) << " of the contrast at " << describePlace(asked->getLoc())
           << ", whose softmax is over rows; name another";
  }
  if (cut->isBeforeInBlock(asked) && !cut.getPredictor()) {
    return emitKeyError(cut, "loss")
           << "expected the name of an earlier loss stage for \"loss\" without a \"predictor\", "
              "found that "
              "of "
           << describePlace(asked->getLoc())
           << ", whose rows may be computed from the segments that its entropy would cut, a cycle; "
              "add a \"predictor\", which learns such bits as labels, or name an earlier one";
  }
  auto loss = dyn_cast<LossOp>(asked);
  auto head = dyn_cast<HeadOp>(asked);
  int64_t shift = loss ? loss.getShiftOrDefault() : head ? head.getShiftOrDefault() : 1;
  if (getStream(asked->getOperand(0)).getFactor() != 1 || shift > 0) {
    return emitKeyError(cut, "loss")
           << "expected a loss on the tokens' scale, without a shift, for \"loss\", found that of "
           << describePlace(asked->getLoc()) << "; name another";
  }
  if (getStream(cut.getInput()).getAxis() == AxisKind::segments) {
    return emitKeyError(cut, "rule")
           << "expected the rule \"entropy\" on tokens, each of which has a row of the loss, found "
              "it on "
           << describeStream(cut.getInput()) << "; take another rule, or upsample it first";
  }
  return success();
}

/// Fails if the rows of a stream of the model's width, of an input, or of a stage have too many
/// numbers.
static LogicalResult verifySizes(ModelOp model) {
  auto count = [&](int64_t length, int64_t width) {
    return static_cast<__int128>(length) * static_cast<int64_t>(model.getBatch()) * width;
  };
  if (count(model.getLength(), model.getWidth()) > mostElements) {
    return emitKeyError(model, "context")
           << "expected context * batch * width of at most " << mostElements << ", found "
           << model.getLength() << " * " << model.getBatch() << " * " << model.getWidth()
           << "; make one of them smaller";
  }
  for (auto input : model.getBody().getOps<InputOp>()) {
    if (input.ownsAxis() && count(*input.getLength(), model.getWidth()) > mostElements) {
      return emitError(getKeyLoc(input, ""))
             << "expected context * batch * width of at most " << mostElements << " for the input "
             << quote(input.getSymName()) << ", found more; make one of them smaller";
    }
  }
  for (Operation &stage : model.getBody().getOps()) {
    auto stream = stage.getNumResults() == 1 ? dyn_cast<StreamType>(stage.getResult(0).getType())
                                             : StreamType();
    if (stream && count(model.getLength(), stream.getWidth()) > mostElements) {
      return emitKeyError(&stage, "width")
             << "expected context * batch * width of at most " << mostElements
             << ", found a width of " << stream.getWidth() << "; make one of them smaller";
    }
  }
  return success();
}

/// Fails if batches of lines by length cannot hold the longest line, or are never full.
static LogicalResult verifyLineBatches(TrainingOp training) {
  std::optional<int64_t> tokens = training.getBatchTokens();
  if (!tokens) {
    return success();
  }
  auto model = training->getParentOfType<ModelOp>();
  bool hasLines = false;
  int64_t longest = model.getLength();
  for (auto input : model.getBody().getOps<InputOp>()) {
    if (input.ownsAxis()) {
      hasLines = true;
      longest = std::max(longest, static_cast<int64_t>(*input.getLength()));
    }
  }
  if (!hasLines) {
    return emitKeyError(training, "batch_tokens")
           << "expected \"batch_tokens\" in a model with named inputs, which trains on lines of "
              "different lengths, found a model of texts, whose rows all have the context; set "
              "\"batch\" instead";
  }
  if (*tokens < longest) {
    return emitKeyError(training, "batch_tokens")
           << "expected \"batch_tokens\" of at least " << longest
           << ", the largest context, so that the longest line fits, found " << *tokens
           << "; raise it, or lower the context";
  }
  auto most = static_cast<int64_t>(model.getBatch()) * longest;
  if (*tokens >= most) {
    return emitKeyError(training, "batch_tokens")
           << "expected \"batch_tokens\" below " << most << ", \"batch\" lines of the largest "
           << "context, found " << *tokens << ", which limits no batch; raise \"batch\", the "
           << "maximum number of lines, or leave \"batch_tokens\" out";
  }
  return success();
}

/// Fails if two segmentations have one name, or a model with segments of its tokens has inputs.
static LogicalResult verifySegmentNames(ModelOp model) {
  bool hasInputs = llvm::any_of(model.getBody().getOps<InputOp>(),
                                [](InputOp input) { return input.isTokens(); });
  llvm::StringSet<> names;
  for (auto cut : model.getBody().getOps<BoundariesOp>()) {
    if (hasInputs && getStream(cut.getInput()).getAxis() != AxisKind::input) {
      return emitKeyError(cut, "name")
             << "expected no segments of the tokens in a model with named inputs, whose lines are "
                "filled up with bytes that would count, found both; leave one out";
    }
    if (!names.insert(cut.getName()).second || model.findInput(cut.getName())) {
      return emitKeyError(cut, "name")
             << "expected a name that no input and no earlier segments have, found "
             << quote(cut.getName()) << "; choose another";
    }
  }
  return success();
}

LogicalResult spec::verifyExpandedModel(ModelOp model) {
  Losses losses;
  if (failed(verifySegmentNames(model)) || failed(collectLosses(model, losses))) {
    return failure();
  }
  for (auto cut : model.getBody().getOps<BoundariesOp>()) {
    if (failed(verifyEntropy(cut, losses))) {
      return failure();
    }
  }
  for (auto training : model.getBody().getOps<TrainingOp>()) {
    if (failed(verifyLineBatches(training))) {
      return failure();
    }
  }
  return verifySizes(model);
}

/// Returns true for words of letters, digits, - and _ with dots between them, like names of tensors
/// in files.
static bool isWeightName(StringRef name) {
  auto isPart = [](char c) { return llvm::isAlnum(c) || c == '_' || c == '-' || c == '.'; };
  return !name.empty() && llvm::all_of(name, isPart) && !name.contains("..") &&
         !name.starts_with(".") && !name.ends_with(".");
}

LogicalResult spec::verifyStageOrder(ModelOp model) {
  SmallVector<StageInterface> stages = llvm::to_vector(model.getBody().getOps<StageInterface>());
  auto first = stages.empty() ? EmbeddingOp() : dyn_cast<EmbeddingOp>(*stages.front());
  if (!first || first.getInput()) {
    return emitError(getKeyLoc(model, ""))
           << "expected a model whose first stage is an embedding of the tokens, found another";
  }
  for (StageInterface stage : stages) {
    bool isLast = stage == stages.back();
    if (isa<HeadOp>(stage) != isLast && !(isLast && isa<ContrastOp>(stage))) {
      return emitError(getKeyLoc(stage, ""))
             << "expected a head as the last stage and nowhere else, found " << stage->getName();
    }
    StringAttr path = stage.getPathAttr();
    if (path && !isWeightName(path.getValue())) {
      return emitError(getKeyLoc(stage, ""))
             << "expected a \"path\" of letters, digits, _, - and single dots, found " << path;
    }
    if (!path) {
      return emitError(getKeyLoc(stage, ""))
             << "expected the attribute \"path\" of " << stage->getName()
             << ", the prefix of its weights' names, found none; add it";
    }
  }
  return success();
}

bool spec::isComposite(Operation *stage) {
#define SPEC_COMPOSITE(Name)                                                                       \
  if (isa<Name##Op>(stage)) {                                                                      \
    return true;                                                                                   \
  }
#include "sluice/Dialect/Spec/SpecComposites.inc"
#undef SPEC_COMPOSITE
  return false;
}

LogicalResult spec::refuseComposite(Operation *stage) {
  return emitError(getKeyLoc(stage, "")) << "expected primitive stages, found " << stage->getName()
                                         << "; run spec-expand-composites first";
}

LogicalResult spec::refuseFrozen(Operation *stage) {
  return emitKeyError(stage, "frozen") << "expected \"frozen\" only on a stage that has weights, "
                                          "found it on one that has none; leave it out";
}
