// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Dialect/Spec/Keys.h"

#include <algorithm>
#include <cassert>

namespace sluice::spec {

const KeyInfo *ObjectInfo::find(std::string_view name) const {
  auto found = std::ranges::find(keys, name, &KeyInfo::name);
  return found == keys.end() ? nullptr : &*found;
}

const std::vector<ObjectInfo> &getObjects() {
  constexpr double unbounded = std::numeric_limits<double>::infinity();
  static const std::vector<ObjectInfo> objects = {
#include "sluice/Dialect/Spec/SpecKeys.inc"
  };
  return objects;
}

const ObjectInfo &getObject(std::string_view definition) {
  auto found = std::ranges::find(getObjects(), definition, &ObjectInfo::definition);
  assert(found != getObjects().end() && "not declared");
  return *found;
}

const ObjectInfo *findStage(std::string_view word) {
  auto found = std::ranges::find_if(getObjects(), [&](const ObjectInfo &object) {
    return object.isStage && object.word == word;
  });
  return found == getObjects().end() ? nullptr : &*found;
}

} // namespace sluice::spec
