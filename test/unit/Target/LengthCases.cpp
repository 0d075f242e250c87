// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "LengthCases.h"

#include "AttentionReference.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include <limits>

using namespace sluice;
using namespace sluice::test;

namespace {

/// Lengths: some rows, one, all, the rows of a tile, and one more. The last text is not in every
/// launch.
const std::vector<int64_t> lengths = {13, 1, 40, 32, 33};
const auto batch = int64_t(lengths.size());
constexpr int64_t positions = 40;

int64_t getValueRows(int64_t text, int64_t factor) { return (lengths[text] + factor - 1) / factor; }
int64_t countPositions(int64_t factor) { return (positions + factor - 1) / factor; }

/// Every domain of a text on an axis.
std::string onAxis(std::string text) {
  const std::string domain = "#dispatch.domain<";
  for (size_t at = text.find(domain); at != std::string::npos; at = text.find(domain, at + 1)) {
    text.insert(text.find('>', at), " axis = \"words\"");
  }
  return text;
}

/// The numbers, with `filler` in the rows after the end of a text.
Floats fillAfterRows(Floats numbers, float filler, int64_t factor = 1) {
  int64_t rows = countPositions(factor), width = int64_t(numbers.size()) / (batch * rows);
  for (size_t i = 0; i < numbers.size(); ++i) {
    int64_t row = int64_t(i) / width;
    numbers[i] = row % rows < getValueRows(row / rows, factor) ? numbers[i] : filler;
  }
  return numbers;
}

/// Numbers exact in bf16, a row of `width` each; `filler` in the rows after the end of a text.
Floats sequence(int64_t factor, int64_t width, unsigned seed, float filler) {
  Floats numbers = randomIntegers(batch * countPositions(factor) * width, seed, 17);
  for (float &number : numbers) {
    number = (number - 8) / 8;
  }
  return fillAfterRows(std::move(numbers), filler, factor);
}
const float poison = std::numeric_limits<float>::quiet_NaN();

/// A tensor of rows at `factor` or, if that is 0, of one share per text.
struct LengthResult {
  int64_t factor, width;
  /// Contents of the rows after the end of a text.
  enum { Nothing, Zeros, Anything } filler = Nothing;
};

/// Contents of unwritten memory, as f32 or as bf16.
bool isUnwritten(float number) { return std::abs(number) > 1e29; }

/// The bits of `count` numbers.
std::vector<uint32_t> toBits(const Floats &numbers, int64_t first, int64_t count) {
  std::vector<uint32_t> bits(count);
  std::memcpy(bits.data(), numbers.data() + first, size_t(count) * 4);
  return bits;
}

/// Inputs of a launch whose rows after the end of a text hold this number.
using Operands = std::function<std::vector<Floats>(float filler)>;

/// Runs the kernel of `text` on the axis, and for each text without it; returns the results of the
/// first.
std::vector<Floats> expectAlone(const SegmentMake &make, const std::string &text,
                                const Operands &operands,
                                const std::vector<LengthResult> &results) {
  SegmentRun own = make(onAxis(text)), alone = make(text);
  if (!own || !alone) {
    ADD_FAILURE() << "no kernel of " << text;
    return {};
  }
  for (int64_t rows : {batch - 1, batch}) {
    std::vector<Floats> found =
        own({.operands = operands(poison), .rows = rows, .lengths = lengths});
    for (int64_t b = 0; b < rows; ++b) {
      std::vector<Floats> expected =
          alone({.operands = operands(0.5F), .length = lengths[b], .rows = rows});
      for (size_t i = 0; i < results.size(); ++i) {
        const LengthResult &result = results[i];
        int64_t size = int64_t(found[i].size()) / batch;
        int64_t count = result.factor == 0 ? size : getValueRows(b, result.factor) * result.width;
        EXPECT_EQ(toBits(found[i], b * size, count), toBits(expected[i], b * size, count))
            << "result " << i << " of text " << b << " of " << rows << ", " << text;
        auto rest = llvm::ArrayRef(found[i]).slice(b * size, size).drop_front(count);
        EXPECT_TRUE(llvm::all_of(
            rest,
            [&](float number) {
              return result.filler == LengthResult::Anything ||
                     (result.filler == LengthResult::Zeros ? number == 0 : isUnwritten(number));
            }))
            << "filler the rows of text " << b << " of result " << i << ", " << text;
      }
    }
    if (rows == batch) {
      return found;
    }
  }
  return {};
}

/// Sums over the rows of all texts.
void expectSum(const SegmentMake &make, const std::string &text, const Operands &operands) {
  SegmentRun own = make(onAxis(text)), whole = make(text);
  ASSERT_TRUE(own && whole) << text;
  std::vector<Floats> found =
      own({.operands = operands(poison), .rows = batch, .lengths = lengths});
  std::vector<Floats> expected =
      whole({.operands = operands(0), .length = positions, .rows = batch});
  for (size_t i = 0; i < expected.size(); ++i) {
    auto count = int64_t(expected[i].size());
    EXPECT_EQ(toBits(found[i], 0, count), toBits(expected[i], 0, count))
        << "result " << i << " of " << text;
  }
}

std::string getRowDomain(int64_t factor) {
  return "domain = #dispatch.domain<batch = " + std::to_string(batch) +
         ", positions = " + std::to_string(countPositions(factor)) +
         ", factor = " + std::to_string(factor) + ">";
}

void checkRows(const SegmentMake &make) {
  constexpr int64_t d = 20;
  auto rows = [&](int64_t factor) { return tensor({batch, countPositions(factor), d}); };
  Domain fine{batch, positions, 1}, coarse{batch, countPositions(4), 4};
  // A row, the previous one and the next one, which a text's last row does not have; then zeros.
  std::vector<Seen> near = {{rows(1), TextAccess{.map = "p - 1"}, tensor({d})},
                            {rows(1), TextAccess{.map = "p + 1"}, tensor({d})}};
  std::string sum = "%y = arith.addf %a0, %a1 : ROW\ndispatch.yield %y : ROW";
  auto x = [](float filler) { return sequence(1, d, 1, filler); };
  Operands one = [&](float filler) { return std::vector<Floats>{x(filler)}; };
  for (bool zeroInvalid : {false, true}) {
    expectAlone(make,
                rowsText(fine, near, {{rows(1), TextAccess{}}}, sum, tensor({d}), zeroInvalid),
                [&](float filler) { return std::vector<Floats>{x(filler), x(filler)}; },
                {{1, d, zeroInvalid ? LengthResult::Zeros : LengthResult::Nothing}});
  }
  // Groups of four, of which the last may be partial; and all rows of a text.
  Seen group{rows(1), TextAccess{.map = "4 * p + i", .group = 4}, tensor({4, d})};
  std::string mean =
      "%y = dispatch.reduce_group add %a0 : " + tensor({4, d}) + " -> ROW\ndispatch.yield %y : ROW";
  expectAlone(make,
              rowsText(coarse, {group}, {{rows(4), TextAccess{.factor = 4}}}, mean, tensor({d})),
              one, {{4, d}});
  Seen all{rows(1), TextAccess{.kind = "range", .map = "i * n"}, tensor({d})};
  expectAlone(make,
              rowsText({batch, 1, 0}, {all}, {{tensor({batch, 1, d}), TextAccess{.factor = 0}}},
                       "dispatch.yield %a0 : ROW", tensor({d})),
              one, {{0, d}});
  // A gather past the last row of a text finds zeros.
  Floats index(batch * positions);
  for (size_t i = 0; i < index.size(); ++i) {
    index[i] = float(i * 7 % positions);
  }
  expectAlone(make,
              rowsText(fine,
                       {{tensor({batch, positions}, "i32"), TextAccess{.factor = 0}, "i32"},
                        {rows(1), TextAccess{.kind = "gather", .index = 0}, tensor({d})}},
                       {{rows(1), TextAccess{}}}, "dispatch.yield %a1 : ROW", tensor({d})),
              [&](float filler) { return std::vector<Floats>{index, x(filler)}; }, {{1, d}});
  // Sums of squares in three parts, the rows of each in their order.
  expectSum(make,
            rowsText(fine, {{rows(1), TextAccess{}, tensor({d})}},
                     {{tensor({3, d}), TextAccess{.kind = "columns"}}},
                     "%y = arith.mulf %a0, %a0 : ROW\ndispatch.yield %y : ROW", tensor({d})),
            one);
}

void checkContraction(const SegmentMake &make, const std::string &element) {
  constexpr int64_t inner = 24, columns = 40;
  for (int64_t factor : {1, 4}) {
    std::string x = tensor({batch, countPositions(factor), inner}, element),
                w = tensor({columns, inner}, element),
                y = tensor({batch, countPositions(factor), columns}, element);
    std::string own = TextAccess{.factor = factor};
    std::string text = "func.func @f(%x: " + x + ", %w: " + w + ", %e: " + y +
                       ") {\n  %y = dispatch.contract %x, %w, %e attributes {" +
                       getRowDomain(factor) + ", accesses = [" + own + "], result_accesses = [" +
                       own +
                       "]} {\n^bb0(%acc: f32, %own: f32):\n  %s = arith.addf %acc, %own "
                       ": f32\n  dispatch.yield %s : f32\n} : (" +
                       x + ", " + w + ", " + y + ") -> " + y + "\n  return\n}\n";
    expectAlone(make, text,
                [&](float filler) {
                  return std::vector<Floats>{sequence(factor, inner, 1, filler),
                                             randomIntegers(columns * inner, 2, 5),
                                             sequence(factor, columns, 3, filler)};
                },
                {{factor, columns}});
    std::string weight = tensor({inner, columns}), bias = tensor({inner}),
                y2 = tensor({batch, countPositions(factor), columns}, element);
    expectSum(make,
              "func.func @f(%l: " + x + ", %r: " + y2 +
                  ") {\n  %w, %b = dispatch.weight_gradient %l, %r attributes {" +
                  getRowDomain(factor) +
                  ", operandSegmentSizes = array<i32: 1, 1, 0, 0>, resultSegmentSizes = "
                  "array<i32: 1, 1>} : (" +
                  x + ", " + y2 + ") -> (" + weight + ", " + bias + ")\n  return\n}\n",
              [&](float filler) {
                return std::vector<Floats>{sequence(factor, inner, 4, filler),
                                           sequence(factor, columns, 5, filler)};
              });
  }
}

/// One row of each text, as of the head that predicts a token: all rows are valid.
void checkSingleRows(const SegmentMake &make, const std::string &element) {
  constexpr int64_t inner = 24, columns = 20;
  std::string x = tensor({batch, 1, inner}, element), weight = tensor({columns, inner}, element),
              y = tensor({batch, 1, columns});
  expectAlone(
      make,
      "func.func @f(%x: " + x + ", %w: " + weight +
          ") {\n  %r = dispatch.contract %x, %w attributes {" +
          "domain = #dispatch.domain<batch = " + std::to_string(batch) +
          ", positions = 1, factor = 0>, accesses = [], result_accesses = "
          "[#dispatch.access<row>]} {\n  ^bb0(%s: f32):\n    dispatch.yield %s : f32\n  } : (" +
          x + ", " + weight + ") -> " + y + "\n  return\n}\n",
      [&](float) {
        return std::vector<Floats>{randomIntegers(batch * inner, 9, 7),
                                   randomIntegers(columns * inner, 10, 7)};
      },
      {{0, columns}});
}

void checkAttention(const SegmentMake &make, const std::string &element) {
  AttentionCase c{"own lengths", batch, positions, 2,           1, 8,
                  positions,     batch, causal(),  scaled(0.25)};
  c.bf16 = element == "bf16";
  for (bool hasTerms : {false, true}) {
    c = hasTerms ? withTerms(c, true, 5) : c;
    int64_t width = c.width(), outputs = c.heads * c.head;
    Operands forward = [&](float filler) {
      std::vector<Floats> all(3, sequence(1, width, 1, filler));
      if (hasTerms) {
        all.insert(all.end(), {sequence(1, outputs, 2, filler), sequence(1, outputs, 3, filler),
                               randomIntegers(5 * c.heads, 4, 3)});
      }
      return all;
    };
    std::vector<Floats> made =
        expectAlone(make, c.forwardText(), forward, {{1, outputs}, {1, c.heads}});
    ASSERT_EQ(made.size(), 2U);
    Operands backward = [&](float filler) {
      std::vector<Floats> all = forward(filler);
      for (Floats numbers : made) {
        all.insert(all.begin() + 3, fillAfterRows(numbers, filler));
      }
      std::swap(all[3], all[4]);
      all.insert(all.begin() + 5, sequence(1, outputs, 5, filler));
      return all;
    };
    // The target determines which rows of gradients are zeros.
    std::vector<LengthResult> results = {{1, width, LengthResult::Anything}};
    if (hasTerms) {
      LengthResult term{1, outputs, LengthResult::Anything};
      results.insert(results.end(), {term, term, {0, c.heads}});
    }
    expectAlone(make, c.backwardText(), backward, results);
  }
}

void checkScan(const SegmentMake &make) {
  std::string bits = tensor({batch, positions});
  expectAlone(make,
              "func.func @f(%x: " + bits + ") {\n  %r:3 = dispatch.segment_scan %x attributes {" +
                  getRowDomain(1) + "} : (" + bits + ") -> (" + tensor({batch, positions}, "i32") +
                  ", " + tensor({batch, 9}, "i32") + ", " + tensor({batch, 2}, "i32") +
                  ")\n  return\n}\n",
              [&](float filler) { return std::vector<Floats>{sequence(1, 1, 6, filler)}; },
              {{0, 1}, {0, 1}, {0, 1}});
}

void checkScatter(const SegmentMake &make) {
  constexpr int64_t d = 12, entries = 7;
  std::string index = tensor({batch, positions}, "i32"), values = tensor({batch, positions, d}),
              table = tensor({entries, d});
  expectSum(make,
            "func.func @f(%i: " + index + ", %v: " + values +
                ") {\n  %r = dispatch.scatter_rows %i, %v attributes {" + getRowDomain(1) +
                "} : (" + index + ", " + values + ") -> " + table + "\n  return\n}\n",
            [&](float filler) {
              return std::vector<Floats>{randomIntegers(batch * positions, 7, entries),
                                         sequence(1, d, 8, filler)};
            });
}

} // namespace

void sluice::test::checkOwnLengths(const SegmentMake &make, const std::string &element) {
  checkRows(make);
  checkContraction(make, element);
  checkSingleRows(make, element);
  checkAttention(make, element);
  checkScan(make);
  checkScatter(make);
}
