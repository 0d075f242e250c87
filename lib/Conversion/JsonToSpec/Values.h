// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads a spec by the declarations of keys in the spec dialect. All functions throw Failure.
#pragma once

#include "../../Spec/Fields.h"
#include "sluice/Dialect/Spec/Keys.h"
#include "sluice/Dialect/Spec/Spec.h"

namespace sluice::spec {

/// Places of the keys that were read, by dotted names. A later place of a key replaces an earlier
/// one.
class Places {
public:
  Places(mlir::MLIRContext *context, const std::string &file) : context(context), file(file) {}
  void add(llvm::StringRef key, Position position) {
    places.set(key, mlir::LocationAttr(locate(position)));
  }
  mlir::Location locate(Position position) const {
    return mlir::FileLineColLoc::get(context, file, position.line, position.column);
  }
  mlir::DictionaryAttr get() const { return places.getDictionary(context); }

private:
  mlir::MLIRContext *context;
  const std::string &file;
  mlir::NamedAttrList places;
};

/// Reads values of keys into attributes.
class ValueReader {
public:
  ValueReader(mlir::MLIRContext *context, const std::string &file) : builder(context), file(file) {}
  void setDefaults(const Fields *fields) { defaults = fields; }

  /// Returns the attributes of an object's keys. Names of places begin with `prefix`, "local." for
  /// example. If `isPartial`, no key is required.
  mlir::NamedAttrList readKeys(const Fields &fields, const ObjectInfo &object, Places &places,
                               const std::string &prefix = "", bool isPartial = false);
  /// Throws if a key is missing that the declaration requires.
  static void requireKey(const Fields &fields, const KeyInfo &key);

private:
  mlir::Attribute readValue(const Fields &fields, const KeyInfo &key, const JsonValue &value,
                            Places &places, const std::string &path);
  mlir::Attribute readWord(const Fields &fields, const KeyInfo &key) const;
  mlir::Attribute readSpecial(const Fields &fields, const KeyInfo &key, const JsonValue &value,
                              Places &places, const std::string &path);
  MaskAttr readMask(const Fields &fields, const KeyInfo &key, const JsonValue &value) const;
  mlir::Attribute readNumbers(const Fields &fields, const KeyInfo &key, const JsonValue &value,
                              Places &places, const std::string &path) const;
  mlir::Attribute readRotary(const Fields &fields, const JsonValue &value) const;
  mlir::Attribute readRelative(const Fields &fields, const KeyInfo &key,
                               const JsonValue &value) const;
  mlir::Attribute readLsh(const Fields &fields, const JsonValue &value) const;
  mlir::Attribute readScales(const Fields &fields, const JsonValue &value, Places &places,
                             const std::string &path) const;
  mlir::Attribute readSources(const Fields &fields, const JsonValue &value, Places &places,
                              const std::string &path) const;
  mlir::Attribute readMoving(const Fields &fields, const KeyInfo &key,
                             const JsonValue &value) const;
  mlir::Attribute readHierarchy(const Fields &fields, const KeyInfo &key, const JsonValue &value,
                                Places &places, const std::string &path) const;
  mlir::Attribute readCounts(const Fields &fields, const KeyInfo &key, const JsonValue &value,
                             Places &places, const std::string &path, int level = 1) const;
  mlir::Attribute readBoundaries(const Fields &fields, const JsonValue &value, Places &places,
                                 const std::string &path);
  mlir::Attribute readLayerObject(const Fields &fields, const KeyInfo &key, const JsonValue &value,
                                  Places &places, const std::string &path);

  mutable mlir::Builder builder;
  const std::string &file;
  const Fields *defaults = nullptr;
};

/// Returns the names of an object's keys.
std::vector<std::string_view> getKeyNames(const ObjectInfo &object);

} // namespace sluice::spec
