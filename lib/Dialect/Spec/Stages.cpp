// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Implements primitive stages that map, move, group and score rows: types of results, and keys that
// exclude one another.
#include "Stages.h"
#include "Boundaries.h"
#include "Columns.h"
#include "StageChecks.h"

#include "VerifyStage.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::spec;

//===----------------------------------------------------------------------===//
// Embedding
//===----------------------------------------------------------------------===//

static InputOp findInput(Operation *stage, StringRef name) {
  return getModel(stage).findInput(name);
}

static LogicalResult verifyNgrams(EmbeddingOp op) {
  constexpr StringLiteral type = "a list of rising integers from 2 to 16";
  std::pair<StringRef, bool> others[] = {{"ngram_rows", bool(op.getNgramRowsAttr())},
                                         {"document_end", bool(op.getDocumentEndAttr())}};
  for (auto [key, isGiven] : others) {
    if (!op.getNgrams() && isGiven) {
      return emitKeyError(op, key)
             << "expected " << quote(key)
             << " only with \"ngrams\", found it alone; give \"ngrams\", or leave it out";
    }
  }
  ArrayRef<int64_t> sizes = op.getNgrams().value_or(ArrayRef<int64_t>());
  if (op.getNgrams() && failed(verifyDerived(op, {"ngram_rows"}))) {
    return failure();
  }
  for (int64_t size : sizes) {
    if (size < 2 || size > 16) {
      return emitKeyError(op, "ngrams") << "expected " << type << " for \"ngrams\", found " << size;
    }
  }
  for (size_t i = 1; i < sizes.size(); ++i) {
    if (sizes[i] <= sizes[i - 1]) {
      return emitKeyError(op, ("ngrams." + Twine(i)).str())
             << "expected " << type << " for \"ngrams\", found " << sizes[i] << " behind "
             << sizes[i - 1];
    }
  }
  if (op.getNgrams() && op.getInput()) {
    return emitKeyError(op, "ngrams") << "expected no \"ngrams\" in the embedding of an input, on "
                                         "whose axis nothing is delayed, "
                                         "found both; leave them out";
  }
  return success();
}

static LogicalResult verifyEmbedsNumbers(EmbeddingOp op, InputOp numbers) {
  if (numbers.getRole() != InputUse::input) {
    return emitKeyError(op, "input")
           << "expected an input of the role \"input\", found " << quote(numbers.getSymName())
           << " of the role " << quote(stringifyInputUse(*numbers.getRole()))
           << ", which losses alone read; name another";
  }
  if (op.getDeviation()) {
    return emitKeyError(op, "deviation") << "expected no \"deviation\" of an embedding of numbers, "
                                            "which has no table but a linear "
                                            "map, found one; leave it out";
  }
  if (op.getPositions() != PositionTable::none || op.getNgrams()) {
    return emitKeyError(op, op.getNgrams() ? "ngrams" : "positions")
           << "expected neither \"positions\" nor \"ngrams\" of an embedding of numbers, found "
              "one; add the result to a stream of "
              "the tokens that has them";
  }
  return success();
}

LogicalResult spec::verifyDocumentToken(Operation *op, std::optional<int64_t> token) {
  int64_t vocabulary = getModel(op).getVocabulary();
  if (token && *token >= vocabulary) {
    return emitKeyError(op, "document_end")
           << "expected a token below the vocabulary of " << vocabulary
           << " for \"document_end\", found " << *token << "; name another";
  }
  return success();
}

LogicalResult EmbeddingOp::verify() {
  if (failed(verifyNgrams(*this))) {
    return failure();
  }
  InputOp input = getInput() ? findInput(*this, *getInput()) : InputOp();
  if (input && input.isNumbers() && failed(verifyEmbedsNumbers(*this, input))) {
    return failure();
  }
  return verifyDocumentToken(*this, getDocumentEnd());
}

Type EmbeddingOp::computeResultType() {
  int64_t width = getModel(*this).getWidth();
  InputOp input = getInput() ? findInput(*this, *getInput()) : InputOp();
  if (getInput() && (!input || input.isEdges())) {
    emitKeyError(*this, "input") << "expected the name of an input, found " << quote(*getInput());
    return {};
  }
  bool isOfInput = input && !input.isNumbers();
  return StreamType::get(
      getContext(), isOfInput ? AxisKind::input : AxisKind::tokens,
      isOfInput ? StringAttr::get(getContext(), input.getAxisName()) : StringAttr(), 1, width);
}
void EmbeddingOp::setDerivedDefaults() {
  if (getNgrams() && !getNgramRows()) {
    setNgramRows(65536);
  }
}

//===----------------------------------------------------------------------===//
// Norm, shift, dropout
//===----------------------------------------------------------------------===//

LogicalResult NormOp::verify() { return verifyAxis(*this, getInput()); }
Type NormOp::computeResultType() { return getInput().getType(); }
void NormOp::setDerivedDefaults() {}

LogicalResult ShiftOp::verify() {
  return failure(failed(verifyStart(*this, getStart(), getBy())) ||
                 failed(verifyAxis(*this, getInput())));
}
Type ShiftOp::computeResultType() { return getInput().getType(); }
void ShiftOp::setDerivedDefaults() {}

LogicalResult DropoutOp::verify() { return verifyAxis(*this, getInput()); }
Type DropoutOp::computeResultType() { return getInput().getType(); }
void DropoutOp::setDerivedDefaults() {}

//===----------------------------------------------------------------------===//
// Shorten and upsample
//===----------------------------------------------------------------------===//

/// Fails if keys of groups are combined with "segments"; `hasWidth` allows a width.
static LogicalResult verifySegmentsAlone(Operation *op, bool hasWidth = false) {
  for (StringRef key : {"factor", "window", "width"}) {
    if (getKeyValue(op, key) && !(hasWidth && key == "width")) {
      return emitKeyError(op, key)
             << "expected no " << quote(key)
             << " where \"segments\" groups the rows, found both; leave one out";
    }
  }
  return success();
}

/// Verifies a method that gives each row of a group an equal part of `width` columns: `isParts` if
/// the stage uses it.
static LogicalResult verifyParts(Operation *op, bool isParts, StringRef method, int64_t factor,
                                 int64_t width) {
  if (!isParts) {
    if (getKeyValue(op, "width")) {
      return emitKeyError(op, "width")
             << "expected \"width\" only with \"method\": " << quote(method)
             << ", whose result is a linear map's, found it with another method; use a project "
                "stage";
    }
    return success();
  }
  if (width % factor != 0) {
    return emitKeyError(op, "factor")
           << "expected a factor that divides the width of " << width
           << " for \"method\": " << quote(method)
           << ", which gives each row an equal part of the columns, found " << factor
           << "; take another factor, or \"linear\"";
  }
  if (getKeyValue(op, "window")) {
    return emitKeyError(op, "window")
           << "expected no \"window\" for \"method\": " << quote(method)
           << ", whose rows are those of the group, found one; leave it out, or write "
           << quote(method == "split" ? "transposed" : "convolution");
  }
  return success();
}

/// Verifies that rows before the first are the norm of zeros only of a shifted norm, and that they
/// are in the first group.
static LogicalResult verifyNormStart(ShortenOp op) {
  if (op.getStart() != StartRows::norm) {
    return success();
  }
  if (getStream(op.getInput()).getAxis() == AxisKind::input) {
    return emitKeyError(op, "start")
           << "expected \"start\": \"norm\" only on the tokens that are predicted, found it on "
           << describeStream(op.getInput()) << "; leave it out";
  }
  auto shift = op.getInput().getDefiningOp<ShiftOp>();
  bool isPooled =
      !op.getSegments() && !op.getWindow() &&
      llvm::is_contained({ShortenMethod::average, ShortenMethod::linear}, op.getMethod());
  bool isNorm =
      shift && shift.getStart() == StartRows::zeros && shift.getInput().getDefiningOp<NormOp>();
  if (!isPooled || !isNorm) {
    return emitKeyError(op, "start")
           << "expected \"start\": \"norm\" only of groups by average or linear, without a "
              "window, of a shift of a norm stage, found "
           << (isPooled ? "another input" : "another way to pool") << "; leave it out";
  }
  if (static_cast<int64_t>(shift.getBy()) > *op.getFactor()) {
    return emitKeyError(op, "start")
           << "expected \"start\": \"norm\" only where the first group has all rows before the "
              "first, found a shift of "
           << shift.getBy() << " and groups of " << *op.getFactor() << "; shift by at most "
           << *op.getFactor();
  }
  return success();
}

LogicalResult ShortenOp::verify() {
  if (failed(verifyNormStart(*this))) {
    return failure();
  }
  if (getSegments()) {
    return failure(failed(verifySegmentsAlone(*this, getMethod() == ShortenMethod::stack)) ||
                   failed(verifyAxis(*this, getInput())) ||
                   failed(verifySelection(*this, getCut(getSegments()))));
  }
  int64_t width = getWidth().value_or(getStream(getInput()).getWidth());
  return failure(failed(verifyParts(*this, getMethod() == ShortenMethod::concatenate, "concatenate",
                                    *getFactor(), width)) ||
                 failed(verifyNoWindow(*this, getMethod() == ShortenMethod::linear, "method",
                                       "window", "convolution")) ||
                 failed(verifyAxis(*this, getInput())));
}

Type ShortenOp::computeResultType() {
  StreamType input = getStream(getInput());
  if (getSegments()) {
    auto segmentation = cast<SegmentationType>(getSegments().getType());
    if (failed(verifyCutScale(*this, getInput(), segmentation))) {
      return {};
    }
    FailureOr<int64_t> width = input.getWidth();
    if (getMethod() == ShortenMethod::stack) {
      width = computeStackedWidth(*this);
    }
    return failed(width) ? Type() : Type(getSegmentStream(segmentation, *width));
  }
  if (!getFactor()) {
    emitMissingKey(*this, "factor");
    return {};
  }
  if (input.getFactor() * *getFactor() > mostSize) {
    emitKeyError(*this, "factor") << "expected scales of at most " << mostSize
                                  << " tokens a position, found " << input.getFactor() << " * "
                                  << *getFactor() << "; shorten by less";
    return {};
  }
  StreamType result = withFactor(input, input.getFactor() * *getFactor());
  if (getMethod() == ShortenMethod::stack) {
    return withWidth(result, *computeStackedWidth(*this));
  }
  return getWidth() ? withWidth(result, *getWidth()) : result;
}
void ShortenOp::setDerivedDefaults() {}

static LogicalResult verifyUpsampleWindow(UpsampleOp op) {
  int64_t factor = *op.getFactor();
  if (failed(verifyNoWindow(op, op.getMethod() == UpsampleMethod::linear, "method", "window",
                            "transposed"))) {
    return failure();
  }
  if (op.getWindow() && *op.getWindow() % factor != 0) {
    return emitKeyError(op, "window")
           << "expected a multiple of the factor " << factor << " for \"window\", found "
           << *op.getWindow()
           << "; a window of whole groups reaches as far as one that ends inside the last";
  }
  if (op.getWindow() && op.getMethod() == UpsampleMethod::repeat && *op.getWindow() != factor) {
    return emitKeyError(op, "window") << "expected no \"window\" apart from the factor " << factor
                                      << " for an upsample that repeats, found " << *op.getWindow()
                                      << "; write \"method\": \"transposed\", or leave it out";
  }
  return success();
}

LogicalResult UpsampleOp::verify() {
  if (getSegments()) {
    if (getMethod() == UpsampleMethod::own && isWritten(*this, "by")) {
      return emitKeyError(*this, "by") << "expected no \"by\" with \"method\": \"own\", whose "
                                          "rows are of their own segments, found one; leave it out";
    }
    return failure(failed(verifyDerived(*this, {"by"})) || failed(verifySegmentsAlone(*this)) ||
                   failed(verifyAxis(*this, getInput())) ||
                   failed(verifySelection(*this, getCut(getSegments()))));
  }
  if (isWritten(*this, "by")) {
    return emitKeyError(*this, "by")
           << "expected \"by\" only with \"segments\", found it alone; use a shift stage";
  }
  return failure(failed(verifyParts(*this, getMethod() == UpsampleMethod::split, "split",
                                    *getFactor(), getStream(getInput()).getWidth())) ||
                 failed(verifyUpsampleWindow(*this)) || failed(verifyAxis(*this, getInput())));
}

Type UpsampleOp::computeResultType() {
  StreamType input = getStream(getInput());
  if (getSegments()) {
    auto segmentation = cast<SegmentationType>(getSegments().getType());
    StreamType outer = segmentation.getStream();
    if (withWidth(input, 1) != getSegmentStream(segmentation, 1)) {
      bool isOfThese = input.getName() == segmentation.getName();
      emitKeyError(*this, "segments")
          << "expected a stream of the segments that \"segments\" names, found "
          << describeStream(getInput())
          << (isOfThese ? "; upsample it to whole segments first"
              : input.getAxis() != AxisKind::segments
                  ? "; shorten it by them first"
                  : "; write \"segments\": " + quote(input.getName().getValue()));
      return {};
    }
    return withWidth(outer, input.getWidth());
  }
  if (!getFactor()) {
    emitMissingKey(*this, "factor");
    return {};
  }
  if (input.getFactor() % *getFactor() != 0) {
    emitKeyError(*this, "factor")
        << "expected to upsample by a divisor of the scale's factor, found factor " << *getFactor()
        << " for " << describeStream(getInput()) << "; undo only what a shorten stage did";
    return {};
  }
  StreamType result = withFactor(input, input.getFactor() / *getFactor());
  return getWidth() ? withWidth(result, *getWidth()) : result;
}
void UpsampleOp::setDerivedDefaults() {
  if (getSegments() && !getBy()) {
    setBy(getMethod() == UpsampleMethod::own ? 0 : 1);
  }
}

//===----------------------------------------------------------------------===//
// Two streams
//===----------------------------------------------------------------------===//

LogicalResult AddOp::verify() {
  return failure(failed(verifyAxis(*this, getInput())) ||
                 failed(verifyPair(*this, getInput(), getWith(), true)));
}
Type AddOp::computeResultType() { return getInput().getType(); }
void AddOp::setDerivedDefaults() {}

LogicalResult ReplaceOp::verify() {
  if (getStart() >= getBlock()) {
    return emitKeyError(*this, "start")
           << "expected a row below " << getBlock()
           << " for \"start\", as blocks of so many rows follow one another, found " << getStart()
           << "; " << getStart() % getBlock() << " is equivalent";
  }
  return failure(failed(verifyAxis(*this, getInput())) ||
                 failed(verifyPair(*this, getInput(), getWith(), true)));
}
Type ReplaceOp::computeResultType() { return getInput().getType(); }
void ReplaceOp::setDerivedDefaults() {}

/// Fails if a matrix that is initialized as the identity is not square: the matrix of `read`.
static LogicalResult verifyIdentity(ProjectOp op, Value read, int64_t rows) {
  int64_t columns = getStream(read).getWidth();
  if (op.getInitial() == InitialValues::identity && columns != rows) {
    return emitKeyError(op, "initial")
           << "expected a matrix of as many rows as columns for \"initial\": \"identity\", found "
           << rows << " rows, and " << columns << " columns of " << describeStream(read)
           << "; write \"normal\", or make the widths equal";
  }
  return success();
}

LogicalResult ProjectOp::verify() {
  bool isRelu = stringifyActivationFunction(getActivation()).starts_with("relu");
  if (getInitial() == InitialValues::zeros && isRelu) {
    return emitKeyError(*this, "initial")
           << "expected no \"initial\": \"zeros\" with \"activation\": "
           << quote(stringifyActivationFunction(getActivation()))
           << ", whose derivative at 0 is 0, so that nothing would train, found both; write "
              "\"gelu\", or \"normal\"";
  }
  int64_t rows = getStream(getResult()).getWidth();
  if (failed(verifyAxis(*this, getInput())) || failed(verifyIdentity(*this, getInput(), rows))) {
    return failure();
  }
  return failure(getWith() && (failed(verifyPair(*this, getInput(), getWith(), false)) ||
                               failed(verifyIdentity(*this, getWith(), rows))));
}
Type ProjectOp::computeResultType() {
  StreamType input = getStream(getInput());
  return getWidth() ? withWidth(input, *getWidth()) : input;
}
void ProjectOp::setDerivedDefaults() {}

/// Verifies that keys that refine another key have it, unless they have their defaults.
static LogicalResult verifyResets(RecurrenceOp op) {
  bool needsSegments = op.getReset() != ResetRow::first, needsEvery = op.getAt().value_or(0) > 0;
  for (auto [key, of, isMissing] :
       {std::tuple("reset", "segments", needsSegments && !op.getSegments()),
        std::tuple("at", "every", needsEvery && !op.getEvery())}) {
    if (isMissing) {
      return emitKeyError(op, key) << "expected " << quote(of) << " with " << quote(key)
                                   << ", found none; add it, or leave " << quote(key) << " out";
    }
  }
  if (int64_t at = op.getAt().value_or(0), every = op.getEvery().value_or(at + 1); at >= every) {
    return emitKeyError(op, "at") << "expected a row below " << every
                                  << " for \"at\", as each so many rows begin anew, found " << at
                                  << "; " << at % every << " is equivalent";
  }
  if (op.getStart() == StartRows::null && op.getDirection() == RowDirection::backward) {
    return emitKeyError(op, "start")
           << "expected \"zeros\" for \"start\" with \"direction\": \"backward\", found \"null\"; "
              "write \"zeros\"";
  }
  if (op.getSegments() && op.resetsAtEnds() && getCut(op.getSegments()).beginsSegments()) {
    bool isForward = op.getDirection() == RowDirection::forward;
    return emitKeyError(op, isForward ? "reset" : "direction")
           << "expected bits that end segments for a recurrence that begins anew at their last "
              "rows, found bits that begin them, so that no row tells whether it is a segment's "
              "last; write \"reset\": "
           << (isForward ? "\"first\"" : "\"last\"");
  }
  return success();
}

LogicalResult RecurrenceOp::verify() {
  if (failed(verifyAxis(*this, getInput())) || failed(verifyResets(*this))) {
    return failure();
  }
  return getSegments()
             ? verifyCutScale(*this, getInput(), cast<SegmentationType>(getSegments().getType()))
             : success();
}
Type RecurrenceOp::computeResultType() {
  StreamType input = getStream(getInput());
  return getWidth() ? withWidth(input, *getWidth()) : input;
}
void RecurrenceOp::setDerivedDefaults() {}

//===----------------------------------------------------------------------===//
// Edges
//===----------------------------------------------------------------------===//

/// Verifies that edges connect the rows of the stream: of an input, or of segments that the bits of
/// the edges' input cut.
static LogicalResult verifyEdges(GraphConvolutionOp op) {
  StreamType type = getStream(op.getInput());
  StringRef axis = type.getName().getValue();
  BoundariesOp cut = getModel(op).findBoundaries(axis);
  InputOp edges = findInput(op, *op.getEdges());
  if (!edges || !edges.isEdges()) {
    StringRef on = cut ? cut.getBits().value_or("ends") : axis;
    return emitKeyError(op, "edges")
           << "expected the name of an input of edges, found " << quote(*op.getEdges())
           << R"(; add it to "inputs", as in {"on": )" << quote(on) << R"(, "type": "edges"})";
  }
  bool isOnRows = cut ? cut.getBits() == *edges.getOn() : axis == *edges.getOn();
  if (!isOnRows || type.getFactor() != 1) {
    return emitKeyError(op, "edges")
           << "expected edges between rows of the stream, found edges on " << quote(*edges.getOn())
           << " and " << describeStream(op.getInput()) << "; name others, or another stream";
  }
  if (op.getMethod() == GraphMethod::attention && edges.getPattern() == EdgePattern::half) {
    return emitKeyError(op, "edges")
           << "expected edges that are listed for attention to neighbours, found "
           << quote(*op.getEdges()) << " with the pattern \"half\", which stores none; "
           << "name others, or choose another \"method\" (in a umst, another \"intra\" or "
              "\"inter\")";
  }
  return success();
}

LogicalResult GraphConvolutionOp::verify() {
  if (!getSegments() && !getEdges()) {
    return emitMissingKey(*this, "edges");
  }
  if (getSegments() && getEdges()) {
    return emitKeyError(*this, "edges")
           << "expected one of \"edges\" and \"segments\", which both choose the neighbours of a "
              "row, found both; leave one out";
  }
  if (failed(verifyGiven(*this, getInput(), "an edge may connect a row with a later one"))) {
    return failure();
  }
  return getSegments()
             ? verifyCutScale(*this, getInput(), cast<SegmentationType>(getSegments().getType()))
             : verifyEdges(*this);
}
Type GraphConvolutionOp::computeResultType() { return getInput().getType(); }
void GraphConvolutionOp::setDerivedDefaults() {}

//===----------------------------------------------------------------------===//
// Attention over rows and segments
//===----------------------------------------------------------------------===//

LogicalResult RectifiedAttentionOp::verify() {
  StreamType own = getStream(getInput()), words = getStream(getWords());
  if (failed(verifyGiven(*this, getInput(), "a word is read by all of its rows"))) {
    return failure();
  }
  BoundariesOp cut = words.getAxis() == AxisKind::input
                         ? getModel(*this).findBoundaries(words.getName().getValue())
                         : BoundariesOp();
  if (!cut || words.getFactor() != 1 ||
      withWidth(getStream(cut.getInput()), own.getWidth()) != own) {
    return emitKeyError(*this, "words")
           << "expected a stream of the segments of the rows, found " << describeStream(getWords())
           << " for " << describeStream(getInput()) << "; shorten the rows by their segments first";
  }
  return verifyWordHeads(*this);
}
Type RectifiedAttentionOp::computeResultType() { return getInput().getType(); }
void RectifiedAttentionOp::setDerivedDefaults() {
  int64_t width = getStream(getInput()).getWidth();
  if (getHeads() && !getHeadSize() && width % *getHeads() == 0) {
    setHeadSize(width / *getHeads());
  }
}
