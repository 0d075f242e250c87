// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Verifies IR that the reader of specs does not create: attributes, types of results, words and
// objects of keys. Hand-written IR may have any.
#include "VerifyStage.h"
#include "StageChecks.h"

#include "sluice/Dialect/Spec/Keys.h"

#include "mlir/IR/Diagnostics.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::spec;

using EmitError = llvm::function_ref<InFlightDiagnostic()>;

//===----------------------------------------------------------------------===//
// Types and attributes
//===----------------------------------------------------------------------===//

LogicalResult StreamType::verify(EmitError emitError, AxisKind axis, StringAttr name,
                                 int64_t factor, int64_t width) {
  if (factor < 1 || factor > mostSize || width < 1) {
    return emitError() << "expected a factor from 1 to " << mostSize
                       << " and a width of at least 1 of a stream, found " << factor << " and "
                       << width;
  }
  if ((axis == AxisKind::tokens) != !name) {
    return emitError() << "expected a name of the axis of a stream unless it is \"tokens\", found "
                       << (name ? "one" : "none") << " of \"" << stringifyAxisKind(axis) << "\"";
  }
  return success();
}

LogicalResult MaskAttr::verify(EmitError emitError, MaskShape shape, int64_t begin, int64_t end) {
  bool hasEnds =
      shape == MaskShape::window || shape == MaskShape::tokens || shape == MaskShape::block;
  if (hasEnds ? begin < 0 || begin >= end || end > mostSize : begin != 0 || end != 0) {
    return emitError() << "expected a mask \"" << stringifyMaskShape(shape) << "\" "
                       << (hasEnds ? "from 0 or more to more than that" : "without ends")
                       << ", found " << begin << " to " << end;
  }
  return success();
}

LogicalResult RelativeAttr::verify(EmitError emitError, RelativeTerms terms, int64_t distances) {
  bool isTable = hasDistanceTable(terms);
  if (isTable ? distances < 1 || distances > mostSize : distances != 0) {
    return emitError() << "expected a number of distances from 1 to " << mostSize
                       << " of tables by distance and of no other terms, found " << distances
                       << " of \"" << stringifyRelativeTerms(terms) << "\"";
  }
  return success();
}

LogicalResult LshAttr::verify(EmitError emitError, int64_t buckets, int64_t chunk, int64_t hashes,
                              bool) {
  if (buckets < 2 || buckets > 65536 || buckets % 2 != 0 || chunk < 1 || chunk > 1048576 ||
      !llvm::isPowerOf2_64(chunk) || hashes < 1 || hashes > 64) {
    return emitError() << "expected an even number of buckets from 2 to 65536, a chunk that is a "
                          "power of two up to 1048576, and 1 to 64 hashes, found "
                       << buckets << ", " << chunk << " and " << hashes;
  }
  return success();
}

LogicalResult ScaleAttr::verify(EmitError emitError, int64_t factor, bool, MaskAttr mask) {
  if (factor < 1 || factor > mostSize || mask.getShape() != MaskShape::tokens) {
    return emitError() << "expected a factor from 1 to " << mostSize
                       << " and a window in tokens of a scale, found " << factor << " and " << mask;
  }
  return success();
}

LogicalResult TargetAttr::verify(EmitError emitError, FloatAttr to, FloatAttr from, int64_t steps,
                                 int64_t jumps) {
  if (steps < 0 || (steps > 0) != static_cast<bool>(from)) {
    return emitError() << "expected \"from\" with \"steps\" of at least 1, or neither, found "
                       << steps << " steps" << (from ? " from " : " without \"from\"");
  }
  int64_t mostSteps = getObject("MovingSection").find("steps")->range.largest;
  int64_t mostJumps = std::min(steps, mostSteps / std::max<int64_t>(1, steps));
  if (steps > mostSteps || jumps < 0 || jumps > mostJumps) { // their product is computed in f32 too
    return emitError() << "expected at most " << mostSteps << " steps, and " << mostJumps
                       << " jumps of " << steps << " steps, found " << steps << " and " << jumps;
  }
  for (FloatAttr number : {to, from}) {
    if (number && (!number.getType().isF64() || !number.getValue().isFinite())) {
      return emitError() << "expected finite numbers of f64 of a target, found " << number;
    }
  }
  return success();
}

bool spec::isInRange(IntegerAttr integer, int64_t least, int64_t largest) {
  return integer.getInt() >= least && integer.getInt() <= largest;
}

bool spec::isCounts(ArrayAttr counts, size_t count, bool nests, int level) {
  constexpr int64_t mostLayers = 10000;
  if (counts.size() != count || level > mostNestedLevels) {
    return false;
  }
  for (auto [i, value] : llvm::enumerate(counts)) {
    auto number = dyn_cast<IntegerAttr>(value);
    auto deeper = dyn_cast<ArrayAttr>(value);
    bool isNumber =
        number && number.getType().isSignlessInteger(64) && isInRange(number, 0, mostLayers);
    if (!isNumber && !(nests && i == 1 && deeper && isCounts(deeper, count, nests, level + 1))) {
      return false;
    }
  }
  return true;
}

bool spec::isSizes(DenseI64ArrayAttr sizes) {
  return llvm::all_of(sizes.asArrayRef(),
                      [](int64_t size) { return size >= 1 && size <= mostSize; });
}

//===----------------------------------------------------------------------===//
// Keys
//===----------------------------------------------------------------------===//

/// Returns true if the numbers of a value, if it has any, are in an interval.
static bool isInside(Attribute value, const Interval &interval) {
  if (auto number = dyn_cast_or_null<FloatAttr>(value)) {
    double x = number.getValueAsDouble();
    return interval.contains(x) && interval.containsInF32(x);
  }
  auto target = dyn_cast_or_null<TargetAttr>(value);
  return !target || (isInside(target.getTo(), interval) && isInside(target.getFrom(), interval));
}

/// Fails if attributes have a number outside the interval of its key. `emit` reports an error at
/// a key.
static LogicalResult verifyIntervals(DictionaryAttr attributes, const ObjectInfo &object,
                                     llvm::function_ref<InFlightDiagnostic(StringRef)> emit) {
  for (const KeyInfo &key : object.keys) {
    Attribute value = attributes.get(StringRef(key.attribute));
    if (!isInside(value, key.interval)) {
      return emit(StringRef(key.name))
             << "expected " << key.interval.describe() << " that f32 has room for, for "
             << quote(key.name) << ", found " << value;
    }
  }
  return success();
}

/// Fails if a text is empty or not UTF-8. The name of a model, by default the stem of its file, may
/// be empty.
static LogicalResult verifyTexts(DictionaryAttr attributes, const ObjectInfo &object,
                                 llvm::function_ref<InFlightDiagnostic(StringRef)> emit) {
  auto verifyText = [&](StringRef key, StringRef attribute) -> LogicalResult {
    auto text = attributes.getAs<StringAttr>(attribute);
    if (text && text.empty() && object.word != "model") {
      return emit(key) << "expected a string that is not empty for " << quote(key)
                       << ", found \"\"";
    }
    if (text && countCharacters(text.getValue(), 0, text.size()).invalid) {
      return emit(key) << "expected text in UTF-8 for " << quote(key) << ", found "
                       << quote(text.getValue());
    }
    return success();
  };
  for (const KeyInfo &key : object.keys) {
    if (key.kind == KeyKind::Text &&
        failed(verifyText(StringRef(key.name), StringRef(key.attribute)))) {
      return failure();
    }
  }
  return verifyText("to", "to");
}

LogicalResult spec::verifyAttributes(Operation *op) {
  StringRef word = op->getName().stripDialect();
  auto object = llvm::find_if(getObjects(),
                              [&](const ObjectInfo &each) { return StringRef(each.word) == word; });
  for (NamedAttribute each : op->getDiscardableAttrs()) {
    if (!each.getName().getValue().contains('.')) {
      return emitError(getKeyLoc(op, ""))
             << "expected attributes of " << op->getName() << " alone, found " << each.getName();
    }
  }
  auto emit = [&](StringRef key) { return emitKeyError(op, key); };
  DictionaryAttr attributes = op->getAttrDictionary();
  return failure(object != getObjects().end() &&
                 (failed(verifyTexts(attributes, *object, emit)) ||
                  failed(verifyIntervals(attributes, *object, emit))));
}

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

LogicalResult spec::verifyDerived(Operation *op, ArrayRef<StringRef> names) {
  for (StringRef name : names) {
    if (!getKeyValue(op, name)) {
      return emitError(getKeyLoc(op, ""))
             << "expected the attribute " << quote(name) << " of " << op->getName()
             << ", which the reader of specs derives from others, found none; add it";
    }
  }
  return success();
}

/// Fails if the value of a key is a word of its enumeration that this stage does not accept.
static LogicalResult verifyWords(Operation *op, const ObjectInfo &stage) {
  bool readsSegments =
      llvm::any_of(op->getOperandTypes(), [](Type type) { return isa<SegmentationType>(type); });
  for (const KeyInfo &key : stage.keys) {
    Attribute value =
        key.kind == KeyKind::Word ? getKeyValue(op, StringRef(key.attribute)) : Attribute();
    if (!value) {
      continue;
    }
    const auto &words =
        readsSegments && !key.wordsWithSegments.empty() ? key.wordsWithSegments : key.words;
    bool isKnown = llvm::any_of(words, [&](StringRef word) {
      return getWordAttr(op->getContext(), StringRef(key.enumeration), word) == value;
    });
    if (!isKnown) {
      return emitKeyError(op, StringRef(key.name))
             << "expected a word for " << quote(key.name) << " that " << StringRef(stage.what)
             << " takes, found " << value;
    }
  }
  return success();
}

/// Fails unless `settings`, the value of `key`, has only attributes of the stage `word`.
static LogicalResult verifySettings(Operation *op, StringRef key, Attribute settings,
                                    StringRef word) {
  auto own = dyn_cast_or_null<DictionaryAttr>(settings);
  if (!own) {
    return success();
  }
  const ObjectInfo &stage = *findStage(word);
  for (NamedAttribute each : own) {
    bool isKnown = llvm::any_of(stage.keys, [&](const KeyInfo &info) {
      return !info.attribute.empty() && StringRef(info.attribute) == each.getName().getValue();
    });
    if (!isKnown) {
      return emitKeyError(op, key) << "expected attributes of " << StringRef(stage.what) << " in "
                                   << quote(key) << ", found " << each.getName();
    }
  }
  auto emit = [&](StringRef) { return emitKeyError(op, key); };
  if (failed(verifyTexts(own, stage, emit)) || failed(verifyIntervals(own, stage, emit))) {
    return failure();
  }
  NamedAttrList attributes(own);
  auto name = RegisteredOperationName::lookup(("spec." + word).str(), op->getContext());
  return name->verifyInherentAttrs(attributes, [&] {
    return emitKeyError(op, key) << "expected settings of " << StringRef(stage.what) << " in "
                                 << quote(key) << ": ";
  });
}

/// Checks the objects of a list of stages: settings of layers and of boundaries.
static LogicalResult verifyObjects(Operation *op) {
  auto cuts = dyn_cast_or_null<ArrayAttr>(getKeyValue(op, "boundaries"));
  for (Attribute cut : cuts ? cuts.getValue() : ArrayRef<Attribute>()) {
    if (failed(verifySettings(op, "boundaries", cut, "boundaries"))) {
      return failure();
    }
  }
  return failure(
      failed(verifySettings(op, "boundaries", getKeyValue(op, "boundaries"), "boundaries")) ||
      failed(verifySettings(op, "local", getKeyValue(op, "local"), "layers")) ||
      failed(verifySettings(op, "global", getKeyValue(op, "global"), "layers")));
}

/// Fails if the type of a result differs from the type that operands and keys determine. Trailing
/// results for the segments inside a composite stage may be omitted.
static LogicalResult verifyResults(Operation *op, StringRef word) {
  if (op->getNumResults() == 0) {
    return success();
  }
  Type own = cast<StageInterface>(op).computeResultType();
  if (!own) {
    return failure();
  }
  SmallVector<Type> types = {own};
  if (op->getNumOperands() > 0) {
    llvm::append_range(
        types, getInnerSegmentations(word, op->getAttrDictionary(), getStream(op->getOperand(0))));
  }
  if (op->getNumResults() > types.size()) {
    return emitError(getKeyLoc(op, "")) << "expected at most " << types.size() << " results of "
                                        << op->getName() << ", found " << op->getNumResults();
  }
  for (auto [found, type] : llvm::zip(op->getResultTypes(), types)) {
    if (found != type) {
      return emitError(getKeyLoc(op, "")) << "expected a result of type " << type << " of "
                                          << op->getName() << ", found " << found;
    }
  }
  return success();
}

LogicalResult spec::verifyStage(Operation *op) {
  StringRef word = op->getName().stripDialect();
  const ObjectInfo &stage = *findStage(word);
  if (failed(verifyAttributes(op)) || failed(verifyWords(op, stage))) {
    return failure();
  }
  if (!stage.hasLayerKeys && getKeyValue(op, "layers") && failed(verifyObjects(op))) {
    return failure();
  }
  return verifyResults(op, word);
}
