// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Verifiers of heads and losses: the scored rows, and their targets.
#include "StageChecks.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::spec;

/// Returns the tokens before the first row of `stream` that may be scored: earlier rows have no
/// group of the coarsest scale of a top_down.
static int64_t getFirstTokens(Value stream) {
  int64_t first = 0;
  SmallVector<Value> open = {stream};
  llvm::DenseSet<Value> seen;
  while (!open.empty()) {
    Operation *stage = open.pop_back_val().getDefiningOp();
    if (auto topDown = dyn_cast<TopDownOp>(stage)) {
      first = std::max(first, topDown.getTokensBefore());
    } else if (auto tokens = cast<StageInterface>(stage).getFirstTokensAttr()) {
      first = std::max(first, tokens.getInt()); // the last stage of the top_down's expansion
    }
    for (Value operand : stage->getOperands()) {
      if (isa<StreamType>(operand.getType()) && seen.insert(operand).second) {
        open.push_back(operand);
      }
    }
  }
  return first;
}

/// Verifies a head or a loss. Rows are scored from the first row that has a group.
template <typename Op> static LogicalResult verifyScored(Op op) {
  ModelOp model = getModel(op);
  StreamType input = getStream(op.getInput());
  if (op.getTied() && input.getWidth() != static_cast<int64_t>(model.getWidth())) {
    return emitKeyError(op, "tied")
           << "expected a stream of the embedding's width of " << model.getWidth()
           << " where \"tied\" is true, found " << describeStream(op.getInput()) << ", of width "
           << input.getWidth() << "; project it to that width, or write \"tied\": false";
  }
  int64_t shift = op.getShiftOrDefault(), first = op.getFirstOrDefault(),
          tokens = getFirstTokens(op.getInput());
  std::string found = op.getFirst() || tokens <= shift ? std::to_string(first) : "none";
  if (first < shift) {
    return emitKeyError(op, "first") << "expected \"first\" of at least the shift of " << shift
                                     << ", as earlier rows read no group, found " << found
                                     << "; leave it out, or make it larger";
  }
  if (first < tokens) {
    return emitKeyError(op, "first")
           << "expected \"first\" of at least " << tokens
           << ", as earlier rows have no group of the coarsest scale of a top_down stage, found "
           << found << "; write \"first\": " << tokens << " in this stage";
  }
  if (first >= static_cast<int64_t>(model.getLength())) {
    return emitKeyError(op, "first")
           << "expected a first row that is scored within the context of " << model.getLength()
           << ", found row " << first << "; make the context larger";
  }
  return success();
}

/// Fails if `name`, the value of `key`, is not an input of numbers with this role.
static LogicalResult verifyNumbers(Operation *op, StringRef key, std::optional<StringRef> name,
                                   InputUse role) {
  InputOp input = name ? getModel(op).findInput(*name) : InputOp();
  if (!name || (input && input.isNumbers() && input.getRole() == role)) {
    return success();
  }
  std::string known;
  for (auto each : getModel(op).getBody().template getOps<InputOp>()) {
    if (each.isNumbers() && each.getRole() == role) {
      known += (known.empty() ? "" : ", ") + quote(each.getSymName());
    }
  }
  return emitKeyError(op, key) << "expected the name of an input for " << quote(key)
                               << " whose role is " << quote(stringifyInputUse(role)) << ", found "
                               << quote(*name) << "; "
                               << (known.empty() ? R"(the spec has none: add it to "inputs")"
                                                 : "known inputs: " + known);
}

template <typename Op> static LogicalResult verifyHead(Op op) {
  if (op.getTarget() && op.getLabelSmoothing() > 0) {
    return emitKeyError(op, "label_smoothing")
           << "expected no \"label_smoothing\" with \"target\", whose distributions may be as "
              "smooth as they like, found both; leave one out";
  }
  return failure(failed(verifyNumbers(op, "target", op.getTarget(), InputUse::target)) ||
                 failed(verifyNumbers(op, "weights", op.getWeights(), InputUse::weight)) ||
                 failed(verifyAxis(op, op.getInput())) || failed(verifyScored(op)));
}

int64_t HeadOp::getShiftOrDefault() {
  return getShift().value_or(getStream(getInput()).getFactor() - 1);
}
int64_t HeadOp::getFirstOrDefault() { return getFirst().value_or(getShiftOrDefault()); }
LogicalResult HeadOp::verify() { return verifyHead(*this); }
Type HeadOp::computeResultType() { return {}; }
void HeadOp::setDerivedDefaults() {}

int64_t LossOp::getShiftOrDefault() {
  return getShift().value_or(getStream(getInput()).getFactor() - 1);
}
int64_t LossOp::getFirstOrDefault() { return getFirst().value_or(getShiftOrDefault()); }
/// Verifies the name of a loss that does not end the model.
static LogicalResult verifyName(Operation *op, StringRef name) {
  bool isWord = llvm::all_of(
      name, [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; });
  if (!isWord || name == mainLossName) {
    return emitKeyError(op, "name")
           << "expected lower-case letters, digits and underscores for \"name\", and not \""
           << mainLossName << "\", which is the head's loss, found " << quote(name)
           << "; choose another";
  }
  return success();
}

LogicalResult LossOp::verify() {
  if (getBag()) { // the top_down has its name and first row
    return verifyAxis(*this, getInput());
  }
  return failure(failed(verifyName(*this, getName())) || failed(verifyHead(*this)));
}
Type LossOp::computeResultType() { return {}; }
void LossOp::setDerivedDefaults() {}

int64_t ContrastOp::getShiftOrDefault() {
  return getShift().value_or(getStream(getInput()).getFactor() - 1);
}
StringRef ContrastOp::getLossName() { return getName().value_or(mainLossName); }

LogicalResult ContrastOp::verify() {
  ModelOp model = getModel(*this);
  StreamType input = getStream(getInput()), candidates = getStream(getCandidates());
  if (failed(verifyAxis(*this, getInput())) || failed(verifyAxis(*this, getCandidates())) ||
      (getName() && failed(verifyName(*this, *getName())))) {
    return failure();
  }
  if (input.getAxis() != candidates.getAxis() || input.getName() != candidates.getName() ||
      input.getFactor() != candidates.getFactor()) {
    return emitKeyError(*this, "candidates")
           << "expected candidates on the scale of the stream that chooses among them, "
           << describeStream(getInput()) << ", found " << describeStream(getCandidates())
           << "; name a stream of the same rows";
  }
  if (input.getWidth() != candidates.getWidth()) {
    return emitKeyError(*this, "candidates")
           << "expected candidates of the stream's width of " << input.getWidth() << ", found "
           << candidates.getWidth() << "; project one of them to the width of the other";
  }
  bool hasSegments = input.getAxis() == AxisKind::segments;
  if (hasSegments && (getShift() || input.getFactor() != 1)) {
    return emitKeyError(*this, "shift")
           << "expected no shift, and no groups, of segments, whose last rows are known where they "
              "end, found "
           << (getShift() ? "a shift of " + std::to_string(*getShift())
                          : "groups of " + std::to_string(input.getFactor()))
           << "; leave it out, or contrast the segments";
  }
  if (BoundariesOp cut =
          hasSegments ? model.findBoundaries(input.getName().getValue()) : BoundariesOp();
      cut && (getStream(cut.getInput()).getAxis() != AxisKind::tokens ||
              getStream(cut.getInput()).getFactor() != 1 || cut.beginsSegments())) {
    return emitKeyError(*this, "candidates")
           << "expected segments of the tokens whose bits end them, found segments of "
           << describeStream(cut.getInput()) << (cut.beginsSegments() ? " that bits begin" : "")
           << "; contrast others";
  }
  if (hasSegments && getFirst() != 0) {
    return emitKeyError(*this, "first")
           << "expected no first candidate among segments, which are all candidates, found "
           << getFirst() << "; leave it out";
  }
  if (auto most = static_cast<int64_t>(model.getLength()) / input.getFactor() - 1;
      !hasSegments && most > 0 && static_cast<int64_t>(getFirst()) > most) {
    return emitKeyError(*this, "first")
           << "expected a first candidate of at most " << most
           << ", the last group of the context, found " << getFirst() << "; make it smaller";
  }
  if (!hasSegments && static_cast<int64_t>(model.getLength()) < 2 * input.getFactor()) {
    return emitKeyError(*this, "candidates")
           << "expected a context of at least " << 2 * input.getFactor()
           << ", so that a second group can be chosen, found " << model.getLength()
           << "; make the context larger";
  }
  if (!hasSegments && getShiftOrDefault() >= input.getFactor()) {
    return emitKeyError(*this, "shift")
           << "expected a shift of at most " << input.getFactor() - 1
           << ", as a row may read no token of the next group, which it chooses, found "
           << getShiftOrDefault() << "; leave it out";
  }
  auto parts = static_cast<int64_t>(getExtraBatches()) + 1;
  auto training = model.getBody().getOps<TrainingOp>();
  if (parts > 1 && !training.empty() && (*training.begin()).getBatchTokens()) {
    return emitKeyError(*this, "extra_batches")
           << "expected no extra batches with \"batch_tokens\", whose batches differ in their "
              "numbers of lines, found "
           << parts - 1 << "; leave one of them out";
  }
  if (static_cast<int64_t>(model.getBatch()) % parts != 0) {
    return emitKeyError(*this, "extra_batches")
           << "expected a \"batch\" that \"extra_batches\" + 1 = " << parts
           << " divides, as the batch holds the texts that are scored and " << parts - 1
           << " times as many that give candidates alone, found " << model.getBatch()
           << "; write a multiple of " << parts;
  }
  return success();
}
Type ContrastOp::computeResultType() { return {}; }
void ContrastOp::setDerivedDefaults() {}
