// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The decision procedure for data-dependent segments, compared with all bit strings. Refutations
// are verified here by additions alone.
#include "sluice/Proof/Segments.h"

#include <gtest/gtest.h>
#include <random>

using namespace sluice::segments;

namespace {

int64_t below(std::mt19937_64 &generator, int64_t end) {
  return static_cast<int64_t>(generator() % static_cast<uint64_t>(end));
}

//===----------------------------------------------------------------------===//
// Adding up
//===----------------------------------------------------------------------===//

bool isNothing(const Linear &x) {
  return x.constant == 0 && std::all_of(x.coefficients.begin(), x.coefficients.end(),
                                        [](int64_t c) { return c == 0; });
}

/// The row implies `claim` >= 0, or more.
bool implies(const Linear &row, const Linear &claim) {
  Linear more = claim - row;
  int64_t slack = more.constant;
  more.constant = 0;
  return isNothing(more) && slack >= 0;
}

Linear derived(const Formula &formula, const std::vector<Linear> &rows,
               const RefutationStep &step) {
  auto value = [&](size_t term) { return Linear::variable(formula.terms[term].value); };
  auto argument = [&](size_t term) { return formula.terms[term].argument; };
  switch (step.kind) {
  case RefutationStep::Sum: {
    Linear sum;
    for (auto [row, by] : step.parts) {
      EXPECT_GT(by, 0);
      sum = sum + rows.at(row) * by;
    }
    for (int64_t &coefficient : sum.coefficients) {
      EXPECT_EQ(coefficient % step.divisor, 0);
      coefficient /= step.divisor;
    }
    int64_t rest = ((sum.constant % step.divisor) + step.divisor) % step.divisor;
    sum.constant = (sum.constant - rest) / step.divisor;
    return sum;
  }
  case RefutationStep::AtLeast:
    return value(step.first) - argument(step.first);
  case RefutationStep::Negative:
    EXPECT_TRUE(implies(rows.at(step.because.at(0)), Linear::number(-1) - argument(step.first)));
    return argument(step.first) - value(step.first);
  case RefutationStep::Apart:
    EXPECT_TRUE(implies(rows.at(step.because.at(0)), argument(step.first)));
    return value(step.first) -
           argument(step.first) * formula.least[formula.terms[step.first].function];
  case RefutationStep::Order: {
    EXPECT_EQ(formula.terms[step.first].function, formula.terms[step.second].function);
    Linear between = argument(step.second) - argument(step.first);
    EXPECT_TRUE(implies(rows.at(step.because.at(0)), between));
    bool isFar = step.because.size() > 1;
    EXPECT_TRUE(!isFar || implies(rows.at(step.because[1]), argument(step.first)));
    int64_t least = isFar ? formula.least[formula.terms[step.first].function] : 1;
    return value(step.second) - value(step.first) - between * least;
  }
  }
  return {};
}

bool addsUp(const Formula &formula, std::vector<Linear> rows, const Refutation &why) {
  for (const RefutationStep &step : why.steps) {
    Linear row = derived(formula, rows, step);
    if (!isNothing(row - step.row)) {
      return false;
    }
    rows.push_back(row);
  }
  if (why.cases.empty()) {
    Linear last = rows.back();
    int64_t constant = std::exchange(last.constant, 0);
    return isNothing(last) && constant < 0;
  }
  std::vector<Linear> other = rows;
  rows.push_back(why.split);
  other.push_back(Linear::number(-1) - why.split);
  return addsUp(formula, rows, why.cases.at(0)) && addsUp(formula, other, why.cases.at(1));
}

//===----------------------------------------------------------------------===//
// Random formulas
//===----------------------------------------------------------------------===//

using Ends = std::vector<int64_t>;

/// A formula, and how to compute every variable that is not free.
struct Random {
  struct Definition {
    bool isFloor;
    Linear argument;
    size_t number; ///< divisor or function
  };
  Formula formula;
  std::vector<Definition> definitions; ///< of variables from `free` on
  size_t free = 0;
  std::vector<Linear> known;

  bool holds(const std::vector<Ends> &ends, std::vector<int64_t> &point) const;
};

/// e at `m`; none if no bit is set.
std::optional<int64_t> at(const Ends &ends, int64_t m) {
  bool isPast = m >= static_cast<int64_t>(ends.size());
  return m < 0    ? std::optional(m)
         : isPast ? std::nullopt
                  : std::optional(ends[static_cast<size_t>(m)]);
}

bool Random::holds(const std::vector<Ends> &ends, std::vector<int64_t> &point) const {
  point.resize(free);
  for (const Definition &definition : definitions) {
    int64_t x = definition.argument.at(point);
    auto divisor = static_cast<int64_t>(definition.number);
    std::optional<int64_t> value = definition.isFloor
                                       ? (x - ((x % divisor) + divisor) % divisor) / divisor
                                       : at(ends[definition.number], x);
    if (!value) {
      return false;
    }
    point.push_back(*value);
  }
  return std::all_of(formula.rows.begin(), formula.rows.end(),
                     [&](const Linear &row) { return row.at(point) >= 0; });
}

class Maker {
public:
  Maker(uint64_t seed, size_t functions) : generator(seed), functions(functions) {}
  Random make(int64_t tokens, int64_t most);
  int64_t pick(int64_t end) { return below(generator, end); }

private:
  Linear any() {
    return random.known[static_cast<size_t>(pick(static_cast<int64_t>(random.known.size())))];
  }
  void define(bool isFloor, const Linear &argument, size_t number) {
    size_t before = random.formula.variables;
    Linear value = isFloor ? random.formula.buildFloor(argument, static_cast<int64_t>(number))
                           : random.formula.getSegmentEnd(number, argument);
    if (random.formula.variables > before) {
      random.definitions.push_back({isFloor, argument, number});
      random.known.push_back(value);
    }
  }
  std::mt19937_64 generator;
  size_t functions;
  Random random;
};

/// Two free integers from -2 to `most`, terms of them and of one another, every end before
/// `tokens`, and a few inequalities.
Random Maker::make(int64_t tokens, int64_t most) {
  random = {};
  Formula &formula = random.formula;
  for (size_t i = 0; i < functions; ++i) {
    formula.addFunction(1 + pick(3) / 2);
  }
  random.free = 2;
  for (int i = 0; i < 2; ++i) {
    Linear x = formula.addVariable();
    formula.require(x + Linear::number(2));
    formula.require(Linear::number(most) - x);
    random.known.push_back(x);
  }
  for (int64_t i = 2 + pick(3); i > 0; --i) {
    Linear argument = any() * (1 + pick(5) / 4) + Linear::number(pick(4) - 2);
    if (pick(5) == 0) {
      define(true, argument, static_cast<size_t>(2 + pick(2)));
      continue;
    }
    auto function = static_cast<size_t>(pick(static_cast<int64_t>(functions)));
    define(false, argument, function);
    Linear end = formula.getSegmentEnd(function, argument);
    if (function == 1) { // a segment of segments ends where one of them does
      define(false, end, 0);
      end = formula.getSegmentEnd(0, end);
    }
    formula.require(Linear::number(tokens - 1) - end);
  }
  for (int64_t i = 2 + pick(3); i > 0; --i) {
    formula.require(any() - any() * (1 + pick(4) / 3) + Linear::number(pick(5) - 2));
  }
  return random;
}

/// The ends of every string of `length` bits.
std::vector<Ends> everyString(size_t length, int64_t least) {
  std::vector<Ends> all;
  for (size_t bits = 0; bits < (size_t{1} << length); ++bits) {
    Ends ends;
    for (size_t i = 0; i < length; ++i) {
      if (bits >> i & 1) {
        ends.push_back(static_cast<int64_t>(i));
      }
    }
    bool isSparse = true;
    for (size_t i = 1; i < ends.size(); ++i) {
      isSparse &= ends[i] - ends[i - 1] >= least;
    }
    if (isSparse) {
      all.push_back(std::move(ends));
    }
  }
  return all;
}

/// True if bits and free integers satisfy it.
bool isSatisfiable(const Random &random, size_t length, int64_t most) {
  const Formula &formula = random.formula;
  std::vector<int64_t> point;
  auto holdsSomewhere = [&](const std::vector<Ends> &ends) {
    for (int64_t p = -2; p <= most; ++p) {
      for (int64_t q = -2; q <= most; ++q) {
        point = {p, q};
        if (random.holds(ends, point)) {
          return true;
        }
      }
    }
    return false;
  };
  for (const Ends &fine : everyString(length, formula.least[0])) {
    if (formula.least.size() == 1) {
      if (holdsSomewhere({fine})) {
        return true;
      }
      continue;
    }
    for (const Ends &coarse : everyString(fine.size(), formula.least[1])) {
      if (holdsSomewhere({fine, coarse})) {
        return true;
      }
    }
  }
  return false;
}

/// Counts answers of each kind.
std::array<int, 2> compare(Maker &maker, int trials, size_t length, int64_t most) {
  std::array<int, 2> counts{};
  for (int trial = 0; trial < trials; ++trial) {
    Random random = maker.make(static_cast<int64_t>(length), most);
    const Formula &formula = random.formula;
    Answer answer = solve(formula);
    bool expected = isSatisfiable(random, length, most);
    EXPECT_EQ(answer.kind, expected ? Answer::Found : Answer::None) << "trial " << trial;
    if (answer.kind == Answer::None) {
      EXPECT_TRUE(addsUp(formula, formula.rows, answer.why)) << "trial " << trial;
    } else if (answer.kind == Answer::Found) { // and bits can be read off
      std::vector<Ends> ends;
      for (size_t i = 0; i < formula.least.size(); ++i) {
        ends.push_back(getSegmentEnds(formula, i, answer.point));
      }
      std::vector<int64_t> point = answer.point;
      EXPECT_TRUE(random.holds(ends, point)) << "trial " << trial;
    }
    ++counts[expected ? 0 : 1];
  }
  return counts;
}

TEST(SegmentsEngine, OneLevelAgreesWithEnumeration) {
  Maker maker(1, 1);
  auto [found, none] = compare(maker, 500, 10, 6);
  EXPECT_GT(found, 100);
  EXPECT_GT(none, 100);
}

TEST(SegmentsEngine, TwoLevelsAgreeWithEnumeration) {
  Maker maker(2, 2);
  auto [found, none] = compare(maker, 400, 7, 4);
  EXPECT_GT(found, 50);
  EXPECT_GT(none, 50);
}

/// Gives up sums that do not fit into 64 bits: x = 0, y = 1, z = 0 is a solution.
TEST(SegmentsEngine, ReportsOverflowAsUnknown) {
  Formula formula;
  Linear x = formula.addVariable(), y = formula.addVariable(), z = formula.addVariable();
  constexpr int64_t large = int64_t{1} << 32;
  formula.require(x * 3 + y * large - Linear::number(1));
  formula.require(x * -large - z + Linear::number(1));
  formula.require(Linear::number(1) - y);
  formula.require(z);
  EXPECT_NE(solve(formula).kind, Answer::None);
  // The same if the formula itself does not fit.
  Formula beyond;
  Linear v = beyond.addVariable();
  beyond.require(v * large * large - Linear::number(1));
  beyond.require(Linear::number(1) - v);
  EXPECT_NE(solve(beyond).kind, Answer::None);
}

/// Row t reads segment c(t) - by, which ends by t if by >= 1: each further step moves it back by
/// the distance of boundaries.
TEST(SegmentsEngine, DecidesRowsHiddenByALaterSegment) {
  for (int64_t least : {1, 3}) {
    for (int64_t by : {0, 1, 2, 4}) {
      Formula formula;
      size_t e = formula.addFunction(least);
      Linear t = formula.addVariable(), m = formula.addVariable();
      formula.require(t);
      formula.require(t - formula.getSegmentEnd(e, m - Linear::number(1)));
      formula.require(formula.getSegmentEnd(e, m) - t - Linear::number(1));
      Linear read = m - Linear::number(by);
      formula.require(read);
      size_t before = formula.rows.size();
      formula.require(formula.getSegmentEnd(e, read) - t + Linear::number(least * (by - 1) - 1));
      Answer answer = solve(formula);
      ASSERT_EQ(answer.kind, by == 0 ? Answer::Found : Answer::None) << by;
      formula.rows.resize(before);
      formula.require(formula.getSegmentEnd(e, read) - t + Linear::number(least * (by - 1)));
      EXPECT_EQ(solve(formula).kind, Answer::Found) << by; // no more than that
    }
  }
}

} // namespace
