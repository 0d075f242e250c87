// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Implements the model and its objects that are not stages.
#include "StageChecks.h"

#include "VerifyStage.h"
#include "sluice/Dialect/Spec/Keys.h"
#include "sluice/Dialect/Spec/VerifyModel.h"

#include "llvm/ADT/StringSet.h"

#include <cmath>

using namespace mlir;
using namespace sluice;
using namespace sluice::spec;

LogicalResult PrecisionOp::verify() {
  if (getResidual() == StorageType::bf16 && getCompute() == StorageType::f32) {
    return emitKeyError(*this, "residual")
           << "expected \"residual\" to be \"f32\" where \"compute\" is \"f32\", found \"bf16\"; "
              "set "
              "\"compute\": \"bf16\" too, or leave \"residual\" out";
  }
  return success();
}

LogicalResult FallOp::verify() {
  auto schedules = (*this)->getParentOp()->getRegion(0).getOps<ScheduleOp>();
  double last = schedules.empty() ? 1 : (*schedules.begin()).computeLastRate();
  if (getFloor() > last) {
    return emitKeyError(*this, "floor")
           << "expected a number of at most " << describeNumber(last)
           << ", the rate where this phase begins for \"floor\", found "
           << describeNumber(getFloor()) << "; a phase lets the rate fall";
  }
  return success();
}

int64_t ScheduleOp::getWarmupOrDefault() {
  return getWarmup().value_or(std::min<int64_t>(100, getSteps()));
}

double ScheduleOp::computeLastRate() {
  auto peak = static_cast<double>(std::max<int64_t>(1, getWarmupOrDefault()));
  return getWarmupOrDefault() == getSteps() || getKind() == ScheduleShape::constant ? 1
         : getKind() == ScheduleShape::cosine
             ? getFloor()
             : std::max(getFloor(), std::sqrt(peak / static_cast<double>(getSteps())));
}

LogicalResult ScheduleOp::verify() {
  if (getWarmupOrDefault() > getSteps()) {
    return emitKeyError(*this, "warmup")
           << "expected \"warmup\" to be at most \"steps\", found " << getWarmupOrDefault()
           << " of " << getSteps() << " steps; warm up for fewer steps or train for more";
  }
  return success();
}

LogicalResult TrainingOp::verify() {
  constexpr Interval decay{.least = 0, .largest = 1, .withLargest = false};
  for (double beta : getBetas()) {
    if (!decay.contains(beta) || !decay.containsInF32(beta)) {
      return emitKeyError(*this, "betas")
             << "expected " << decay.describe() << (decay.contains(beta) ? " in f32" : "")
             << " for \"betas\", found " << describeNumber(beta);
    }
  }
  return success();
}

double GroupOp::computeRateFactor() {
  TrainingOp training = *(*this)->getParentOp()->getRegion(0).getOps<TrainingOp>().begin();
  return getLearningRate() ? *getLearningRate() / training.getLearningRate() : 1.0;
}

/// Kernels multiply the rate of a step by the factor of a group.
LogicalResult GroupOp::verify() {
  if ((*this)->getParentOp()->getRegion(0).getOps<TrainingOp>().empty()) {
    return emitOpError("expected a spec.training in the model, found none; add one");
  }
  constexpr Interval positive{.least = 0, .withLeast = false};
  double factor = computeRateFactor();
  if (!std::isfinite(factor) || !positive.containsInF32(factor)) {
    return emitKeyError(*this, "learning_rate")
           << "expected a rate whose ratio to the training's \"learning_rate\" fits f32, found a "
              "ratio of "
           << describeNumber(factor) << "; choose a nearer rate";
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Inputs
//===----------------------------------------------------------------------===//

static LogicalResult verifyNumbersInput(InputOp op, int64_t vocabulary) {
  InputUse role = *op.getRole();
  int64_t usual = role == InputUse::target ? vocabulary : 1;
  if (role != InputUse::input && op.getWidth() && *op.getWidth() != usual) {
    return emitKeyError(op, "width")
           << "expected a width of " << usual
           << (role == InputUse::target ? ", the vocabulary, of a target, found "
                                        : " of a weight, found ")
           << *op.getWidth() << "; leave it out";
  }
  return success();
}

/// Rejects keys of a stream on another input's axis where `input` is another input, and the keys
/// that such a stream does not have.
static LogicalResult verifyStreamKeys(InputOp input) {
  StringRef streamKeys[] = {"on", "derived", "rule"}, axisKeys[] = {"context", "end"};
  bool isStream = !input.isNumbers() && input.getOn();
  for (StringRef key : isStream ? ArrayRef<StringRef>(axisKeys) : ArrayRef<StringRef>(streamKeys)) {
    if (!isWritten(input, key)) {
      continue;
    }
    InFlightDiagnostic error = emitKeyError(input, key);
    if (isStream) {
      return error << "expected no " << quote(key) << " of tokens on the axis of the input "
                   << quote(*input.getOn()) << ", which has its own, found one; leave it out";
    }
    return error << "expected no " << quote(key)
                 << (input.isNumbers() ? " of an input of numbers" : " without \"on\"")
                 << ", found one; "
                 << (input.isNumbers() ? "leave it out"
                                       : "add \"on\" with the input whose tokens it follows, or "
                                         "leave it out");
  }
  if (bool(input.getDerived()) == bool(input.getRule())) {
    return success();
  }
  StringRef given = input.getDerived() ? "derived" : "rule",
            other = input.getDerived() ? "rule" : "derived";
  return emitKeyError(input, given)
         << "expected " << quote(other) << " with " << quote(given) << ", found " << quote(given)
         << " alone; "
         << (input.getDerived()
                 ? "add \"rule\": \"pieces\", \"whitespace\" or \"file\""
                 : "add \"derived\": \"word_end\", \"word_split\" or \"shuffled_end\"");
}

static LogicalResult verifyEdgesInput(InputOp op) {
  for (StringRef key :
       {"context", "vocabulary", "axis", "role", "width", "end", "derived", "rule"}) {
    if (isWritten(op, key)) {
      return emitKeyError(op, key) << "expected no " << quote(key)
                                   << " of an input of edges, whose rows are those of the input "
                                      "\"on\", found one; leave it out";
    }
  }
  if (op.getPattern() && isWritten(op, "capacity")) {
    return emitKeyError(op, "capacity")
           << "expected no \"capacity\" with \"pattern\", which determines the edges, found "
              "both; leave one out";
  }
  if (!op.getOn()) {
    return mlir::emitError(getKeyLoc(op, ""))
           << "expected \"on\" of an input of edges, found none; name the input whose rows they "
              "connect";
  }
  return success();
}

LogicalResult InputOp::verify() {
  if (!isPlanName(getSymName())) {
    return mlir::emitError(getKeyLoc(*this, ""))
           << "expected the name of an input: " << planNameRule << ", found " << quote(getSymName())
           << "; choose another, such as \"source\"";
  }
  if (isEdges()) {
    return verifyEdgesInput(*this);
  }
  for (StringRef key : {"capacity", "pattern"}) {
    if (isWritten(*this, key)) {
      return emitKeyError(*this, key) << "expected no " << quote(key) << " of an input of "
                                      << (isNumbers() ? "numbers" : "tokens")
                                      << ", found one; leave it out, or write \"type\": \"edges\"";
    }
  }
  bool isOfTokens = getAxis() == InputAxis::tokens;
  if (isOfTokens != isNumbers()) {
    return emitKeyError(*this, isWritten(*this, "type") ? "type" : "axis")
           << "expected an input of numbers on the axis \"tokens\", or of tokens on its own axis, "
              "found "
           << (isNumbers() ? "numbers on its own axis" : "tokens on the axis \"tokens\"")
           << "; other inputs are not supported yet";
  }
  for (StringRef key : {"context", "vocabulary", "width"}) {
    if (isNumbers() == (key != "width") && isWritten(*this, key)) {
      return emitKeyError(*this, key)
             << "expected no " << quote(key) << " of an input of "
             << (isNumbers() ? "numbers on the axis \"tokens\", a row for each token" : "tokens")
             << ", found one; leave it out";
    }
  }
  if (!isNumbers() && getRole() && *getRole() != InputUse::input) {
    return emitKeyError(*this, "role")
           << "expected the role \"input\" of an input of tokens, found "
           << quote(stringifyInputUse(*getRole()))
           << "; targets and weights are numbers on the axis \"tokens\"";
  }
  if (failed(verifyStreamKeys(*this))) {
    return failure();
  }
  if (isNumbers() ? !getRole() : !getOn() && !getLength()) {
    return mlir::emitError(getKeyLoc(*this, ""))
           << "expected "
           << (isNumbers() ? "\"role\" of an input of numbers"
                           : "\"context\" of an input of tokens")
           << ", found none; add it";
  }
  return isNumbers() ? verifyNumbersInput(*this, getModel(*this).getVocabulary()) : success();
}

//===----------------------------------------------------------------------===//
// Model
//===----------------------------------------------------------------------===//

LogicalResult spec::verifyInputAxes(ModelOp model) {
  for (auto input : model.getBody().getOps<InputOp>()) {
    if (input.isNumbers() || input.ownsAxis()) {
      continue;
    }
    StringRef name = *input.getOn();
    InputOp axis = model.findInput(name);
    bool areOfWords = input.isEdges() && axis && axis.isTokens(); // of segments that its bits cut
    if (!axis || (!axis.ownsAxis() && !areOfWords)) {
      return emitKeyError(input, "on")
             << "expected an input of tokens on an axis of its own, found " << quote(name) << ", "
             << (!axis              ? "which no input is named"
                 : axis == input    ? "the input itself"
                 : axis.isNumbers() ? "an input of numbers"
                 : axis.isEdges()   ? "an input of edges"
                                    : "which is on the axis of another input")
             << "; name another";
    }
    if (input.isEdges()) {
      continue;
    }
    constexpr int64_t bitValues = 2, byteValues = 256;
    if (input.getDerived() && input.getTokenCount() != bitValues) {
      return emitKeyError(input, "vocabulary")
             << "expected a vocabulary of 2 for derived bits, found " << input.getTokenCount()
             << "; leave it out";
    }
    if (input.getRule() == WordRule::whitespace && axis.getTokenCount() > byteValues) {
      return emitKeyError(input, "rule")
             << "expected a vocabulary of at most 256 of the input " << quote(name)
             << " for the rule \"whitespace\", which reads bytes, found " << axis.getTokenCount()
             << "; use the rule \"pieces\"";
    }
  }
  return success();
}

InputOp ModelOp::findInput(StringRef name) {
  for (auto input : getBody().getOps<InputOp>()) {
    if (input.getSymName() == name) {
      return input;
    }
  }
  return {};
}

/// Fails if an object of a model is given twice, or follows a stage.
static LogicalResult verifyObject(Operation &op, bool followsStage,
                                  llvm::SmallDenseSet<OperationName> &settings) {
  if (isa<InputOp, PrecisionOp, TrainingOp, ScheduleOp, FallOp, GroupOp>(op) && followsStage) {
    return op.emitError() << "expected inputs and settings before the stages, found "
                          << op.getName() << " after one; move it up";
  }
  bool isSingle = isa<PrecisionOp, TrainingOp, ScheduleOp>(op);
  if (isSingle && !settings.insert(op.getName()).second) {
    return op.emitError() << "expected one " << op.getName()
                          << " in a model, found another; remove one";
  }
  return verifyAttributes(&op);
}

LogicalResult ModelOp::verify() {
  if (failed(verifyAttributes(*this))) {
    return failure();
  }
  llvm::StringSet<> results;
  llvm::SmallDenseSet<OperationName> settings;
  bool followsStage = false;
  for (Operation &op : getBody().getOps()) {
    if (!isa_and_present<SpecDialect>(op.getDialect()) || isa<ModelOp>(op)) {
      return op.emitError() << "expected an object or a stage of a spec in a spec.model, found "
                            << op.getName();
    }
    auto stage = dyn_cast<StageInterface>(&op);
    if (!stage && failed(verifyObject(op, followsStage, settings))) {
      return failure();
    }
    followsStage |= bool(stage);
    StringAttr name = stage ? stage.getToAttr() : StringAttr();
    if (name && !results.insert(name.getValue()).second) {
      return emitKeyError(&op, "to") << "expected a name that no earlier result has, found "
                                     << quote(name.getValue()) << "; choose another";
    }
  }
  return verifyInputAxes(*this);
}
