// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The table of relations: the one place that says what ops read.
#include "Graph.h"

using namespace certify;

std::string Value::spell() const {
  std::string by = " " + std::to_string(number);
  switch (kind) {
  case Kind::Tokens:
    return "tokens";
  case Kind::Embed:
    return "embed";
  case Kind::Position:
    return "position";
  case Kind::Map:
    return "map";
  case Kind::Norm:
    return "norm";
  case Kind::Linear:
    return "linear";
  case Kind::Attention:
    return mask.kind == Mask::Causal ? "attention causal"
           : mask.kind == Mask::Bidirectional
               ? "attention bidirectional"
               : "attention window " + std::to_string(mask.begin) + " " + std::to_string(mask.end);
  case Kind::Shift:
    return "shift" + by;
  case Kind::Shorten:
    return "shorten" + by;
  case Kind::Fold:
    return "fold" + by;
  case Kind::Upsample:
    return "upsample" + by;
  case Kind::Unfold:
    return "unfold" + by;
  }
  return "";
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
  switch (kind) {
  case Earlier:
  case All:
    return std::nullopt;
  case Group:
    return number * p;
  case Window:
    return p - end + 1;
  default:
    return lastOf(p);
  }
}

std::optional<int64_t> Relation::lastOf(int64_t p) const {
  switch (kind) {
  case Same:
  case Earlier:
    return p;
  case Shifted:
  case Window:
    return p - number;
  case Group:
    return number * p + number - 1;
  case Divided:
    return floorDivide(p, number);
  case All:
    return std::nullopt;
  }
  return std::nullopt;
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
