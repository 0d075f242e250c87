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
LogicalResult LossOp::verify() {
  if (getBag()) { // the top_down has its name and first row
    return verifyAxis(*this, getInput());
  }
  bool isWord = llvm::all_of(getName(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
  if (!isWord || getName() == mainLossName) {
    return emitKeyError(*this, "name")
           << "expected lower-case letters, digits and underscores for \"name\", and not \""
           << mainLossName << "\", which is the head's loss, found " << quote(getName())
           << "; choose another";
  }
  return verifyHead(*this);
}
Type LossOp::computeResultType() { return {}; }
void LossOp::setDerivedDefaults() {}
