// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The table of relations: the one place that says what ops read.
#include "Graph.h"

#include <algorithm>
#include <numeric>

using namespace certify;

std::string Value::spell() const {
  static const char *const names[] = {"tokens",
                                      "embed",
                                      "position",
                                      "map",
                                      "norm",
                                      "linear",
                                      "attention",
                                      "segment counts",
                                      "segment ends",
                                      "pool_segments",
                                      "select_segments",
                                      "attend_segments",
                                      "shift",
                                      "shorten",
                                      "fold",
                                      "upsample",
                                      "unfold",
                                      "start",
                                      "spread_segments"};
  static const char *const masks[] = {" causal", " complete", " window",
                                      " tokens", " block",    " bidirectional"};
  std::string spelled = names[static_cast<size_t>(kind)];
  auto append = [&](bool isSaid, const std::string &what, int64_t x) {
    spelled += isSaid ? what + " " + std::to_string(x) : "";
  };
  if (kind == Kind::Attention) {
    bool hasEnds = mask.kind >= Mask::Window && mask.kind <= Mask::Block;
    spelled += masks[mask.kind];
    append(hasEnds, "", mask.begin);
    append(hasEnds, "", mask.end);
    append(mask.step > 1, " step", mask.step);
    append(mask.from > 0, " from", mask.from);
  }
  append(kind >= Kind::Shift, "", number);
  append(kind >= Kind::Shift && window != 0 && window != number, " window", window);
  return spelled;
}

/// Factors of the queries' and of the keys' scale.
static std::pair<int64_t, int64_t> lowestTerms(const Value &attention) {
  int64_t common = std::gcd(attention.factor, attention.keyFactor);
  return {attention.factor / common, attention.keyFactor / common};
}

void certify::settleMask(Value &value) {
  Mask &mask = value.mask;
  auto [a, b] = lowestTerms(value);
  if (mask.kind == Mask::Complete && a == b) {
    mask.kind = Mask::Causal;
  }
  if (mask.kind != Mask::Tokens) {
    return;
  }
  int64_t common = value.factor / a;
  mask.begin = (mask.begin + common - 1) / common;
  mask.end = (mask.end + common - 1) / common;
  int64_t begin = mask.begin + b - a, end = mask.end + b - a; // b times those of a window in keys
  if (begin >= 0 && begin % b == 0 && end % b == 0) {
    begin /= b;
    end = begin + (end / b - begin) / mask.step * mask.step; // whole groups
    mask = {Mask::Window, begin, end, mask.from, mask.step};
  }
}

/// Of attention's keys; or of its rows by distance, up to the greatest of row p: its own row in
/// steps of distance, or under `complete` the distance of its end from the first key's end.
static Relation relationOfMask(const Value &value, bool byDistance) {
  const Mask &mask = value.mask;
  auto [a, b] = lowestTerms(value);
  if (byDistance) {
    return {Relation::Earlier, a, 1, mask.kind == Mask::Complete ? a - b : 0};
  }
  Relation relation = {Relation::Window, a, b, 0, 0, mask.from, mask.step};
  switch (mask.kind) {
  case Mask::Causal:
    relation.kind = Relation::Earlier;
    break;
  case Mask::Complete: // b (q + 1) <= a (p + 1)
    relation.kind = Relation::Earlier;
    relation.offset = a - b;
    break;
  case Mask::Window: // m - end < q <= m - begin; of a step of s rows the first is m - end + s
    relation.offset = -b * mask.begin;
    relation.earliest = -b * (mask.end - mask.step);
    break;
  case Mask::Block: // the longest one of each row, which demands more
    relation.earliest = 1 - mask.end;
    break;
  case Mask::Tokens: // a (p + 1) - end < b (q + 1) <= a (p + 1) - begin
    relation.offset = a - b - mask.begin;
    relation.earliest = a - mask.end;
    break;
  case Mask::Bidirectional:
    relation.kind = Relation::All;
  }
  return relation;
}

Relation certify::relationOf(const Value &value, size_t operand) {
  int64_t n = value.number;
  switch (value.kind) {
  case Kind::Shift:
  case Kind::Start: // its own rows stand where there is none
    return {Relation::One, 1, 1, -n, -n};
  case Kind::Shorten:
  case Kind::Fold: // n (p + 1) - window <= q < n (p + 1)
    return {Relation::Group, n, 1, n - 1, value.window == 0 ? 0 : n - value.window};
  case Kind::Upsample:
  case Kind::Unfold:
    return {Relation::One, 1, n};
  case Kind::Attention: // a query, and one of positions, is its own row; buckets are as keys
    return operand == 0 || (operand == 3 && value.operands.size() > 4)
               ? Relation{}
               : relationOfMask(value, operand == 4);
  case Kind::Counts: // bits up to its own
    return {Relation::Earlier};
  case Kind::Pool: // the ends before and at it
    return {Relation::Window, 1, 1, 0, -1};
  case Kind::Attend: // the same, and its own query
    return operand == 4 ? Relation{Relation::Window, 1, 1, 0, -1} : Relation{};
  default:
    return {};
  }
}

bool certify::isUnread(const Value &value, size_t operand) {
  return (value.kind == Kind::Pool && operand == 2) ||
         (value.kind == Kind::Attend && operand == 3) ||
         (value.kind == Kind::Select && operand == 1) ||
         (value.kind == Kind::Spread && operand == 2);
}

bool certify::isReadThroughEnds(const Value &value, size_t operand) {
  return value.kind == Kind::Ends || (value.kind == Kind::Pool && operand < 2) ||
         (value.kind == Kind::Attend && (operand == 1 || operand == 2)) ||
         ((value.kind == Kind::Select || value.kind == Kind::Spread) && operand == 0);
}

int64_t certify::floorDivide(int64_t x, int64_t y) { return x / y - (x % y < 0 ? 1 : 0); }

int64_t Relation::firstRow() const {
  return std::max<int64_t>(0, -floorDivide(offset - keyFactor * from, queryFactor));
}

std::optional<int64_t> Relation::firstOf(int64_t p) const {
  bool isOpen = kind == Earlier || kind == All;
  return isOpen ? std::nullopt : std::optional(floorDivide(queryFactor * p + earliest, keyFactor));
}

std::optional<int64_t> Relation::lastOf(int64_t p) const {
  return kind == All ? std::nullopt
                     : std::optional(floorDivide(queryFactor * p + offset, keyFactor));
}

bool Relation::contains(int64_t p, int64_t q) const {
  std::optional<int64_t> first = firstOf(p), last = lastOf(p);
  bool isThere = (!first || *first <= q) && (!last || q <= *last);
  return isThere && (!isOfAttention() || (q >= from && (step == 1 || (*last - q) % step == 0)));
}

std::optional<std::pair<int64_t, int64_t>> Relation::findSample() const {
  // A window may be empty for some rows; what it holds of keys repeats after `keyFactor` rows.
  for (int64_t p = firstRow(), end = p + keyFactor; p < end; ++p) {
    int64_t q = std::max(from, lastOf(p).value_or(0));
    if (contains(p, q)) {
      return std::pair(p, q);
    }
  }
  return std::nullopt;
}
