// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Segments: relations, with terms that the bits decide, against the reads of the reference, over
// all bit strings; gradients against finite differences of the definitions with frozen support.
#include "Gradient.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace sluice;
using namespace sluice::testing;
using reference::Evaluator;
using reference::RuntimeValues;

namespace {

constexpr int64_t context = 16;

const std::string fine = "!sluice.seq<@s1, 2, f32>", bit = "!sluice.seq<@s1, 1, f32>",
                  coarse = "!sluice.seq<@w1, 2, f32>", counts = "!sluice.seq<@s1, 0, i32>",
                  ends = "!sluice.seq<@w1, 0, i32>";

/// @f of bits and rows x of @s1 and y of segments: `body` makes %r from them, %c and %e.
std::string segmented(const std::string &body, const std::string &result,
                      const std::string &names = "%r") {
  return "(%b: " + bit + ", %x: " + fine + ", %y: " + coarse + ") -> " + result +
         " { %c, %e = sluice.segment %b : (" + bit + ") -> (" + counts + ", " + ends + ") " +
         names + " = " + body + " return %r : " + result + " }";
}

std::string pooled(const std::string &attributes) {
  return segmented("sluice.pool_segments %x, %b, %c, %e " + attributes + " : (" + fine + ", " +
                       bit + ", " + counts + ", " + ends + ") -> " + coarse,
                   coarse);
}

std::string selected() {
  return segmented("sluice.select_segments %x, %c, %e : (" + fine + ", " + counts + ", " + ends +
                       ") -> " + coarse,
                   coarse);
}

std::string spread(int by) {
  return segmented("sluice.spread_segments %y, %c, %e by " + std::to_string(by) + " : (" + coarse +
                       ", " + counts + ", " + ends + ") -> " + fine,
                   fine);
}

std::string attended() {
  return segmented("sluice.attend_segments %y, %x, %x, %c, %e heads 1 : (" + coarse + ", " + fine +
                       ", " + fine + ", " + counts + ", " + ends + ") -> (" + coarse +
                       ", !sluice.seq<@w1, 1, f32>)",
                   coarse, "%r, %lse");
}

/// Rows of the fine scale from k rows each, and of the segments spread to them.
std::string concatenateParts(int parts) {
  std::string of = "(" + coarse + ", " + counts + ", " + ends + ") -> " + fine;
  std::string body = "sluice.spread_segments %y, %c, %e by 1 : " + of + " ", keys = "%x",
              types = fine + ", " + fine;
  std::string values = "%z";
  for (int i = 1; i < parts; ++i) {
    keys += i == 1 ? ", %z" : ", %x";
    values += i == 1 ? ", %x" : ", %x";
    types += ", " + fine + ", " + fine;
  }
  return segmented(body + "%r = sluice.attend_parts %x keys (" + keys + ") values (" + values +
                       ") heads 2 : (" + fine + ", " + types + ") -> " + fine,
                   fine, "%z");
}

//===----------------------------------------------------------------------===//
// Relations
//===----------------------------------------------------------------------===//

/// The bits of one row of a batch, and segments by definition.
struct Bits {
  std::vector<bool> at;

  int64_t count(int64_t t) const { return std::count(at.begin(), at.begin() + t + 1, true); }
  int64_t end(int64_t m) const {
    for (int64_t t = 0; m >= 0 && t < static_cast<int64_t>(at.size()); ++t) {
      if (at[t] && m-- == 0) {
        return t;
      }
    }
    return m < 0 ? m : context;
  }
  Doubles numbers() const { return {at.begin(), at.end()}; }
};

Bits toBits(uint64_t code, int64_t length) {
  Bits bits;
  for (int64_t t = 0; t < length; ++t) {
    bits.at.push_back((code >> t & 1) != 0);
  }
  return bits;
}

/// True if (p, q) is in a relation whose terms `bits` decide.
bool reads(const PositionReads &what, const Bits &bits, int64_t p, int64_t q, int64_t n) {
  MLIRContext *context = what.relation->getContext();
  SmallVector<AffineExpr> symbols{getAffineConstantExpr(n, context)};
  for (const SegmentTerm &term : what.terms) {
    int64_t at = reference::evaluateAffine(term.at, p, 0, 0);
    bool isEnd = term.kind == SegmentTerm::End;
    symbols.push_back(getAffineConstantExpr(isEnd ? bits.end(at) : bits.count(at), context));
  }
  SmallVector<AffineExpr> dims{getAffineDimExpr(0, context), getAffineDimExpr(1, context)};
  IntegerSet set = IntegerSet(*what.relation).replaceDimsAndSymbols(dims, symbols, 2, 1);
  return reference::contains(set, p, q, n);
}

/// Numbers of result `result` of `op`, by position.
std::vector<Doubles> getValueRows(const Evaluator<double> &evaluator, Operation *op,
                                  unsigned result) {
  std::vector<Doubles> rows;
  for (int64_t p = 0; p < evaluator.getPositions(op->getResult(result)); ++p) {
    rows.push_back(evaluator.rowAt(op->getResult(result), 0, p));
  }
  return rows;
}

class SegmentOps : public ::testing::Test {
protected:
  /// Every result p of `op` changes with row q of operand `operand`, which becomes `other`, if and
  /// only if the relation holds; or, unless `exact`, only if.
  void check(Operation *op, unsigned operand, const Bits &bits, Evaluator<double> evaluator,
             double other, bool exact) {
    Value value = op->getOperand(operand);
    int64_t n = evaluator.getPositions(value), columns = reference::getColumns(value);
    Doubles numbers = evaluator.getSequence(value);
    for (unsigned result = 0; result < op->getNumResults(); ++result) {
      PositionReads what = cast<CausalFlowInterface>(op).getReads(result, operand);
      std::vector<Doubles> before = getValueRows(evaluator, op, result);
      for (int64_t q = 0; q < n; ++q) {
        Doubles moved = numbers;
        for (int64_t c = 0; c < columns; ++c) {
          moved[q * columns + c] = other - moved[q * columns + c];
        }
        evaluator.setSequence(value, moved);
        ASSERT_TRUE(succeeded(evaluator.evaluate(op)));
        std::vector<Doubles> after = getValueRows(evaluator, op, result);
        for (int64_t p = 0; p < static_cast<int64_t>(after.size()); ++p) {
          bool isThere = what.relation && reads(what, bits, p, q, n);
          bool changed = before[p] != after[p];
          ASSERT_TRUE(changed == isThere || (!exact && !changed))
              << op->getName().getStringRef().str() << " operand " << operand << ", result "
              << result << ", p " << p << ", q " << q;
          checkLatest(what, bits, p, q, isThere);
        }
      }
      evaluator.setSequence(value, numbers);
      ASSERT_TRUE(succeeded(evaluator.evaluate(op)));
    }
  }

  static void checkLatest(const PositionReads &what, const Bits &bits, int64_t p, int64_t q,
                          bool isThere) {
    if (!isThere || !what.latest) {
      return;
    }
    PositionReads bound = what;
    AffineExpr q1 = getAffineDimExpr(1, what.relation->getContext());
    bound.relation = IntegerSet::get(2, 1 + what.terms.size(), {what.latest - q1}, {false});
    EXPECT_TRUE(reads(bound, bits, p, q, 0)) << "q " << q << " is behind the latest of p " << p;
  }

  /// Runs `test` over all bit strings of up to `longest` bits with the op that defines the result,
  /// and the values of one evaluation.
  void forAllBits(const std::string &function, int64_t longest,
                  llvm::function_ref<void(Operation *, const Bits &, Evaluator<double> &)> test) {
    DialectModel model(function);
    func::FuncOp f = model.getFunction();
    Operation *op = f.getBody().front().getTerminator()->getOperand(0).getDefiningOp();
    RandomEngine generator(3);
    for (int64_t length = 1; length <= longest; ++length) {
      for (uint64_t code = 0; code < uint64_t{1} << length; ++code) {
        Bits bits = toBits(code, length);
        RuntimeValues setting{.rows = 1, .length = length};
        Arguments arguments = randomArguments(generator, f, setting, 2);
        arguments.values[0] = bits.numbers();
        Evaluator<double> evaluator(model.getModule(), setting);
        arguments.set(evaluator, f);
        ASSERT_TRUE(succeeded(evaluator.evaluate(f)));
        test(op, bits, evaluator);
      }
    }
  }
};

constexpr int64_t longest = 7;

TEST_F(SegmentOps, CountsAndEndsReadBitsUpToTheirRow) {
  forAllBits(selected(), longest, [&](Operation *op, const Bits &bits, Evaluator<double> &values) {
    Operation *segment = op->getOperand(1).getDefiningOp();
    for (int64_t t = 0; t < static_cast<int64_t>(bits.at.size()); ++t) {
      ASSERT_EQ(values.at(segment->getResult(0), 0, t, 0), bits.count(t));
    }
    for (int64_t m = 0; m < context; ++m) {
      ASSERT_EQ(values.at(segment->getResult(1), 0, m, 0), bits.end(m));
    }
    check(segment, 0, bits, values, /*other=*/1, /*exact=*/false);
  });
}

TEST_F(SegmentOps, PoolsReadTheirSegment) {
  for (const char *attributes : {"", "{starts}"}) {
    bool starts = StringRef(attributes).contains("starts");
    forAllBits(pooled(attributes), longest,
               [&](Operation *op, Bits bits, Evaluator<double> &values) {
                 check(op, 3, bits, values, /*other=*/longest, /*exact=*/false);
                 // The relation contains the rows of an open segment, which are not read.
                 int64_t n = bits.count(static_cast<int64_t>(bits.at.size()) - 1);
                 bool isWhole = starts ? n == 0 : bits.at.back();
                 check(op, 0, bits, values, /*other=*/3, /*exact=*/isWhole);
               });
  }
}

TEST_F(SegmentOps, SelectionReadsABit) {
  forAllBits(selected(), longest, [&](Operation *op, const Bits &bits, Evaluator<double> &values) {
    check(op, 0, bits, values, /*other=*/3, /*exact=*/true);
    check(op, 2, bits, values, /*other=*/longest, /*exact=*/false);
  });
}

TEST_F(SegmentOps, SpreadReadsTheSegmentItCounts) {
  for (int by : {-1, 0, 1, 2}) {
    forAllBits(spread(by), longest,
               [&](Operation *op, const Bits &bits, Evaluator<double> &values) {
                 check(op, 0, bits, values, /*other=*/3, /*exact=*/true);
                 check(op, 1, bits, values, /*other=*/longest, /*exact=*/false);
               });
  }
}

TEST_F(SegmentOps, AttentionReadsItsOwnQueryAndTheRowsOfTheSegment) {
  forAllBits(attended(), 6, [&](Operation *op, Bits bits, Evaluator<double> &values) {
    check(op, 0, bits, values, /*other=*/3, /*exact=*/false);
    check(op, 4, bits, values, /*other=*/longest, /*exact=*/false);
    check(op, 1, bits, values, /*other=*/3, /*exact=*/bits.at.back());
  });
}

//===----------------------------------------------------------------------===//
// Gradients
//===----------------------------------------------------------------------===//

/// Random bits of two rows; the same for each seed.
Doubles randomBits(RandomEngine &generator, int64_t length) {
  Doubles bits(2 * length);
  for (double &number : bits) {
    number = generator() % 3 == 0;
  }
  return bits;
}

/// y by the relaxation: weights 1 - (m - g(t)), with the support of the hard `bits`, for
/// bits that have moved by `moved`.
double relaxed(const Doubles &bits, const Doubles &moved, const Doubles &x, const Doubles &weights,
               int64_t length, bool starts) {
  double total = 0;
  for (int64_t b = 0; b < 2; ++b) {
    auto countIn = [&](const Doubles &from, int64_t t) { // g(t)
      double count = starts ? -1 : 0;
      for (int64_t j = 0; j < t + (starts ? 1 : 0); ++j) {
        count += from[b * length + j];
      }
      return count;
    };
    double bitsOfRow = countIn(bits, length - (starts ? 1 : 0)) + (starts ? 1 : 0);
    int64_t closed = static_cast<int64_t>(bitsOfRow) - (starts ? 1 : 0);
    for (int64_t m = 0; m < closed; ++m) {
      double y[2] = {0, 0}, all = 0;
      for (int64_t t = 0; t < length; ++t) {
        if (countIn(bits, t) == static_cast<double>(m)) {
          double weight = 1 - (static_cast<double>(m) - countIn(moved, t));
          all += weight;
          for (int64_t c = 0; c < 2; ++c) {
            y[c] += weight * x[(b * length + t) * 2 + c];
          }
        }
      }
      for (int64_t c = 0; c < 2; ++c) {
        total += weights[(b * 17 + m) * 2 + c] * y[c] / all;
      }
    }
  }
  return total;
}

TEST(SegmentGradients, PoolsMatchTheRelaxationWithFrozenSupport) {
  for (const char *attributes : {"", "{starts}"}) {
    bool starts = StringRef(attributes).contains("starts");
    DialectModel model(pooled(attributes));
    std::vector<unsigned> indices = addGradient(model);
    ASSERT_EQ(indices, (std::vector<unsigned>{0, 1}));
    RandomEngine generator(5);
    for (int64_t length : {1, 2, 5, 9, 16}) {
      RuntimeValues setting{.rows = 2, .length = length};
      func::FuncOp gradient = model.getFunction("gradient");
      Arguments all = randomArguments(generator, gradient, setting, 2);
      all.values[0] = randomBits(generator, length);
      auto found = evaluate<double>(gradient, all, setting);
      for (unsigned argument : {0U, 1U}) {
        for (size_t i = 0; i < all.values[argument].size(); ++i) {
          auto at = [&](double step) {
            Doubles bits = all.values[0], x = all.values[1];
            (argument == 0 ? bits : x)[i] += step;
            return relaxed(all.values[0], bits, x, all.values[3], length, starts);
          };
          constexpr double h = 1e-4;
          ASSERT_NEAR(found[argument][i], (at(h) - at(-h)) / (2 * h), 1e-6)
              << attributes << " argument " << argument << ", element " << i;
        }
      }
    }
  }
}

/// Gradients of all operands but bits, against differences of the float64 reference.
void expectDifferences(const std::string &function, size_t gradients, uint64_t seed,
                       std::initializer_list<int64_t> lengths, double bound) {
  DialectModel model(function);
  std::vector<unsigned> indices = addGradient(model);
  ASSERT_EQ(indices.size(), gradients);
  RandomEngine generator(seed);
  for (int64_t length : lengths) {
    RuntimeValues setting{.rows = 2, .length = length};
    Arguments all = randomArguments(generator, model.getFunction("gradient"), setting, 2);
    all.values[0] = randomBits(generator, length);
    auto found = evaluate<double>(model.getFunction("gradient"), all, setting);
    std::vector<Doubles> weights(all.values.begin() + 3, all.values.end());
    Arguments arguments{{all.values.begin(), all.values.begin() + 3}};
    for (size_t argument = 0; argument < indices.size(); ++argument) {
      Doubles expected = finiteDifference(model, arguments, indices[argument], weights, setting);
      ASSERT_EQ(found[argument].size(), expected.size());
      for (size_t i = 0; i < expected.size(); ++i) {
        ASSERT_NEAR(found[argument][i], expected[i], bound) << function << " element " << i;
      }
    }
  }
}

TEST(SegmentGradients, AttentionMatchesFiniteDifferences) {
  for (const std::string &function : {attended(), concatenateParts(2), concatenateParts(3)}) {
    expectDifferences(function, 2, 7, {1, 2, 5, 9}, 1e-7);
  }
}

/// The other ops are linear, and bits have no gradient there.
TEST(SegmentGradients, SelectionAndSpreadMatchFiniteDifferences) {
  for (const std::string &function : {selected(), spread(0), spread(1), spread(2), spread(-1)}) {
    expectDifferences(function, 1, 6, {1, 2, 5, 9, 16}, 1e-9);
  }
}

} // namespace
