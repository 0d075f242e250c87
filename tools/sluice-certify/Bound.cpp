// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Functions of one variable: read, evaluated, compared.
//
// Each candidate c repeats with a rise: c(p + period) = c(p) + rise, for every integer p. So along
// the points r + period t of one residue it is a line in t, and "left is above -1 and above every
// candidate of the right" is an interval of t. One period of residues decides, not one of points:
// max(p - 10, 0) <= max(p - 11, 0) holds up to 10 and fails at 11.
// Longer periods (several coprime factors) take elimination with floors as integers (Graph.cpp).
#include "Bound.h"
#include "Certify.h"
#include "Graph.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <ranges>

using namespace certify;

namespace {

/// Maximum number of residues to try for one question: about 0.1 s.
constexpr int64_t longestPeriod = int64_t{1} << 21;
/// Maximum number of terms of a bound, which also limits its nesting.
constexpr int mostTerms = 256;

int64_t times(int64_t x, int64_t y) { return plus(0, x, y); }

/// c(p + period) = c(p) + rise; a period of 0 if it is longer than `longestPeriod`.
struct BoundShape {
  int64_t period = 1, rise = 0;
};

BoundShape stretched(const BoundShape &shape, int64_t repeats) {
  bool isLong = shape.period == 0 || shape.period > longestPeriod / repeats;
  return isLong ? BoundShape{0, 0} : BoundShape{shape.period * repeats, times(shape.rise, repeats)};
}

/// Returns x over a common period of both.
BoundShape aligned(const BoundShape &x, const BoundShape &y) {
  return y.period == 0 ? y : stretched(x, y.period / std::gcd(x.period, y.period));
}

const std::string withEnds =
    "expected a bound without ends of segments here, found one with e(...)";
const std::string longPeriod = "a limit of this checker: a period of more than " +
                               std::to_string(longestPeriod) + " positions is not enumerated";

BoundShape findShape(const Expression &expression) {
  if (expression.parts.empty()) {
    return {1, expression.kind == Expression::Variable ? 1 : 0};
  }
  BoundShape x = findShape(expression.parts[0]);
  if (expression.kind == Expression::Sum) {
    BoundShape y = findShape(expression.parts[1]), sum = aligned(x, y);
    return {sum.period, plus(sum.rise, aligned(y, x).rise)};
  }
  if (expression.kind == Expression::Multiple) {
    return {x.period, times(x.rise, expression.number)};
  }
  demand(expression.kind < Expression::End, withEnds);
  x = stretched(x, expression.number / std::gcd(expression.number, x.rise));
  return {x.period, x.rise / expression.number};
}

} // namespace

int64_t certify::plus(int64_t x, int64_t y, int64_t factor) {
  int64_t product, sum;
  if (__builtin_mul_overflow(y, factor, &product) || __builtin_add_overflow(x, product, &sum)) {
    throw Refusal("numbers too large to compute with");
  }
  return sum;
}

Expression certify::makeVariable() { return {Expression::Variable, 0, {}}; }
Expression certify::makeLinear(int64_t slope, int64_t constant) {
  Expression multiple = {Expression::Multiple, slope, {makeVariable()}};
  return {Expression::Sum, 0, {multiple, {Expression::Constant, constant, {}}}};
}
Expression certify::makeFloor(Expression inner, int64_t divisor) {
  return divisor == 1 ? inner : Expression{Expression::Floor, divisor, {std::move(inner)}};
}

int64_t Expression::at(int64_t p) const {
  demand(kind < End, withEnds);
  int64_t first = parts.empty() ? 0 : parts[0].at(p);
  return kind == Constant   ? number
         : kind == Variable ? p
         : kind == Sum      ? plus(first, parts[1].at(p))
         : kind == Multiple ? times(number, first)
                            : floorDivide(first, number);
}

Expression Expression::of(const Expression &inner) const {
  if (kind == Variable) {
    return inner;
  }
  Expression result = *this;
  for (Expression &part : result.parts) {
    part = part.of(inner);
  }
  return result;
}

int64_t Bound::at(int64_t p) const {
  int64_t result = -1;
  for (const Expression &candidate : candidates) {
    result = std::max(result, candidate.at(p));
  }
  return result;
}

Bound Bound::of(const Expression &inner) const {
  Bound result;
  for (const Expression &candidate : candidates) {
    result.candidates.push_back(candidate.of(inner));
  }
  return result;
}

Bound Line::bound() {
  Bound result;
  need("max(-1");
  while (accept(", ")) {
    result.candidates.push_back(sum());
  }
  need(")");
  finish();
  return result;
}

void Line::fail(const std::string &expected) const {
  throw Refusal("expected " + expected + ", found '" + text.substr(at, 20) + "'");
}

bool Line::accept(const std::string &word) {
  bool there = isNext(word);
  at += there ? word.size() : 0;
  return there;
}

int64_t Line::natural() {
  size_t start = at;
  int64_t value = 0;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
    value = plus(times(value, 10), text[at] - '0');
  }
  if (at == start || (text[start] == '0' && at > start + 1)) {
    fail("a number");
  }
  return value;
}

std::string Line::word() {
  size_t start = at;
  at = std::min(text.find(' ', at), text.size());
  return text.substr(start, at - start);
}

Expression Line::sum() {
  Expression result = term(accept("-"));
  while (isNext(" + ") || isNext(" - ")) {
    bool subtracts = accept(" - ") || !accept(" + ");
    result = {Expression::Sum, 0, {result, term(subtracts)}};
  }
  return result;
}

Expression Line::term(bool negative) {
  demand(++terms <= mostTerms, "more than " + std::to_string(mostTerms) + " terms in a line");
  Expression result;
  if (text[at] >= '0' && text[at] <= '9') {
    int64_t number = natural();
    result = accept("*") ? Expression{Expression::Multiple, number, {atom()}}
                         : Expression{Expression::Constant, number, {}};
  } else {
    result = atom();
  }
  return negative ? Expression{Expression::Multiple, -1, {result}} : result;
}

Expression Line::atom() {
  if (accept("p")) {
    return makeVariable();
  }
  using E = Expression;
  E::Kind kind = accept("e") ? E::End : accept("c") ? E::Count : E::Floor; // (x) is floor(x/1)
  bool divides = kind == E::Floor && accept("floor");
  int64_t number = kind == E::Floor ? 1 : natural();
  need("(");
  Expression inner = sum();
  number = divides && (need("/"), true) ? natural() : number;
  need(")");
  if (number < 1 && divides) {
    fail("a divisor of at least 1 before this");
  }
  return kind == E::Floor ? makeFloor(inner, number) : Expression{kind, number, {inner}};
}

int64_t certify::floorDivide(int64_t x, int64_t y) { return x / y - (x % y < 0 ? 1 : 0); }

bool certify::hasEnds(const std::vector<Expression> &parts) {
  return std::any_of(parts.begin(), parts.end(), [](const Expression &part) {
    return part.kind == Expression::End || part.kind == Expression::Count || hasEnds(part.parts);
  });
}

int64_t certify::computePeriod(const Expression &function) {
  BoundShape shape = findShape(function);
  demand(shape.period > 0, longPeriod);
  return shape.period;
}

bool certify::isSameFunction(const Expression &x, const Expression &y) {
  if (x == y || hasEnds({x, y})) {
    return x == y;
  }
  int64_t period = computePeriod({Expression::Sum, 0, {x, y}});
  return std::ranges::all_of(std::views::iota(int64_t{0}, period + 1),
                             [&](int64_t p) { return x.at(p) == y.at(p); });
}

int64_t certify::firstAtLeast(const Expression &function, int64_t least) {
  int64_t from = 0, next = 1;
  for (; function.at(next - 1) < least; next *= 2) {
    demand(next <= int64_t{1} << 40, vacuous);
  }
  for (; next > 0; next /= 2) {
    from += function.at(from + next - 1) < least ? next : 0;
  }
  return from;
}

/// Returns true if no part of a function falls. May miss a function whose falls cancel out.
static bool isBuiltOfRising(const Expression &function) {
  bool isRising = function.kind <= Expression::Floor &&
                  (function.kind != Expression::Multiple || function.number >= 0);
  return isRising && std::all_of(function.parts.begin(), function.parts.end(), isBuiltOfRising);
}

bool certify::isNonDecreasing(const Bound &bound) {
  return std::ranges::all_of(bound.candidates, [](const Expression &c) {
    auto rises = [&](int64_t p) { return c.at(p) <= c.at(p + 1); };
    return isBuiltOfRising(c) ||
           std::ranges::all_of(std::views::iota(int64_t{0}, computePeriod(c)), rises);
  });
}

std::optional<int64_t> certify::findAbove(const Bound &left, const Bound &right, bool everywhere) {
  for (const Expression &candidate : left.candidates) {
    // All at least 0 iff the candidate exceeds -1 and every candidate of the right.
    std::vector<Expression> conditions = {candidate};
    for (const Expression &other : right.candidates) {
      conditions.push_back({Expression::Sum, 0, {candidate, makeLinear(-1, -1).of(other)}});
    }
    BoundShape all;
    for (const Expression &condition : conditions) {
      all = aligned(all, findShape(condition));
    }
    int64_t period = all.period; // 0 if it is too long to enumerate
    if (period == 0) {
      demand(isNeverAbove({{candidate}}, right, everywhere),
             longPeriod + ", and elimination does not show that the obligation holds");
      continue;
    }
    for (int64_t r = 0; r < period; ++r) {
      // The t for which all conditions hold at r + period t.
      int64_t first = everywhere ? std::numeric_limits<int64_t>::min() : 0;
      int64_t last = std::numeric_limits<int64_t>::max();
      bool isNone = false;
      for (const Expression &condition : conditions) {
        int64_t here = condition.at(r), slope = plus(condition.at(r + period), here, -1);
        if (slope > 0) { // t >= ceil(-here / slope)
          first = std::max(first, times(floorDivide(here, slope), -1));
        } else if (slope < 0 || here < 0) { // t <= floor(here / -slope), or none
          isNone |= slope == 0;
          last = slope == 0 ? last : std::min(last, floorDivide(here, times(slope, -1)));
        }
      }
      if (first <= last && !isNone) {
        return plus(r, times(period, std::clamp<int64_t>(0, first, last)));
      }
    }
  }
  return std::nullopt;
}
