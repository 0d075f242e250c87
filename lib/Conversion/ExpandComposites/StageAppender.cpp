// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "StageAppender.h"

#include "sluice/Conversion/CreateStage.h"
#include "sluice/Dialect/Spec/Keys.h"
#include "sluice/Dialect/Spec/VerifyModel.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::spec;

std::string InsidePaths::next() {
  return prefix.empty() ? "" : prefix + ".inside." + std::to_string(count++);
}

bool StageSetting::isAbsent() const {
  const auto *attribute = std::get_if<Attribute>(&value);
  const auto *number = std::get_if<int64_t>(&value);
  return (attribute && !*attribute) || (number && *number == 0 && key == "width");
}

std::string spec::getPath(Operation *stage) {
  StringAttr path = cast<StageInterface>(stage).getPathAttr();
  return path ? path.str() : "";
}

Location spec::getInsideLoc(Operation *composite, StringRef key) {
  auto fused = dyn_cast<FusedLoc>(composite->getLoc());
  auto keys = fused ? dyn_cast_or_null<DictionaryAttr>(fused.getMetadata()) : DictionaryAttr();
  return keys ? getStageLoc(getKeyLoc(composite, key), keys) : composite->getLoc();
}

NamedAttrList spec::getLayerSettings(Operation *stage) {
  NamedAttrList settings;
  for (const KeyInfo &key : getObject("DefaultsSection").keys) {
    if (Attribute value = getKeyValue(stage, StringRef(key.attribute))) {
      settings.set(StringRef(key.attribute), value);
    }
  }
  return settings;
}

NamedAttrList spec::getNormSettings(Operation *stage) {
  NamedAttrList settings;
  for (StringRef key : {"norm", "epsilon"}) {
    if (Attribute value = getKeyValue(stage, key)) {
      settings.set(key, value);
    }
  }
  return settings;
}

LogicalResult spec::verifyRoom(Location location, int64_t stages) {
  if (stages < static_cast<int64_t>(mostStages)) {
    return success();
  }
  auto fused = dyn_cast<FusedLoc>(location); // a place with the places of keys
  return emitError(fused ? fused.getLocations().front() : location)
         << "expected a model of at most " << mostStages
         << " stages once expanded, found more; use fewer layers";
}

/// Returns the attribute for the value of a key.
static Attribute getAttribute(Builder b, const KeyInfo &key, const StageSetting &setting) {
  if (const auto *number = std::get_if<int64_t>(&setting.value)) {
    return b.getI64IntegerAttr(*number);
  }
  if (const auto *flag = std::get_if<bool>(&setting.value)) {
    return b.getBoolAttr(*flag);
  }
  if (const auto *word = std::get_if<StringRef>(&setting.value)) {
    return key.kind == KeyKind::Word
               ? getWordAttr(b.getContext(), StringRef(key.enumeration), *word)
               : b.getStringAttr(*word);
  }
  return std::get<Attribute>(setting.value);
}

Operation *StageAppender::create(StringRef word, const StageSite &site, ValueRange operands,
                                 ArrayRef<StageSetting> settings, const NamedAttrList &own) {
  const ObjectInfo &stage = *findStage(word);
  NamedAttrList attributes = own;
  for (const StageSetting &setting : settings) {
    if (!setting.isAbsent()) {
      const KeyInfo &key = *stage.find(setting.key);
      attributes.set(StringRef(key.attribute), getAttribute(rewriter, key, setting));
    }
  }
  if (!site.path.empty()) {
    attributes.set("path", rewriter.getStringAttr(site.path));
  }
  if (cast<StageInterface>(composite).getFrozen()) {
    attributes.set("frozen", rewriter.getUnitAttr());
  }
  if (StringAttr share = cast<StageInterface>(composite).getShareAttr()) {
    attributes.set("share", share);
  }
  return createStage(rewriter, site.location, word, operands, attributes.getAttrs());
}

Value StageAppender::add(StringRef word, const StageSite &site, ValueRange operands,
                         ArrayRef<StageSetting> settings, const NamedAttrList &own) {
  isFailed = isFailed || failed(verifyRoom(site.location, stages++));
  Operation *made = isFailed ? nullptr : create(word, site, operands, settings, own);
  isFailed = !made;
  return made && made->getNumResults() > 0 ? made->getResult(0) : operands.front();
}

void StageAppender::verify(StringRef word, const StageSite &site, ValueRange operands,
                           ArrayRef<StageSetting> settings, const NamedAttrList &own) {
  Operation *made = isFailed ? nullptr : create(word, site, operands, settings, own);
  isFailed = !made;
  if (made) {
    rewriter.eraseOp(made);
  }
}

LogicalResult StageAppender::replaceBy(Value result) {
  if (isFailed) {
    return failure();
  }
  SmallVector<Value> results = {result};
  for (Value inside : llvm::drop_begin(composite->getResults())) {
    StringAttr name = cast<SegmentationType>(inside.getType()).getName();
    Operation *made = composite->getPrevNode(); // the nearest stage of this name is inside
    while (!isa<BoundariesOp>(made) || cast<BoundariesOp>(made).getNameAttr() != name) {
      made = made->getPrevNode();
    }
    results.push_back(made->getResult(0));
  }
  rewriter.replaceOp(composite, results);
  return success();
}

NamedAttrList InsideStages::getBidirectionalSettings() {
  NamedAttrList settings = getLayerSettings(composite);
  settings.set("mask", MaskAttr::get(composite->getContext(), MaskShape::bidirectional, 0, 0));
  return settings;
}
