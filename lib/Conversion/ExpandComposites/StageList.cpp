// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "StageList.h"

#include "sluice/Dialect/Spec/Keys.h"
#include "sluice/Support/Text.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::spec;

static int64_t getWidth(Value stream) { return cast<StreamType>(stream.getType()).getWidth(); }

int64_t spec::getCount(ArrayAttr layers, size_t i) { return cast<IntegerAttr>(layers[i]).getInt(); }

int64_t spec::getOuterWidth(Operation *composite, std::optional<int64_t> inner) {
  return inner ? getWidth(composite->getOperand(0)) : 0;
}

StageList::StageList(Operation *composite, StageAppender &appender)
    : composite(composite), appender(appender), paths(getPath(composite)),
      width(getWidth(composite->getOperand(0))), last(composite->getOperand(0)) {}

/// Returns the brace of the composite stage as the place of a stage inside it, with the places of
/// the stage's own keys. Keys that the composite sets have the brace as place.
Location StageList::getLoc(ArrayRef<StageSetting> settings, DictionaryAttr ownKeys, bool inherits) {
  Location brace = getKeyLoc(composite, "");
  NamedAttrList keys;
  if (isWritten(composite, "share")) {
    keys.set("share", LocationAttr(getKeyLoc(composite, "share")));
  }
  if (inherits) {
    for (NamedAttribute key : getNestedKeys(composite, "defaults")) {
      keys.set(key.getName(), key.getValue());
      keys.set(("defaults." + key.getName().getValue()).str(), key.getValue());
    }
  }
  for (NamedAttribute key : ownKeys ? ownKeys.getValue() : ArrayRef<NamedAttribute>()) {
    keys.set(key.getName(), key.getValue());
  }
  for (const StageSetting &setting : settings) {
    if (!setting.isAbsent()) {
      keys.set(setting.key, LocationAttr(brace));
    }
  }
  return getStageLoc(brace, keys.getDictionary(composite->getContext()));
}

Value StageList::add(StringRef word, ValueRange operands, ArrayRef<StageSetting> settings) {
  return last = appender.add(word, {getLoc(settings, {}, false), paths.next()}, operands, settings);
}

/// Returns the values of `keys` in "local" or "global".
NamedAttrList StageList::getSide(StringRef side, ArrayRef<StringRef> keys) const {
  NamedAttrList settings;
  auto object = dyn_cast_or_null<DictionaryAttr>(getKeyValue(composite, side));
  for (StringRef key : keys) {
    if (Attribute value = object ? object.get(key) : Attribute()) {
      settings.set(key, value);
    }
  }
  return settings;
}

/// Fails if the heads of `defaults` do not divide a width that the composite stage sets.
LogicalResult StageList::verifyDefaultHeads(StringRef side) const {
  NamedAttrList settings = getSide(side, {"heads", "head_size"});
  auto heads = dyn_cast_or_null<IntegerAttr>(settings.get("heads"));
  std::string key = (side + ".heads").str();
  bool isOwn = isWritten(composite, key) && !isInherited(composite, key);
  int64_t inner = getWidth(last);
  if (!heads || isOwn || settings.get("head_size") || inner == width ||
      inner % heads.getInt() == 0) {
    return success();
  }
  return emitKeyError(composite, "width")
         << "expected a width that the " << heads.getInt()
         << " heads of \"defaults\" divide, found " << inner << "; write a multiple of "
         << heads.getInt() << ", or give \"heads\" or \"head_size\" in \"global\"";
}

/// Drops "distances" if its layers count none, as `defaults` may set it for other layers. Fails if
/// "local" or "global" itself sets it for such layers.
LogicalResult StageList::dropUncountedDistances(StringRef side, NamedAttrList &settings) const {
  auto distances = dyn_cast_or_null<DistanceUnitAttr>(settings.get("distances"));
  auto relative = dyn_cast_or_null<RelativeAttr>(settings.get("relative"));
  bool isXl = relative && relative.getTerms() != RelativeTerms::none &&
              !hasDistanceTable(relative.getTerms());
  if (!distances || distances.getValue() != DistanceUnit::rows || isXl) {
    return success();
  }
  std::string key = (side + ".distances").str();
  if (isWritten(composite, key) && !isInherited(composite, key)) {
    return emitKeyError(composite, key)
           << "expected \"distances\": \"rows\" only with Transformer-XL's \"relative\" terms, "
              "found it without; leave it out of this stage, or write \"relative\": \"xl\"";
  }
  settings.erase("distances");
  return success();
}

void StageList::addLayers(int64_t count, StringRef side, MaskAttr mask) {
  if (appender.hasFailed() || (count == 0 && !isWritten(composite, side))) {
    return;
  }
  if (failed(verifyDefaultHeads(side))) {
    return appender.fail();
  }
  SmallVector<StringRef> names;
  for (const KeyInfo &key : getObject("DefaultsSection").keys) {
    names.push_back(StringRef(key.attribute));
  }
  SmallVector<StageSetting> settings = {{"mask", mask}, {"count", std::max<int64_t>(1, count)}};
  Location place = getLoc(settings, getNestedKeys(composite, side), true);
  NamedAttrList own = getSide(side, names);
  if (failed(dropUncountedDistances(side, own))) {
    return appender.fail();
  }
  if (count > 0) {
    last = appender.add("layers", {place, paths.next()}, last, settings, own);
  } else {
    appender.verify("layers", {place, ""}, last, settings, own);
  }
}

void StageList::addBlocks(int64_t count, int64_t size) {
  addLayers(count, "local",
            MaskAttr::get(composite->getContext(), MaskShape::block, size - 1, size));
}

void StageList::addNorm(StringRef side) {
  NamedAttrList settings = getSide(side, {"norm", "epsilon", "placement"});
  auto placement = dyn_cast_or_null<NormPlacementAttr>(settings.erase("placement"));
  if (!placement || placement.getValue() == NormPlacement::pre) {
    Location place = getLoc({}, getNestedKeys(composite, side), true);
    last = appender.add("norm", {place, paths.next()}, last, {}, settings);
  }
}

Value StageList::addBoundaries(Value input, DictionaryAttr own, DictionaryAttr ownKeys,
                               ArrayRef<StageSetting> settings) {
  SmallVector<StageSetting> others;
  llvm::copy_if(settings, std::back_inserter(others),
                [&](const StageSetting &setting) { return !own || !own.get(setting.key); });
  NamedAttrList attributes(own ? own.getValue() : ArrayRef<NamedAttribute>());
  return appender.add("boundaries", {getLoc(others, ownKeys, false), paths.next()}, input, others,
                      attributes);
}

void StageList::addAttend(Value input, Value over, Value segments, int64_t parts) {
  SmallVector<StageSetting> settings = {{"parts", parts}};
  Location place = getLoc(settings, getNestedKeys(composite, "local"), true);
  last = appender.add("attend", {place, paths.next()}, {input, over, segments}, settings,
                      getSide("local", {"heads", "head_size", "norm", "epsilon", "bias"}));
}

void StageList::resize(int64_t columns) {
  if (columns > 0) {
    add("project", {{"bias", false}, {"width", columns}});
  }
}
