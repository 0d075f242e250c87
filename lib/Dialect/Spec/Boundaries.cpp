// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Verifiers of boundaries stages (Nawrot et al. 2023, sections 3.1 to 3.3) and of the stages that
// use their segments: combinations of keys.
#include "Boundaries.h"
#include "StageChecks.h"

#include "Stages.h"
#include "VerifyStage.h"
#include <cmath>

using namespace mlir;
using namespace sluice;
using namespace sluice::spec;

/// Rejects a key that has a meaning only in the case that `where` describes.
static LogicalResult refuse(BoundariesOp op, StringRef key, StringRef where) {
  if (isWritten(op, key)) {
    return emitKeyError(op, key) << "expected " << quote(key) << " only " << where
                                 << ", found it elsewhere; leave it out";
  }
  return success();
}

static LogicalResult refuse(BoundariesOp op, ArrayRef<StringRef> keys, StringRef where) {
  return failure(llvm::any_of(keys, [&](StringRef key) { return failed(refuse(op, key, where)); }));
}

//===----------------------------------------------------------------------===//
// Rules
//===----------------------------------------------------------------------===//

/// Verifies the three entropy criteria for a bit, which exclude one another.
static LogicalResult verifyEntropyCriterion(BoundariesOp op) {
  if (op.getSpike()) {
    return refuse(op, {"threshold", "rise"},
                  "without \"spike\", which compares entropies with one another");
  }
  if (op.getRise()) {
    return refuse(op, "threshold", "without \"rise\", which is a threshold of its own");
  }
  if (!op.getThreshold()) {
    return emitMissingKey(
        op, "threshold",
        "the entropy, in nats, above which a segment ends; or a \"rise\" or \"spike\"");
  }
  return success();
}

static LogicalResult verifyCodingRate(BoundariesOp op) {
  if (op.getRule() != SegmentRule::coding_rate) {
    if (failed(refuse(op, {"epsilon", "window", "top"}, "beside \"rule\": \"coding_rate\""))) {
      return failure();
    }
    return op.getRule() == SegmentRule::entropy
               ? success()
               : refuse(op, "threshold", "beside \"rule\": \"entropy\" or \"coding_rate\"");
  }
  if (op.getTop()) {
    return refuse(op, "threshold", "without \"top\"");
  }
  return op.getThreshold()
             ? success()
             : LogicalResult(emitMissingKey(op, "threshold",
                                            "the rate, in nats, above which a row has a bit"));
}

static LogicalResult verifyRule(BoundariesOp op) {
  if (op.getRule() == SegmentRule::every && !op.getFactor()) {
    return emitMissingKey(op, "factor");
  }
  if (op.getRule() != SegmentRule::every &&
      failed(refuse(op, "factor", "beside \"rule\": \"every\""))) {
    return failure();
  }
  if (op.getRule() == SegmentRule::entropy) {
    if (!op.getLoss()) {
      return emitMissingKey(op, "loss");
    }
    if (failed(verifyEntropyCriterion(op))) {
      return failure();
    }
  } else if (failed(refuse(op, {"loss", "rise", "spike"}, "beside \"rule\": \"entropy\""))) {
    return failure();
  }
  return verifyCodingRate(op);
}

//===----------------------------------------------------------------------===//
// Routers and predictors
//===----------------------------------------------------------------------===//

/// Verifies a router, which has its own bits, which begin segments, and its own loss.
static LogicalResult verifyRouter(BoundariesOp op) {
  if (failed(refuse(op, {"rule", "predictor", "temperature", "prior", "prior_logit"},
                    "without \"ratio\", which makes a router"))) {
    return failure();
  }
  if (op.getAt() == SegmentEdge::start) {
    return success();
  }
  if (!isWritten(op, "at")) {
    return emitMissingKey(op, "at", "\"start\", as bits of a router begin segments");
  }
  return emitKeyError(op, "at") << "expected \"start\" for \"at\" with \"ratio\", as bits of a "
                                   "router begin segments, found \"end\"; write \"start\"";
}

/// Verifies a predictor; without a rule it learns from the language model's loss, through Gumbel
/// noise.
static LogicalResult verifyPredictor(BoundariesOp op) {
  if (!op.getPredictor() && !op.getRule()) {
    return emitMissingKey(op, "rule");
  }
  if (!op.getPredictor() && failed(refuse(op, "weight", "beside \"predictor\" or \"ratio\""))) {
    return failure();
  }
  if (op.getPredictor() && !op.getRule()) {
    return op.getPrior() ? success()
                         : LogicalResult(emitMissingKey(
                               op, "prior", "the share of tokens that should end a segment"));
  }
  return refuse(op, {"temperature", "prior", "prior_logit"},
                "with a \"predictor\" without \"rule\"");
}

/// Verifies the mode: paper and public code differ in fixed bits, in the loss against labels, and
/// in the noise of evaluation.
static LogicalResult verifyMode(BoundariesOp op) {
  bool isFixed = op.getRule() == SegmentRule::every && op.getAt() == SegmentEdge::end;
  if (op.getMode() == Fidelity::reference_code && !op.getPredictor() && !isFixed) {
    return emitKeyError(op, "mode")
           << "expected \"reference-code\" for \"mode\" only where it differs from the paper: of a "
              "\"predictor\", or of \"rule\": \"every\" where bits end segments, found it "
              "elsewhere; leave "
              "it out";
  }
  return success();
}

static LogicalResult verifyCapacity(BoundariesOp op) {
  bool isRegular = op.getRule() == SegmentRule::every && !op.getPredictor();
  int64_t context = getModel(op).getLength();
  double most = isRegular ? 1.0 / static_cast<double>(*op.getFactor()) : 1.0;
  double rows = op.getCapacity().value_or(most) * static_cast<double>(context);
  if (op.getCapacity() && static_cast<float>(rows) < 1) {
    return emitKeyError(op, "capacity") << "expected a share of at least 1 / " << context
                                        << ", room for one segment, for \"capacity\", found "
                                        << describeNumber(*op.getCapacity()) << "; make it greater";
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Boundaries
//===----------------------------------------------------------------------===//

/// Fails for a document's end on groups, or if it differs from the end of the segments below.
static LogicalResult verifyDocumentEnd(BoundariesOp op) {
  if (!op.getDocumentEnd()) {
    return success();
  }
  StreamType input = getStream(op.getInput());
  if (input.getFactor() != 1) {
    return emitKeyError(op, "document_end")
           << "expected \"document_end\" on tokens or segments, as a group has no token of its "
              "own, "
              "found it on "
           << describeStream(op.getInput()) << "; leave it out, or upsample it first";
  }
  BoundariesOp outer = getCutBelow(input, op);
  if (outer && outer.getDocumentEnd() != op.getDocumentEnd()) {
    InFlightDiagnostic error = emitKeyError(op, "document_end");
    error << "expected segments that end at the same documents below these, found "
          << quote(outer.getName());
    if (outer.getDocumentEnd()) {
      error << " with \"document_end\": " << *outer.getDocumentEnd();
    } else {
      error << " without \"document_end\"";
    }
    return error << "; give them \"document_end\": " << *op.getDocumentEnd();
  }
  if (outer && outer.getAt() == SegmentEdge::start && op.getAt() == SegmentEdge::end) {
    return emitKeyError(op, "document_end")
           << "expected \"at\": \"start\" with \"document_end\" where bits of "
           << quote(outer.getName())
           << " begin segments, as these are there before their documents end, found \"end\"; "
              "write \"start\"";
  }
  return success();
}

/// Verifies a bound on the rows of segments: bits that a rule sets in rows of tokens end them.
static LogicalResult verifyLongest(BoundariesOp op) {
  if (!op.getLongest()) {
    return success();
  }
  StringRef where = op.getRule() == SegmentRule::every ? "beside another rule than \"every\""
                    : op.getPredictor() || op.getRatio()
                        ? "without \"predictor\" and \"ratio\", which set bits of their own"
                    : op.beginsSegments() ? "beside \"at\": \"end\""
                    : getStream(op.getInput()).getAxis() != AxisKind::tokens
                        ? "on the tokens that are predicted"
                        : "";
  return where.empty() ? success() : refuse(op, "longest", where);
}

/// Returns the tokens per row on the scale below all segments.
static int64_t getTokensBelow(BoundariesOp op) {
  StreamType type = getStream(op.getInput());
  while (BoundariesOp cut = getCutBelow(type, op)) {
    type = getStream(cut.getInput());
  }
  return type.getFactor();
}

static LogicalResult verifyCutRows(BoundariesOp op) {
  StreamType input = getStream(op.getInput());
  bool isOfSegments = input.getAxis() == AxisKind::segments;
  if (isOfSegments && input.getFactor() != 1) {
    return emitError(getKeyLoc(op, ""))
           << "expected a stream of the tokens or of whole segments for boundaries, found "
           << describeStream(op.getInput()) << "; upsample it first";
  }
  if (op.getRule() && *op.getRule() != SegmentRule::every &&
      *op.getRule() != SegmentRule::coding_rate && getTokensBelow(op) != 1) {
    return emitKeyError(op, "rule")
           << "expected the rule \"every\" or \"coding_rate\" on groups of tokens, and on segments "
              "of "
              "these, as a group has no byte of its own, found another on "
           << describeStream(op.getInput()) << "; write \"every\", or upsample it first";
  }
  if (op.getRule() == SegmentRule::space_like && isOfSegments) {
    return emitKeyError(op, "rule")
           << "expected the rule \"space_like\" on tokens, as it reads the byte before, found it "
              "on "
           << describeStream(op.getInput()) << "; take another rule, or upsample it first";
  }
  return success();
}

/// Returns the input whose rows a stage cuts; null where it cuts other rows.
static InputOp findCutInput(BoundariesOp op) {
  StreamType input = getStream(op.getInput());
  return input.getAxis() == AxisKind::input ? getModel(op).findInput(input.getName().getValue())
                                            : InputOp();
}

/// Verifies the rule `bits`: an input that has tokens on the axis that is cut.
static LogicalResult verifyBits(BoundariesOp op) {
  if (op.getRule() != SegmentRule::bits) {
    return refuse(op, "bits", "beside \"rule\": \"bits\"");
  }
  if (!op.getBits()) {
    return emitMissingKey(op, "bits", "the input whose tokens are the bits");
  }
  InputOp given = findCutInput(op), bits = getModel(op).findInput(*op.getBits());
  if (!given || !bits || !bits.isTokens() || bits.getAxisName() != given.getSymName()) {
    return emitKeyError(op, "bits")
           << "expected the name of an input that has tokens on the axis of "
           << describeStream(op.getInput()) << ", found " << quote(*op.getBits())
           << "; name another, or cut a stream of its axis";
  }
  return success();
}

/// Verifies boundaries of the rows of an input: bits by a rule that reads its tokens or positions
/// end segments, and the last row of each line ends one.
static LogicalResult verifyGivenCut(BoundariesOp op) {
  if (getStream(op.getInput()).getAxis() != AxisKind::input) {
    return success();
  }
  if (!findCutInput(op) || getStream(op.getInput()).getFactor() != 1) {
    return emitError(getKeyLoc(op, ""))
           << "expected a stream of an input's own rows for boundaries, found "
           << describeStream(op.getInput()) << "; upsample it first";
  }
  if (failed(refuse(op, {"predictor", "ratio", "document_end", "capacity"},
                    "on the tokens that are predicted"))) {
    return failure();
  }
  SegmentRule rule = *op.getRule();
  if (rule != SegmentRule::whitespace && rule != SegmentRule::every && rule != SegmentRule::bits) {
    return emitKeyError(op, "rule")
           << "expected the rule \"whitespace\", \"every\" or \"bits\" on the axis of an input, "
              "found "
           << quote(stringifySegmentRule(rule)) << " on " << describeStream(op.getInput())
           << "; write one of these";
  }
  if (op.beginsSegments()) {
    return emitKeyError(op, "at")
           << "expected \"end\" for \"at\" on the axis of an input, whose lines end a segment, "
              "found \"start\"; leave it out";
  }
  return success();
}

/// Fails where a rule reads bytes and the vocabulary has other tokens.
static LogicalResult verifyReadsBytes(BoundariesOp op) {
  bool readsBytes =
      op.getRule() == SegmentRule::whitespace || op.getRule() == SegmentRule::space_like;
  InputOp given = findCutInput(op);
  int64_t vocabulary = given ? given.getTokenCount() : int64_t(getModel(op).getVocabulary());
  if (readsBytes && vocabulary > 256) {
    return emitKeyError(op, "rule")
           << "expected a vocabulary of at most 256, whose tokens are bytes, for the rule "
           << quote(stringifySegmentRule(*op.getRule())) << ", which reads bytes, found "
           << vocabulary << "; take the rule "
           << (given ? "\"bits\" or \"every\"" : "\"every\", \"entropy\" or \"labels\"")
           << ", or a vocabulary of bytes";
  }
  return success();
}

static LogicalResult verifyName(BoundariesOp op) {
  if (!isPlanName(op.getName())) {
    return emitKeyError(op, "name") << "expected a word of lower-case letters, digits and _ for "
                                       "\"name\" that nothing else in a plan has, found "
                                    << quote(op.getName()) << "; choose another, such as \"words\"";
  }
  return success();
}

/// Fails if a default that depends on the kind of boundaries was not set.
static LogicalResult verifyDefaults(BoundariesOp op) {
  bool draws = op.getPredictor() && !op.getRule();
  bool rates = op.getRule() == SegmentRule::coding_rate,
       weighs = op.getPredictor() || op.getRatio();
  return failure((rates && failed(verifyDerived(op, {"epsilon", "window"}))) ||
                 (draws && failed(verifyDerived(op, {"temperature", "prior_logit"}))) ||
                 (weighs && failed(verifyDerived(op, {"weight"}))));
}

LogicalResult BoundariesOp::verify() {
  bool isFixed = getRule() == SegmentRule::every && !getPredictor();
  if (failed(verifyName(*this)) || failed(verifyRule(*this)) || failed(verifyReadsBytes(*this)) ||
      failed(getRatio() ? verifyRouter(*this) : verifyPredictor(*this)) ||
      failed(verifyMode(*this)) || failed(verifyDefaults(*this))) {
    return failure();
  }
  if (isFixed && failed(refuse(*this, "document_end",
                               "with another rule than \"every\", a predictor or a \"ratio\""))) {
    return failure();
  }
  return failure(failed(verifyLongest(*this)) || failed(verifyCapacity(*this)) ||
                 failed(verifyDocumentToken(*this, getDocumentEnd())) ||
                 failed(verifyAxis(*this, getInput())) || failed(verifyCutRows(*this)) ||
                 failed(verifyDocumentEnd(*this)) || failed(verifyGivenCut(*this)) ||
                 failed(verifyBits(*this)));
}

Type BoundariesOp::computeResultType() {
  return SegmentationType::get(getContext(), getNameAttr(), getStream(getInput()));
}

void BoundariesOp::setDerivedDefaults() {
  Builder b(getContext());
  if (getRule() == SegmentRule::coding_rate) {
    setEpsilon(getEpsilon().value_or(1));
    setWindow(getWindow().value_or(4));
  }
  if (getPredictor() && !getRule()) {
    setTemperature(getTemperature().value_or(0.5));
    setPriorLogit(getPriorLogit().value_or(false));
  }
  if ((getPredictor() || getRatio()) && !getWeight()) {
    setWeight(getRatio() ? 0.03 : 1);
  }
}

int64_t BoundariesOp::getMostSegments() {
  bool isRegular = getRule() == SegmentRule::every && !getPredictor();
  double most = isRegular ? 1.0 / static_cast<double>(*getFactor()) : 1.0;
  StreamType input = getStream(getInput());
  InputOp given = findCutInput(*this);
  int64_t context = given ? int64_t(*given.getLength()) : int64_t(getModel(*this).getLength());
  double rows = getCapacity().value_or(most) * static_cast<double>(context);
  int64_t own = std::max<int64_t>(1, static_cast<int64_t>(std::ceil(rows)));
  BoundariesOp outer = getCutBelow(input, *this);
  int64_t bits =
      outer ? outer.getMostSegments() : (context + input.getFactor() - 1) / input.getFactor();
  return std::min(own, bits);
}

int64_t BoundariesOp::getLongestSegment() {
  bool isRegular = getRule() == SegmentRule::every && !getPredictor();
  return isRegular ? *getFactor() : getLongest().value_or(0);
}

int64_t BoundariesOp::getSpareRows() {
  int64_t spare = 0;
  for (Operation *user : getResult().getUsers()) {
    if (auto upsample = dyn_cast<UpsampleOp>(user)) {
      bool isOwn = upsample.getMethod() == UpsampleMethod::own;
      spare = std::max(spare, isOwn ? 0 : 1 - upsample.getBy().value_or(1));
    } else if (auto attend = dyn_cast<AttendOp>(user)) {
      spare = std::max(spare, attend.readsRows() ? 0 : 1 - attend.getBy().value_or(1));
    }
  }
  return spare;
}

double BoundariesOp::computeLogitShift() {
  TargetAttr prior = getPrior().value_or(TargetAttr());
  double first = !prior                 ? 0
                 : prior.getSteps() > 0 ? prior.getFrom().getValueAsDouble()
                                        : prior.getTo().getValueAsDouble();
  return getPriorLogit().value_or(false) ? std::log(first / (1 - first)) : 0;
}

//===----------------------------------------------------------------------===//
// Stages of segments
//===----------------------------------------------------------------------===//

StreamType spec::getSegmentStream(SegmentationType segmentation, int64_t width) {
  bool isGiven = segmentation.getStream().getAxis() == AxisKind::input;
  return StreamType::get(segmentation.getContext(), isGiven ? AxisKind::input : AxisKind::segments,
                         segmentation.getName(), 1, width);
}

LogicalResult spec::verifyCutScale(Operation *stage, Value input, SegmentationType segmentation) {
  StreamType own = getStream(input), cut = segmentation.getStream();
  if (own.getAxis() == cut.getAxis() && own.getName() == cut.getName() &&
      own.getFactor() == cut.getFactor()) {
    return success();
  }
  return emitKeyError(stage, "segments")
         << "expected a stream on the scale that "
         << describePlace(stage->getOperand(1).getDefiningOp()->getLoc()) << " cuts, found "
         << describeStream(input)
         << "; name segments of this scale, or move the stream to that one";
}

/// Verifies the method: selected rows and maxima have no derivative by bits, and a selected row is
/// at one end of its segment.
static LogicalResult verifyPoolingMethod(ShortenOp op, BoundariesOp cut) {
  bool begins = cut.getAt() == SegmentEdge::start;
  StringRef word = stringifyShortenMethod(op.getMethod());
  bool isFirst = op.getMethod() == ShortenMethod::first,
       isSelection = isFirst || op.getMethod() == ShortenMethod::last;
  if (isSelection && isFirst != begins) {
    std::string fits = quote(begins ? "first" : "last");
    return emitKeyError(op, "method")
           << "expected \"average\", \"sum\", \"max\" or " << fits << " for \"method\", as bits of "
           << quote(cut.getName()) << (begins ? " begin" : " end") << " segments, found "
           << quote(word) << "; write " << fits;
  }
  if (begins && op.getMethod() == ShortenMethod::stack) {
    return emitKeyError(op, "method")
           << "expected bits that end segments for \"method\": \"stack\", found those of "
           << quote(cut.getName()) << ", which begin them; write \"at\": \"end\"";
  }
  if (!isSelection && cut.getRatio()) {
    return emitKeyError(op, "method")
           << "expected \"first\" for \"method\" where a router makes the segments, found "
           << quote(word) << "; write \"first\"";
  }
  if (op.getMethod() != ShortenMethod::average && cut.getPredictor() && !cut.getRule()) {
    return emitKeyError(op, "method")
           << "expected \"average\" for \"method\" where a predictor without \"rule\" makes the "
              "segments, "
              "as a "
           << (isSelection                            ? "selected row"
               : op.getMethod() == ShortenMethod::max ? "maximum"
                                                      : "sum")
           << " has no derivative by its bits, found " << quote(word)
           << "; leave it out, or give the boundaries a \"rule\"";
  }
  return success();
}

LogicalResult spec::verifySelection(Operation *stage, BoundariesOp cut) {
  if (!cut) { // inside a composite stage: verified after its expansion
    return success();
  }
  if (auto pool = dyn_cast<ShortenOp>(stage)) {
    return verifyPoolingMethod(pool, cut);
  }
  auto spread = cast<UpsampleOp>(stage);
  bool isGiven = getStream(cut.getInput()).getAxis() == AxisKind::input;
  if (isGiven && spread.getMethod() != UpsampleMethod::own) {
    return emitKeyError(stage, "method")
           << "expected \"own\" for \"method\" on the axis of an input, where each row has a "
              "segment, found "
           << quote(stringifyUpsampleMethod(spread.getMethod())) << "; write \"own\"";
  }
  if (spread.getMethod() == UpsampleMethod::smooth && !cut.getRatio()) {
    return emitKeyError(stage, "method")
           << "expected \"repeat\" or \"scatter\" for \"method\" of segments that no router makes, "
              "found \"smooth\"; give "
           << quote(cut.getName()) << " a \"ratio\", or write \"repeat\"";
  }
  return success();
}
