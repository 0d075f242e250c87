// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "StageChecks.h"

#include "sluice/Dialect/Spec/Keys.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::spec;

StreamType spec::withFactor(StreamType stream, int64_t factor) {
  return StreamType::get(stream.getContext(), stream.getAxis(), stream.getName(), factor,
                         stream.getWidth());
}

StreamType spec::withWidth(StreamType stream, int64_t width) {
  return StreamType::get(stream.getContext(), stream.getAxis(), stream.getName(),
                         stream.getFactor(), width);
}

ModelOp spec::getModel(Operation *stage) { return stage->getParentOfType<ModelOp>(); }

BoundariesOp spec::getCut(Value segmentation) { return segmentation.getDefiningOp<BoundariesOp>(); }

BoundariesOp spec::getCutBelow(StreamType stream, Operation *from) {
  if (stream.getAxis() != AxisKind::segments) {
    return {};
  }
  // Types of unverified IR may name segments of a later stage, in a cycle.
  BoundariesOp cut = getModel(from).findBoundaries(stream.getName().getValue());
  return cut && cut->isBeforeInBlock(from) ? cut : BoundariesOp();
}

//===----------------------------------------------------------------------===//
// Axes
//===----------------------------------------------------------------------===//

/// Returns true for stages that support only streams of the tokens.
static bool readsTokensOnly(Operation *stage) {
  return !isa<EmbeddingOp, LayerOp, LayersOp, FeedForwardOp, AttentionOp, NormOp, AddOp, ReplaceOp,
              ClearOp, FitOp, PositionsOp, ProjectOp, RecurrenceOp, GraphConvolutionOp,
              RectifiedAttentionOp, UmstOp, TntOp, MultiStageOp, DropoutOp, BoundariesOp, ShiftOp,
              ShortenOp, UpsampleOp>(stage);
}

/// Returns true for stages that support rows of segments: not heads, and not cross-attention to
/// another scale.
static bool readsSegments(Operation *stage) {
  if (auto layer = dyn_cast<LayerOp>(stage)) {
    return layer.getSources().empty() && !layer.getScales();
  }
  if (auto hourglass = dyn_cast<HourglassOp>(stage)) {
    return !hourglass.attendsDown() && !hourglass.attendsUp() && !hourglass.getScales();
  }
  if (auto layers = dyn_cast<LayersOp>(stage)) {
    return !layers.getScales();
  }
  return isa<NormOp, FeedForwardOp, ShiftOp, AddOp, ClearOp, FitOp, PositionsOp, ProjectOp,
             RecurrenceOp, DropoutOp, ShortenOp, UpsampleOp, BoundariesOp, AttendOp, ContrastOp>(
      stage);
}

LogicalResult spec::verifyAxis(Operation *stage, Value input) {
  StreamType type = getStream(input);
  StringRef word = stage->getName().stripDialect();
  if (type.getAxis() == AxisKind::input && readsTokensOnly(stage)) {
    return emitError(getKeyLoc(stage, ""))
           << "expected a stream of the tokens for " << word << ", found " << describeStream(input)
           << (isa<HeadOp>(stage) ? "; let a layer of the tokens read it with \"over\""
                                  : "; on an input's axis use layers, norms, sums, "
                                    "dropout, shift, shorten, upsample and boundaries");
  }
  auto layer = dyn_cast<LayerSettingsInterface>(stage);
  RelativeAttr relative = layer ? layer.getRelative().value_or(RelativeAttr()) : RelativeAttr();
  if (type.getAxis() == AxisKind::input && relative && relative.getTerms() != RelativeTerms::none &&
      !isSigned(relative.getTerms())) {
    return emitKeyError(stage, "relative")
           << "expected \"none\" or terms of both directions for \"relative\" on the axis of the "
              "input "
           << quote(type.getName().getValue())
           << ", found another; write {\"signed_bias\": distance} or {\"vectors\": distance}, or "
              "leave it out";
  }
  if (type.getAxis() == AxisKind::segments && !readsSegments(stage)) {
    return emitError(getKeyLoc(stage, ""))
           << "expected a layer without \"over\" and \"scales\", a feed_forward, norm, shift, "
              "shorten, "
              "upsample, add, clear, fit, positions, project, recurrence, dropout, attend, "
              "boundaries or an hourglass without attention resampling, found a stage \""
           << word << "\" of " << describeStream(input) << "; upsample it first";
  }
  return success();
}

LogicalResult spec::verifyPair(Operation *stage, Value input, Value with, bool sameWidth,
                               StringRef key) {
  StreamType a = getStream(input), b = getStream(with);
  bool isOfInput = a.getAxis() == AxisKind::input || b.getAxis() == AxisKind::input;
  if (isOfInput && (a.getAxis() != b.getAxis() || a.getName() != b.getName())) {
    return emitKeyError(stage, key)
           << "expected two streams of one axis, found " << describeStream(input) << ", and "
           << describeStream(with) << "; let a layer read the other with \"over\"";
  }
  if (a.getFactor() != b.getFactor() || a.getAxis() != b.getAxis() || a.getName() != b.getName()) {
    return emitKeyError(stage, key)
           << "expected two streams of one scale, found " << describeStream(input) << ", and "
           << describeStream(with) << "; shorten or upsample one of them";
  }
  if (sameWidth && a.getWidth() != b.getWidth()) {
    return emitKeyError(stage, key)
           << "expected two streams of one width, found " << describeStream(input) << ", of width "
           << a.getWidth() << ", and " << describeStream(with) << ", of width " << b.getWidth()
           << "; project one of them to \"width\": " << a.getWidth();
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Keys
//===----------------------------------------------------------------------===//

LogicalResult spec::verifyStart(Operation *stage, StartRows start, std::optional<int64_t> by) {
  if (start == StartRows::null && by == 0) {
    return emitKeyError(stage, "start")
           << "expected \"start\": \"null\" only where a shift of 1 or more has first rows to "
              "learn, found a shift of 0; leave it "
              "out, or shift by more";
  }
  return success();
}

LogicalResult spec::verifyNoWindow(Operation *stage, bool isLinear, StringRef methodKey,
                                   StringRef key, StringRef other) {
  if (isLinear && isWritten(stage, key)) {
    return emitKeyError(stage, key)
           << "expected no " << quote(key) << " for " << quote(methodKey)
           << ": \"linear\", whose rows are those of the group, found one; leave it out, or write "
           << quote(other);
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

InFlightDiagnostic spec::emitMissingKey(Operation *op, StringRef key, StringRef hint) {
  const ObjectInfo &stage = *findStage(op->getName().stripDialect());
  const KeyInfo &info = *stage.find(key);
  InFlightDiagnostic error = emitError(getKeyLoc(op, ""));
  error << "expected " << quote(key) << " in " << StringRef(stage.what) << ", found none; add it: ";
  if (!hint.empty() || !info.hint.empty()) {
    return std::move(error << (hint.empty() ? StringRef(info.hint) : hint));
  }
  return std::move(error << "an integer from " << info.range.least << " to " << info.range.largest);
}

std::string spec::describeNumber(double number) {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%g", number);
  return text;
}

bool spec::isPlanName(StringRef name) {
  constexpr StringLiteral taken[] = {
      "tokens",  "target", "last",     "prompt",     "text",       "take",    "evaluate",
      "predict", "train",  "gradient", "accumulate", "initialize", "prepare", "update",
      "prefill", "reset",  "step",     "count",      "sinusoidal", "quantize"};
  auto isLower = [](char c) { return c >= 'a' && c <= 'z'; };
  auto isDigit = [](char c) { return c >= '0' && c <= '9'; };
  bool isWord = !name.empty() && isLower(name.front()) &&
                llvm::all_of(name, [&](char c) { return isLower(c) || isDigit(c) || c == '_'; });
  bool isScale = name.size() > 1 && name.front() == 's' && llvm::all_of(name.drop_front(), isDigit);
  return isWord && !isScale && !llvm::is_contained(taken, name);
}

LogicalResult spec::verifyGiven(Operation *stage, Value input, StringRef why) {
  if (getStream(input).getAxis() == AxisKind::input) {
    return success();
  }
  return mlir::emitError(getKeyLoc(stage, ""))
         << "expected a stream of an input for " << stage->getName().stripDialect() << ", as "
         << why << ", found " << describeStream(input)
         << "; let a layer of the tokens read it with \"over\"";
}
