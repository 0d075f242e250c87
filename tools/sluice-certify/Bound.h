// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Bounds: max(-1, c1(p), c2(p), ...), where each c consists of sums, integer multiples and floors.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace certify {

/// Returns x + factor y. Throws Refusal if a number overflows.
int64_t plus(int64_t x, int64_t y, int64_t factor = 1);

/// A function of p: quasi-affine if it has no end of a segment.
struct Expression {
  enum Kind { Constant, Variable, Sum, Multiple, Floor, End, Count } kind = Constant;
  int64_t number = 0; ///< Constant; Multiple: by; Floor: the divisor, at least 1; End: the value
                      ///< whose row m is the end of segment m; Count: of these, how many up to it
  std::vector<Expression> parts; ///< Sum: two; Multiple, Floor, End, Count: one

  /// Throws Refusal if a number overflows, or data decides it.
  int64_t at(int64_t p) const;
  /// Returns this function of `inner`(p).
  Expression of(const Expression &inner) const;
  bool operator==(const Expression &other) const = default;
  bool operator<(const Expression &other) const {
    return std::tie(kind, number, parts) < std::tie(other.kind, other.number, other.parts);
  }
};

Expression makeVariable();
/// Returns slope p + constant.
Expression makeLinear(int64_t slope, int64_t constant);
Expression makeFloor(Expression inner, int64_t divisor);

/// max(-1, candidates)
struct Bound {
  std::vector<Expression> candidates;

  int64_t at(int64_t p) const;
  Bound of(const Expression &inner) const;
  bool operator<(const Bound &other) const { return candidates < other.candidates; }
};

/// Reads a line by the grammar of docs/certificate.md; throws Refusal if it does not match.
class Line {
public:
  explicit Line(std::string text) : text(std::move(text)) {}

  bool isNext(const std::string &word) const { return text.compare(at, word.size(), word) == 0; }
  bool accept(const std::string &word);
  void need(const std::string &word) {
    if (!accept(word)) {
      fail("'" + word + "'");
    }
  }
  /// Reads up to the next space.
  std::string word();
  /// Reads DIGITS, without sign; one number has one spelling.
  int64_t natural();
  Expression sum();
  /// Reads the rest of the line.
  Bound bound();
  void finish() const {
    if (at != text.size()) {
      fail("the end of the line");
    }
  }
  [[noreturn]] void fail(const std::string &expected) const;

private:
  Expression term(bool negative);
  Expression atom();

  std::string text;
  size_t at = 0;
  int terms = 0;
};

inline Bound parseBound(const std::string &text) { return Line(text).bound(); }

/// Returns floor(x / y), y > 0.
int64_t floorDivide(int64_t x, int64_t y);
/// Returns true if the parts contain an end or a count of segments.
bool hasEnds(const std::vector<Expression> &parts);
/// Returns a period: c(p + period) = c(p) + some rise, for every integer p.
int64_t computePeriod(const Expression &function);
/// Returns true if two functions are equal; ends in them are compared as text.
bool isSameFunction(const Expression &x, const Expression &y);
/// Returns the first p >= 0 from which a rising function is at least `least`. Throws Refusal if
/// there is none.
int64_t firstAtLeast(const Expression &function, int64_t least);
constexpr const char *vacuous =
    "vacuous: nothing is read at all, so that a proof about it would be empty";

/// Returns true if no candidate ever falls, so that the bound of the latest of several positions
/// holds for all of them. Exact. Throws Refusal if a period is too long to enumerate.
bool isNonDecreasing(const Bound &bound);

/// Returns some x with left(x) > right(x), among all x >= 0 or, with `everywhere`, among all
/// integers; none if there is none. Exact. Throws Refusal if a period is too long to enumerate.
std::optional<int64_t> findAbove(const Bound &left, const Bound &right, bool everywhere);

} // namespace certify
