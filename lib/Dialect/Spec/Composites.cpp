// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Implements composite stages: types of results, and keys that exclude one another.
// lib/Conversion/ExpandComposites replaces them.
#include "Boundaries.h"
#include "Layers.h"
#include "sluice/Dialect/Spec/Hierarchy.h"

#include "StageChecks.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::spec;

//===----------------------------------------------------------------------===//
// Hourglass
//===----------------------------------------------------------------------===//

bool HourglassOp::attendsDown() {
  return getShorten() == ShortenMethod::attention ||
         getShorten() == ShortenMethod::attention_linear;
}
bool HourglassOp::attendsUp() {
  return getUpsample() == UpsampleMethod::attention ||
         getUpsample() == UpsampleMethod::attention_linear ||
         getUpsample() == UpsampleMethod::attention_repeat;
}

static LogicalResult verifyResampling(HourglassOp op) {
  if (op.getUpsampleNorm() && op.getUpsample() == UpsampleMethod::attention) {
    return emitKeyError(op, "upsample_norm")
           << "expected \"upsample_norm\" only where \"upsample\" adds upsampled rows, found it "
              "with \"attention\", which adds none; leave it out, or write \"attention_linear\" or "
              "\"attention_repeat\"";
  }
  if (!op.attendsDown() && op.getShortenKeys() != ShortenKeySet::all) {
    return emitKeyError(op, "shorten_keys")
           << "expected \"shorten_keys\" only where \"shorten\" is \"attention\" or "
              "\"attention_linear\", which has keys, found \"group\"; leave it out";
  }
  if (!op.attendsDown() && !op.attendsUp()) {
    return success();
  }
  if (op.getRotary()) {
    return emitKeyError(op, "rotary")
           << "expected no \"rotary\" where an hourglass resamples by attention, whose keys are on "
              "another scale than its queries, found both; use \"relative\", or resample without "
              "attention";
  }
  if (op.getLsh()) {
    return emitKeyError(op, "lsh")
           << "expected no \"lsh\" where an hourglass resamples by attention, whose keys are "
              "another stream's, found both; write \"lsh\": false in this stage, or resample "
              "without attention";
  }
  if (op.getScales()) {
    return emitKeyError(op, "scales")
           << "expected no \"scales\" where an hourglass resamples by attention, whose keys are "
              "another stream's, found both; write \"scales\": [] in this stage, or resample "
              "without attention";
  }
  return success();
}

/// Verifies that a norm precedes each shift, whose rows before the first are in the first group.
static LogicalResult verifyNormStart(HourglassOp op) {
  if (!op.attendsDown() || op.getPlacement() != NormPlacement::pre) {
    return emitKeyError(op, "start")
           << "expected \"start\": \"norm\" only in a pre-norm hourglass that shortens by "
              "attention, where a norm precedes each shift, found it in another one; leave it out";
  }
  for (StringRef key : {"shift", "shorten_window"}) {
    if (isWritten(op, key)) {
      return emitKeyError(op, key)
             << "expected no " << quote(key)
             << " with \"start\": \"norm\", which fills the rows before the first of the first "
                "group, found both; leave one out";
    }
  }
  return success();
}

/// Learned rows are stored, so a group of them would not be complete until its last row exists. If
/// the output is shifted, a group ends after its first row, which the masks of attention between
/// scales cannot express.
static LogicalResult verifyShifted(HourglassOp op) {
  bool shiftsOutput = op.getShifted() == ShiftedSide::output;
  if (op.getStart() == StartRows::norm && failed(verifyNormStart(op))) {
    return failure();
  }
  if (op.getStart() == StartRows::null && !shiftsOutput) {
    return emitKeyError(op, "start")
           << "expected \"start\": \"null\" in an hourglass only with \"shifted\": \"output\", as "
              "a group whose first rows are learned would not be whole when it is read, found it "
              "alone; add that, or leave \"start\" out";
  }
  if (shiftsOutput && (op.attendsDown() || op.attendsUp())) {
    return emitKeyError(op, "shifted") << "expected \"shifted\": \"input\" where an hourglass "
                                          "resamples by attention, which reads "
                                          "groups that end where they begin, found \"output\"; "
                                          "leave it out, or resample without "
                                          "attention";
  }
  return success();
}

/// Verifies that the queries of upsampling by attention exist: the stream before the matching
/// shortening.
static LogicalResult verifyQueries(HourglassOp op, const Hierarchy &hierarchy) {
  size_t coarsest = hierarchy.getCoarsest();
  ArrayRef<HierarchyLevel> levels = hierarchy.levels;
  for (const HierarchyLevel &up : levels.drop_front(coarsest + 1)) {
    bool isShortened = llvm::any_of(levels.take_front(coarsest),
                                    [&](const HierarchyLevel &l) { return l.factor == up.factor; });
    if (op.attendsUp() && !isShortened) {
      return emitKeyError(op, "upsample")
             << "expected a level of factor " << up.factor
             << " on the way down, whose stream is attention's queries on the way up, found none; "
                "add "
                "0@"
             << up.factor << ", or upsample by \"repeat\" or \"linear\"";
    }
  }
  return success();
}

LogicalResult HourglassOp::verify() {
  FailureOr<Hierarchy> hierarchy = parseHierarchy(*this, getHierarchy(), HierarchyOrder::DownAndUp);
  if (failed(hierarchy) ||
      failed(verifyNoWindow(*this, getShorten() == ShortenMethod::linear, "shorten",
                            "shorten_window", "convolution")) ||
      failed(verifyStart(*this, getStart(), getShift())) || failed(verifyLayerSettings(*this)) ||
      failed(verifyResampling(*this)) || failed(verifyShifted(*this))) {
    return failure();
  }
  SmallVector<int64_t> factors(hierarchy->drawn.begin(), hierarchy->drawn.end());
  if (factors.empty()) {
    factors.push_back(1);
  }
  for (int64_t factor : factors) {
    hierarchy->setDrawn(factor);
    if (failed(verifyQueries(*this, *hierarchy))) {
      return failure();
    }
  }
  return verifyAxis(*this, getInput());
}

//===----------------------------------------------------------------------===//
// Top-down and bottom-up
//===----------------------------------------------------------------------===//

LogicalResult TopDownOp::verify() {
  if (failed(parseHierarchy(*this, getHierarchy(), HierarchyOrder::Falling)) ||
      failed(verifyNoWindow(*this, getShorten() == ShortenMethod::linear, "shorten",
                            "shorten_window", "convolution")) ||
      failed(verifyLayerSettings(*this))) {
    return failure();
  }
  if (getLsh()) {
    return emitKeyError(*this, "lsh")
           << "expected no \"lsh\" in a top_down stage, whose layers leave out the first rows of "
              "their scales, found both; write \"lsh\": false in this stage";
  }
  if (getScales()) {
    return emitKeyError(*this, "scales")
           << "expected no \"scales\" in a top_down stage, whose layers leave out the first rows "
              "of their own scale as keys, found both; write \"scales\": [] in this stage";
  }
  return verifyAxis(*this, getInput());
}
int64_t TopDownOp::getTokensBefore() {
  FailureOr<Hierarchy> hierarchy = parseHierarchy(*this, getHierarchy(), HierarchyOrder::Falling);
  bool isLearned = getStart() == StartRows::null;
  return failed(hierarchy) || isLearned
             ? 0
             : hierarchy->levels.front().factor * getStream(getInput()).getFactor() - 1;
}

LogicalResult BottomUpOp::verify() {
  FailureOr<Hierarchy> hierarchy = parseHierarchy(*this, getHierarchy(), HierarchyOrder::Rising);
  if (failed(hierarchy) ||
      failed(verifyNoWindow(*this, getShorten() == ShortenMethod::linear, "shorten",
                            "shorten_window", "convolution")) ||
      failed(verifyLayerSettings(*this))) {
    return failure();
  }
  if (getScales()) {
    return emitKeyError(*this, "scales")
           << "expected no \"scales\" in a bottom_up stage, which has scales of its own, found "
              "both; write \"scales\": [] in this stage";
  }
  return failure(failed(verifyGroups(*this, "hierarchy",
                                     static_cast<int64_t>(hierarchy->levels.size()) - 1)) ||
                 failed(verifyAxis(*this, getInput())));
}

//===----------------------------------------------------------------------===//
// Lists of other stages
//===----------------------------------------------------------------------===//

/// Returns the stage as messages name it, for example "a dynamic stage".
static std::string describeKind(Operation *op) {
  StringRef word = op->getName().stripDialect();
  return (word == "hnet" ? "an " : "a ") + word.str() + " stage";
}

/// Emits an error at a key of the stage's boundaries: `path` is "boundaries", or "boundaries.1" for
/// a level.
static InFlightDiagnostic refuseCut(Operation *op, StringRef path, StringRef key,
                                    StringRef expected) {
  return emitKeyError(op, (path + "." + key).str())
         << "expected " << expected << " in the boundaries of " << describeKind(op) << ", ";
}

/// Requires boundaries that begin segments, because rows of segments are the rows at bits.
static LogicalResult requireBegun(Operation *op, StringRef path, DictionaryAttr cut) {
  auto at = cut ? cut.getAs<SegmentEdgeAttr>("at") : SegmentEdgeAttr();
  if (at && at.getValue() == SegmentEdge::end) {
    return refuseCut(op, path, "at", "\"start\" for \"at\"")
           << "whose rows of segments are those at bits, found \"end\"; leave it out, or write "
              "\"start\"";
  }
  return success();
}

/// Requires a rule, because rows of segments have no derivative by bits.
static LogicalResult requireRule(Operation *op, StringRef path, DictionaryAttr cut) {
  if (cut && cut.get("predictor") && !cut.get("rule") && !cut.get("ratio")) {
    return refuseCut(op, path, "predictor", "a \"rule\" beside \"predictor\"")
           << "whose rows of segments have no derivative by bits, found none; give the \"rule\" "
              "whose bits it learns";
  }
  return success();
}

/// Requires rows of whole segments: a router's rows are the rows at bits, and the last row is known
/// if bits end segments.
static LogicalResult requireWhole(Operation *op, DictionaryAttr cut, ShortenMethod method) {
  if (cut.get("ratio")) {
    return refuseCut(op, "boundaries", "ratio", "no \"ratio\"")
           << "whose rows are of whole segments and not those at a router's bits, found one; give "
              "a \"rule\" in its place, or take "
              "an hnet stage";
  }
  auto at = cut.getAs<SegmentEdgeAttr>("at");
  if (at && at.getValue() == SegmentEdge::start && method == ShortenMethod::last) {
    return refuseCut(op, "boundaries", "at", "\"end\" for \"at\"")
           << "whose \"method\" is \"last\", found \"start\"; leave it out, or write \"method\": "
              "\"average\"";
  }
  return success();
}

/// Rejects a mask in "local": the stage itself sets the windows of layers in groups.
static LogicalResult refuseLocalMask(Operation *op, std::optional<DictionaryAttr> local,
                                     StringRef why) {
  bool isOwn = isWritten(op, "local.mask") && !isInherited(op, "local.mask");
  if (local && isOwn && local->get("mask")) {
    return emitKeyError(op, "local.mask")
           << "expected no \"mask\" for \"local\" layers, which read " << why
           << ", found one; leave it out";
  }
  return success();
}

SmallVector<Type> spec::getInnerSegmentations(StringRef word, DictionaryAttr attributes,
                                              StreamType input) {
  if (word != "dynamic" && word != "blt" && word != "spacebyte" && word != "hnet") {
    return {};
  }
  Attribute own = attributes.get("boundaries");
  auto list = dyn_cast_or_null<ArrayAttr>(own);
  auto widths = dyn_cast_or_null<DenseI64ArrayAttr>(attributes.get("width"));
  SmallVector<Type> types;
  Attribute counts = attributes.get("layers");
  for (size_t level = 0; auto three = dyn_cast_or_null<ArrayAttr>(counts); ++level) {
    std::string name = word.str() + (level > 0 ? "_" + std::to_string(level + 1) : "");
    Attribute cut = list && level < list.size() ? list[level] : own;
    auto keys = dyn_cast_or_null<DictionaryAttr>(cut);
    auto named = keys ? keys.getAs<StringAttr>("name") : StringAttr();
    auto type = SegmentationType::get(
        input.getContext(), named ? named : StringAttr::get(input.getContext(), name), input);
    types.push_back(type);
    int64_t width =
        widths && level < static_cast<size_t>(widths.size()) ? widths[level] : input.getWidth();
    input = StreamType::get(input.getContext(), AxisKind::segments, type.getName(), 1, width);
    counts = three.size() > 1 ? three[1] : Attribute();
  }
  return types;
}

LogicalResult DynamicOp::verify() {
  return failure(failed(requireWhole(*this, getBoundaries(), getMethod())) ||
                 failed(verifyAxis(*this, getInput())));
}
LogicalResult MegabyteOp::verify() {
  return failure(failed(refuseLocalMask(*this, getLocal(), "their patch")) ||
                 failed(verifyAxis(*this, getInput())));
}
LogicalResult BlockTransformerOp::verify() {
  return failure(failed(refuseLocalMask(*this, getLocal(), "their block")) ||
                 failed(verifyAxis(*this, getInput())));
}
LogicalResult SpaceByteOp::verify() {
  return failure(
      failed(requireBegun(*this, "boundaries", getBoundaries().value_or(DictionaryAttr()))) ||
      failed(verifyAxis(*this, getInput())));
}
LogicalResult HnetOp::verify() {
  size_t levels = 1;
  for (ArrayAttr counts = getLayers(); auto inner = dyn_cast<ArrayAttr>(counts[1]);
       counts = inner) {
    ++levels;
  }
  for (auto [key, found] :
       {std::pair("width", getWidth() ? getWidth()->size() : 0),
        std::pair("boundaries", getBoundaries() ? getBoundaries()->size() : 0)}) {
    if (found > 0 && found != levels) {
      return emitKeyError(*this, key) << "expected " << levels << " values for " << quote(key)
                                      << ", one per level of \"layers\", found " << found
                                      << "; give a list of as many, from the outermost level";
    }
  }
  for (size_t i = 0; getBoundaries() && i < getBoundaries()->size(); ++i) {
    bool isList = isWritten(*this, "boundaries.0");
    std::string path = isList ? "boundaries." + std::to_string(i) : "boundaries";
    auto cut = cast<DictionaryAttr>((*getBoundaries())[i]);
    if (failed(requireBegun(*this, path, cut)) || failed(requireRule(*this, path, cut))) {
      return failure();
    }
  }
  return verifyAxis(*this, getInput());
}
LogicalResult BltOp::verify() {
  if (failed(requireWhole(*this, getBoundaries(), getMethod())) ||
      failed(requireRule(*this, "boundaries", getBoundaries()))) {
    return failure();
  }
  if (cast<IntegerAttr>(getLayers()[2]).getInt() == 0) {
    return emitKeyError(*this, "layers.2") << "expected a layer or more after the patches, each of "
                                              "which reads them, found 0; make the third number 1";
  }
  return verifyAxis(*this, getInput());
}

//===----------------------------------------------------------------------===//
// Layers over words
//===----------------------------------------------------------------------===//

LogicalResult UmstOp::verify() {
  if (failed(verifyGiven(*this, getInput(), "a word is read by all of its rows")) ||
      failed(verifyCutScale(*this, getInput(), cast<SegmentationType>(getSegments().getType())))) {
    return failure();
  }
  bool readsEdges = getInter() != GraphUse::none;
  if (readsEdges != bool(getEdges())) {
    return readsEdges ? LogicalResult(emitMissingKey(*this, "edges"))
                      : LogicalResult(emitKeyError(*this, "edges")
                                      << "expected no \"edges\" with \"inter\": \"none\", which "
                                         "reads none, found both; leave one out");
  }
  for (StringRef key : {"vectors", "shared_maps", "expand"}) {
    if (!readsEdges && isWritten(*this, key)) {
      return emitKeyError(*this, key) << "expected no " << quote(key)
                                      << " with \"inter\": \"none\", whose attention is a layer's, "
                                         "found both; leave one out";
    }
  }
  if (getIntra() == GraphUse::none && getIntraEdges()) {
    return emitKeyError(*this, "intra_edges")
           << "expected no \"intra_edges\" with \"intra\": \"none\", which reads none, found both; "
              "leave one out";
  }
  bool haveMaps = getIntra() == GraphUse::convolution || getIntra() == GraphUse::gat;
  if (getGraphMaps() == GraphMaps::scales && (!haveMaps || getIntra() != getInter())) {
    return emitKeyError(*this, "graph_maps")
           << "expected two graph convolutions, or two \"gat\", for \"graph_maps\": \"scales\", "
              "found "
           << quote(stringifyGraphUse(getIntra())) << " and "
           << quote(stringifyGraphUse(getInter())) << "; leave it out";
  }
  if (getGraphMaps() != GraphMaps::own && getShare()) {
    return emitKeyError(*this, "share")
           << "expected no \"share\" where \"graph_maps\" shares weights inside the stage, found "
              "both; leave one out";
  }
  return verifyWordHeads(*this);
}

LogicalResult TntOp::verify() {
  if (failed(verifyGiven(*this, getInput(), "a row reads the later rows of its word")) ||
      failed(verifyCutScale(*this, getInput(), cast<SegmentationType>(getSegments().getType())))) {
    return failure();
  }
  if (getSharedLayers() && getShare()) {
    return emitKeyError(*this, "share")
           << "expected no \"share\" with \"shared_layers\", which shares weights inside the "
              "stage, found both; leave one out";
  }
  return verifyWordHeads(*this);
}

StreamType MultiStageOp::getResultStream() {
  return getSegmentStream(cast<SegmentationType>(getSegments().getType()),
                          getStream(getInput()).getWidth());
}
LogicalResult MultiStageOp::verify() {
  return failure(
      failed(verifyGiven(*this, getInput(), "its layers read all rows")) ||
      failed(verifyCutScale(*this, getInput(), cast<SegmentationType>(getSegments().getType()))) ||
      failed(verifyWordHeads(*this)));
}
