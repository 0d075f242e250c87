// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The table of relations: the one place that says what ops read.
#include "Graph.h"

#include <algorithm>
#include <numeric>

using namespace certify;

std::string Value::spell() const {
  static const char *const names[] = {
      "tokens",          "embed",     "position",       "map",          "norm",
      "linear",          "attention", "segment counts", "segment ends", "pool_segments",
      "select_segments", "shift",     "shorten",        "fold",         "upsample",
      "unfold",          "start",     "spread_segments"};
  std::string name = names[static_cast<size_t>(kind)];
  if (kind == Kind::Attention) {
    std::string ends = " " + std::to_string(mask.begin) + " " + std::to_string(mask.end);
    return name +
           (mask.kind == Mask::Causal          ? " causal"
            : mask.kind == Mask::Complete      ? " complete"
            : mask.kind == Mask::Bidirectional ? " bidirectional"
            : mask.kind == Mask::Tokens        ? " tokens" + ends
            : mask.kind == Mask::Block         ? " block" + ends
                                               : " window" + ends) +
           (mask.step > 1 ? " step " + std::to_string(mask.step) : "") +
           (mask.from > 0 ? " from " + std::to_string(mask.from) : "");
  }
  bool isApart = window != 0 && window != number;
  return kind < Kind::Shift ? name
                            : name + " " + std::to_string(number) +
                                  (isApart ? " window " + std::to_string(window) : "");
}

void certify::settleMask(Value &value) {
  Mask &mask = value.mask;
  int64_t common = std::gcd(value.factor, value.keyFactor);
  int64_t a = value.factor / common, b = value.keyFactor / common;
  if (mask.kind == Mask::Complete && a == b) {
    mask.kind = Mask::Causal;
  }
  if (mask.kind != Mask::Tokens) {
    return;
  }
  mask.begin = (mask.begin + common - 1) / common;
  mask.end = (mask.end + common - 1) / common;
  int64_t begin = mask.begin + b - a, end = mask.end + b - a; // b times those of a window in keys
  if (begin >= 0 && begin % b == 0 && end % b == 0) {
    begin /= b;
    end = begin + (end / b - begin) / mask.step * mask.step; // whole groups
    mask = {Mask::Window, begin, end, mask.from, mask.step};
  }
}

/// Of attention's rows by distance, up to the greatest of row p: its own row in steps of distance,
/// or under `complete` the distance of its end from the first key's end.
static Relation relationOfDistances(const Value &value) {
  int64_t common = std::gcd(value.factor, value.keyFactor);
  int64_t a = value.factor / common, b = value.keyFactor / common;
  return {Relation::Earlier, 0, 0, a, 1, value.mask.kind == Mask::Complete ? a - b : 0};
}

/// Of attention, with the scales' factors in lowest terms.
static Relation relationOfMask(const Value &value) {
  int64_t common = std::gcd(value.factor, value.keyFactor);
  int64_t a = value.factor / common, b = value.keyFactor / common;
  int64_t begin = value.mask.begin, end = value.mask.end;
  switch (value.mask.kind) {
  case Mask::Causal:
    return {Relation::Earlier, 0, 0, a, b};
  case Mask::Complete: // b (q + 1) <= a (p + 1)
    return {Relation::Earlier, 0, 0, a, b, a - b};
  case Mask::Window: // m - end < q <= m - begin; of a step of s rows the first is m - end + s
    return {Relation::Window, 0, 0, a, b, -b * begin, -b * (end - value.mask.step)};
  case Mask::Block: // the longest one of each row, which demands more
    return {Relation::Window, 0, 0, a, b, 0, 1 - end};
  case Mask::Tokens: // a (p + 1) - end < b (q + 1) <= a (p + 1) - begin
    return {Relation::Window, 0, 0, a, b, a - b - begin, a - end};
  default:
    return {Relation::All};
  }
}

static Relation relationOfKeys(const Value &value) {
  Relation relation = relationOfMask(value);
  relation.from = value.mask.from;
  relation.step = value.mask.step;
  return relation;
}

Relation certify::relationOf(const Value &value, size_t operand) {
  switch (value.kind) {
  case Kind::Shift:
  case Kind::Start: // its own rows stand where there is none
    return {Relation::Shifted, value.number};
  case Kind::Shorten:
  case Kind::Fold:
    return {Relation::Group, value.number, value.window == 0 ? value.number : value.window};
  case Kind::Upsample:
  case Kind::Unfold:
    return {Relation::Divided, value.number};
  case Kind::Attention:
    // A query, and one of positions, is its own row; keys and values are masked.
    return operand == 0 || operand == 3 ? Relation{Relation::Same}
           : operand == 4               ? relationOfDistances(value)
                                        : relationOfKeys(value);
  case Kind::Counts: // bits up to its own
    return {Relation::Earlier};
  case Kind::Pool: // the ends before and at it
    return {Relation::Window, 0, 0, 1, 1, 0, -1};
  default:
    return {Relation::Same};
  }
}

bool certify::isUnread(const Value &value, size_t operand) {
  return (value.kind == Kind::Pool && operand == 2) ||
         (value.kind == Kind::Select && operand == 1) ||
         (value.kind == Kind::Spread && operand == 2);
}

bool certify::isReadThroughEnds(const Value &value, size_t operand) {
  return value.kind == Kind::Ends || (value.kind == Kind::Pool && operand < 2) ||
         ((value.kind == Kind::Select || value.kind == Kind::Spread) && operand == 0);
}

int64_t certify::floorDivide(int64_t x, int64_t y) { return x / y - (x % y < 0 ? 1 : 0); }

int64_t Relation::firstRow() const {
  return std::max<int64_t>(0, -floorDivide(offset - keyFactor * from, queryFactor));
}

std::optional<int64_t> Relation::firstOf(int64_t p) const {
  return kind == Window ? std::optional(floorDivide(queryFactor * p + earliest, keyFactor))
         : kind == Earlier || kind == All ? std::nullopt
         : kind == Group                  ? std::optional(number * (p + 1) - window)
                                          : lastOf(p);
}

std::optional<int64_t> Relation::lastOf(int64_t p) const {
  switch (kind) {
  case Shifted:
    return p - number;
  case Earlier:
  case Window:
    return floorDivide(queryFactor * p + offset, keyFactor);
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
  bool isThere = (!first || *first <= q) && (!last || q <= *last);
  return isThere && (!isOfAttention() || (q >= from && (step == 1 || (*last - q) % step == 0)));
}

std::optional<std::pair<int64_t, int64_t>> Relation::findSample() const {
  if (kind == Group) {
    return std::pair(int64_t{0}, number - 1);
  }
  // Shifts start to read at p = number.
  int64_t p = isOfAttention() ? firstRow() : contains(0, 0) ? 0 : number;
  // A window may be empty for some rows; what it holds of keys repeats after `keyFactor` rows.
  for (int64_t last = p + keyFactor; p < last; ++p) {
    int64_t q = isOfAttention() ? std::max(from, lastOf(p).value_or(0)) : 0;
    if (contains(p, q)) {
      return std::pair(p, q);
    }
  }
  return std::nullopt;
}
