// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The table of relations: the one place that says what ops read.
#include "Graph.h"

using namespace certify;

std::string Value::spell() const {
  static const char *const names[] = {"tokens",  "embed",  "position",  "map",
                                      "norm",    "linear", "attention", "shift",
                                      "shorten", "fold",   "upsample",  "unfold"};
  std::string name = names[static_cast<size_t>(kind)];
  if (kind == Kind::Attention) {
    std::string ends = " " + std::to_string(mask.begin) + " " + std::to_string(mask.end);
    return name + (mask.kind == Mask::Causal          ? " causal"
                   : mask.kind == Mask::Bidirectional ? " bidirectional"
                                                      : " window" + ends);
  }
  return kind < Kind::Shift ? name : name + " " + std::to_string(number);
}

Relation certify::relationOf(const Value &value, size_t operand) {
  switch (value.kind) {
  case Kind::Shift:
    return {Relation::Shifted, value.number};
  case Kind::Shorten:
  case Kind::Fold:
    return {Relation::Group, value.number};
  case Kind::Upsample:
  case Kind::Unfold:
    return {Relation::Divided, value.number};
  case Kind::Attention:
    if (operand == 0) { // a query is its own row; keys and values are masked
      return {Relation::Same};
    }
    return value.mask.kind == Mask::Causal ? Relation{Relation::Earlier}
           : value.mask.kind == Mask::Window
               ? Relation{Relation::Window, value.mask.begin, value.mask.end}
               : Relation{Relation::All};
  default:
    return {Relation::Same};
  }
}

int64_t certify::floorDivide(int64_t x, int64_t y) { return x / y - (x % y < 0 ? 1 : 0); }

std::optional<int64_t> Relation::firstOf(int64_t p) const {
  return isOfAttention() ? kind == Window ? std::optional(p - end + 1) : std::nullopt
         : kind == Group ? std::optional(number * p)
                         : lastOf(p);
}

std::optional<int64_t> Relation::lastOf(int64_t p) const {
  switch (kind) {
  case Shifted:
  case Window:
    return p - number;
  case Group:
    return number * p + number - 1;
  case Divided:
    return floorDivide(p, number);
  case All:
    return std::nullopt;
  default:
    return p;
  }
}

bool Relation::contains(int64_t p, int64_t q) const {
  std::optional<int64_t> first = firstOf(p), last = lastOf(p);
  return (!first || *first <= q) && (!last || q <= *last) && (!isOfAttention() || q >= 0);
}

std::optional<std::pair<int64_t, int64_t>> Relation::findSample() const {
  // Shifts and windows start to read at p = number.
  for (int64_t p : {int64_t{0}, number}) {
    if (contains(p, 0)) {
      return std::pair(p, int64_t{0});
    }
  }
  return std::nullopt;
}
