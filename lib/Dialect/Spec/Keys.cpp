// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Dialect/Spec/Keys.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <sstream>

namespace sluice::spec {

bool Interval::contains(double x) const {
  return (withLeast ? x >= least : x > least) && (withLargest ? x <= largest : x < largest);
}

bool Interval::containsInF32(double x) const {
  double held = roundToF32(x);
  return !std::isinf(held) && (held != 0 || x == 0) && contains(held);
}

std::string Interval::describe() const {
  std::ostringstream text;
  text << "a number " << (withLeast ? ">= " : "> ") << least;
  if (!std::isinf(largest)) {
    text << " and " << (withLargest ? "<= " : "< ") << largest;
  }
  return text.str();
}

double roundToF32(double x) {
  constexpr double largest = std::numeric_limits<float>::max();
  // The conversion of a number out of range is undefined; half a unit beyond, it would round down.
  return std::fabs(x) > largest ? std::copysign(std::numeric_limits<double>::infinity(), x)
                                : static_cast<double>(static_cast<float>(x));
}

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
