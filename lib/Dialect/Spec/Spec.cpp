// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Implements the spec dialect: registration and the places of keys.
#include "Layers.h"
#include "StageChecks.h"
#include "VerifyStage.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::spec;

#include "sluice/Dialect/Spec/SpecDialect.cpp.inc"
#include "sluice/Dialect/Spec/SpecEnums.cpp.inc"
#include "sluice/Dialect/Spec/SpecInterfaces.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "sluice/Dialect/Spec/SpecTypes.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "sluice/Dialect/Spec/SpecAttributes.cpp.inc"

#define GET_OP_CLASSES
#include "sluice/Dialect/Spec/SpecOps.cpp.inc"

void SpecDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "sluice/Dialect/Spec/SpecOps.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "sluice/Dialect/Spec/SpecTypes.cpp.inc"
      >();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "sluice/Dialect/Spec/SpecAttributes.cpp.inc"
      >();
}

static Attribute makeWordAttr(MLIRContext *context, StringRef enumName, StringRef word) {
#include "sluice/Dialect/Spec/SpecWords.inc"
  return nullptr;
}

Attribute spec::getWordAttr(MLIRContext *context, StringRef enumeration, StringRef word) {
  std::string name = word.str();
  std::replace(name.begin(), name.end(), '-', '_');
  return makeWordAttr(context, enumeration, name);
}

//===----------------------------------------------------------------------===//
// Places of keys
//===----------------------------------------------------------------------===//

static DictionaryAttr getKeys(Location location) {
  auto fused = dyn_cast<FusedLoc>(location);
  return fused ? dyn_cast_or_null<DictionaryAttr>(fused.getMetadata()) : DictionaryAttr();
}

static Location getPlace(Location location) {
  auto fused = dyn_cast<FusedLoc>(location);
  return fused && getKeys(location) ? fused.getLocations().front() : location;
}

Location spec::getStageLoc(Location place, DictionaryAttr keys) {
  return FusedLoc::get({getPlace(place)}, keys, place.getContext());
}

bool spec::isWritten(Operation *op, StringRef key) {
  DictionaryAttr keys = getKeys(op->getLoc());
  return keys && keys.contains(key);
}

Attribute spec::getKeyValue(Operation *stage, StringRef key) { return stage->getAttr(key); }

Location spec::getKeyLoc(Operation *op, StringRef key) {
  DictionaryAttr keys = getKeys(op->getLoc());
  Attribute place = keys ? keys.get(key) : Attribute();
  return place ? Location(cast<LocationAttr>(place)) : getPlace(op->getLoc());
}

bool spec::isInherited(Operation *op, StringRef key) {
  std::string inDefaults = ("defaults." + key.split('.').second).str();
  return isWritten(op, inDefaults) && getKeyLoc(op, key) == getKeyLoc(op, inDefaults);
}

InFlightDiagnostic spec::emitKeyError(Operation *op, StringRef key) {
  return emitError(getKeyLoc(op, key));
}

DictionaryAttr spec::getNestedKeys(Operation *op, StringRef prefix) {
  SmallVector<NamedAttribute> nested;
  Builder b(op->getContext());
  DictionaryAttr keys = getKeys(op->getLoc());
  for (NamedAttribute key : keys ? keys.getValue() : ArrayRef<NamedAttribute>()) {
    StringRef name = key.getName();
    if (name.consume_front(prefix) && name.consume_front(".")) {
      nested.push_back(b.getNamedAttr(name, key.getValue()));
    }
  }
  return b.getDictionaryAttr(nested);
}

std::string spec::describePlace(Location location) {
  auto place = dyn_cast<FileLineColLoc>(getPlace(location));
  return place ? (place.getFilename().getValue() + ":" + Twine(place.getLine()) + ":" +
                  Twine(place.getColumn()))
                     .str()
               : "an unknown place";
}

std::string spec::describeStream(Value stream) {
  auto type = cast<StreamType>(stream.getType());
  Operation *stage = stream.getDefiningOp();
  StringRef name = type.getName() ? type.getName().getValue() : StringRef();
  std::string result = "the result of the " + stage->getName().stripDialect().str() + " stage at " +
                       describePlace(stage->getLoc());
  switch (type.getAxis()) {
  case AxisKind::tokens:
    return result + ", on scale " + std::to_string(type.getFactor());
  case AxisKind::input:
    return result +
           (getModel(stage).findInput(name) ? ", on the axis of the input \""
                                            : ", on segments of an input, \"") +
           name.str() + "\"" +
           (type.getFactor() > 1 ? " by " + std::to_string(type.getFactor()) : "");
  case AxisKind::segments:
    return result + ", on segments \"" + name.str() + "\"" +
           (type.getFactor() > 1 ? " by " + std::to_string(type.getFactor()) : "");
  }
  llvm_unreachable("unknown axis");
}
