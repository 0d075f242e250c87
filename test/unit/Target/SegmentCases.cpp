// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "SegmentCases.h"

using namespace sluice;
using namespace sluice::test;

namespace {

/// B rows of T positions with at most M segments of rows of d columns.
struct SegmentCase {
  int64_t batch, positions, capacity, d;
};

/// Segments by their definition: missing rows follow the definition of the ops.
struct SegmentTables {
  const SegmentCase c;
  const int64_t length;
  Floats bits, counts, ends, totals;

  /// One of `oneIn` bits is set, none of the last batch row.
  SegmentTables(const SegmentCase &c, int64_t length, int oneIn, unsigned seed)
      : c(c), length(length), bits(randomIntegers(c.batch * c.positions, seed, oneIn)),
        counts(c.batch * c.positions), ends(c.batch * c.capacity, float(c.positions)),
        totals(c.batch * 2, float(c.capacity)) {
    for (float &bit : bits) {
      bit = bit == 0 ? 1.0F : 0.25F;
    }
    for (int64_t b = 0; b < c.batch; ++b) {
      int64_t count = 0;
      for (int64_t t = 0; t < c.positions; ++t) {
        if (bits[b * c.positions + t] > 0.5F && t < length && b + 1 < c.batch) {
          if (count < c.capacity) {
            ends[b * c.capacity + count] = float(t);
          }
          ++count;
        }
        counts[b * c.positions + t] = float(count);
      }
      totals[2 * b] = float(count);
    }
  }
  int64_t rows() const { return c.batch - 1; } ///< that are valid
  int64_t end(int64_t b, int64_t m) const {
    return m < 0 ? m : m < c.capacity ? int64_t(ends[b * c.capacity + m]) : INT32_MAX;
  }
  bool isClosed(int64_t b, int64_t m) const { return m >= 0 && end(b, m) < c.positions; }
  int64_t count(int64_t b, int64_t t) const {
    return t < 0 ? 0 : int64_t(counts[b * c.positions + t]);
  }
};

std::string scanText(const SegmentCase &c, bool dense, const std::string &element) {
  std::string bits =
      dense ? tensor({c.batch, c.positions}, element) : tensor({c.batch, c.positions, 1}, element);
  return "func.func @f(%x: " + bits +
         ") {\n  %r:3 = dispatch.segment_scan %x attributes {domain = #dispatch.domain<batch = " +
         std::to_string(c.batch) + ", positions = " + std::to_string(c.positions) +
         ", factor = 1>} : (" + bits + ") -> (" + tensor({c.batch, c.positions}, "i32") + ", " +
         tensor({c.batch, c.capacity}, "i32") + ", " + tensor({c.batch, 2}, "i32") +
         ")\n  return\n}\n";
}

/// An operand of rows [B, T, d] or [B, M, d], and its access.
Seen getValueRows(int64_t batch, int64_t rows, int64_t d, const TextAccess &access,
                  const std::string &element = "f32") {
  return {tensor({batch, rows, d}, element), access, tensor({d})};
}
Seen runOnNumbers(int64_t batch, int64_t rows, const TextAccess &access,
                  const std::string &element = "i32") {
  return {tensor({batch, rows}, element), access, element};
}

/// %share: 1 / (%last - %first), and 0 where %last is no position of T.
std::string buildShareText(const std::string &first, const std::string &last, int64_t positions) {
  return "%n = arith.subi " + last + ", " + first + R"( : i32
  %size = arith.sitofp %n : i32 to f32
  %one = arith.constant 1.0 : f32
  %none = arith.constant 0.0 : f32
  %inverse = arith.divf %one, %size : f32
  %beyond = arith.constant )" +
         std::to_string(positions) + R"( : i32
  %closed = arith.cmpi slt, )" +
         last + R"(, %beyond : i32
  %share = arith.select %closed, %inverse, %none : f32
  %shares = tensor.splat %share : ROW
)";
}

class RowCases {
public:
  RowCases(const SegmentMake &make, const SegmentCase &c, const SegmentTables &segments,
           const std::string &element)
      : make(make), c(c), s(segments), element(element),
        fine(smallNumbers(c.batch * c.positions * c.d, 3)),
        coarse(smallNumbers(c.batch * c.capacity * c.d, 4)) {}

  void checkPool() {
    std::string body = buildShareText("%a0", "%a1", c.positions) +
                       "%y = arith.mulf %a2, %shares : ROW\ndispatch.yield %y : ROW";
    Floats found = run(c.capacity, 0,
                       {ends("p - 1"), ends("p"),
                        getValueRows(c.batch, c.positions, c.d, range("p + 1", 0, 1), element)},
                       coarseRows(), body, {s.ends, s.ends, fine});
    expectRows(found, c.capacity, [&](int64_t b, int64_t m) {
      std::vector<double> row(c.d);
      for (int64_t q = s.end(b, m - 1) + 1; s.isClosed(b, m) && q <= s.end(b, m); ++q) {
        add(row, fine, b * c.positions + q, 1 / double(s.end(b, m) - s.end(b, m - 1)));
      }
      return row;
    });
  }

  void checkPoolBackward() {
    std::string body = buildShareText("%a2", "%a3", c.positions) +
                       "%y = arith.mulf %a1, %shares : ROW\ndispatch.yield %y : ROW";
    Floats found =
        run(c.positions, 1,
            {counts("p - 1"), getValueRows(c.batch, c.capacity, c.d, gather("p", 0), element),
             found_("p - 1"), found_("p")},
            fineRows(), body, {s.counts, coarse, s.ends, s.ends});
    expectRows(found, c.positions, [&](int64_t b, int64_t t) {
      std::vector<double> row(c.d);
      if (int64_t g = s.count(b, t - 1); s.isClosed(b, g)) {
        add(row, coarse, b * c.capacity + g, 1 / double(s.end(b, g) - s.end(b, g - 1)));
      }
      return row;
    });
  }

  void checkSpread(int64_t distance) {
    std::string map = "p - " + std::to_string(distance);
    Floats found =
        run(c.positions, 1,
            {counts("p"), getValueRows(c.batch, c.capacity, c.d, gather(map, 0), element)},
            fineRows(), "dispatch.yield %a1 : ROW", {s.counts, coarse});
    expectRows(found, c.positions, [&](int64_t b, int64_t t) {
      std::vector<double> row(c.d);
      if (int64_t m = s.count(b, t) - distance; m >= 0 && m < c.capacity) {
        add(row, coarse, b * c.capacity + m, 1);
      }
      return row;
    });
  }

  void checkSpreadBackward(int64_t distance) {
    std::string first = "p + " + std::to_string(distance - 1);
    std::string last = "p + " + std::to_string(distance);
    Floats found = run(c.capacity, 0,
                       {ends(first), ends(last),
                        getValueRows(c.batch, c.positions, c.d, range("p", 0, 1), element)},
                       coarseRows(), "dispatch.yield %a2 : ROW", {s.ends, s.ends, fine});
    expectRows(found, c.capacity, [&](int64_t b, int64_t m) {
      std::vector<double> row(c.d);
      for (int64_t t = 0; t < s.length; ++t) {
        if (b < s.rows() && s.count(b, t) - distance == m) {
          add(row, fine, b * c.positions + t, 1);
        }
      }
      return row;
    });
  }

  void checkSelect() {
    Floats found =
        run(c.capacity, 0,
            {ends("p"), getValueRows(c.batch, c.positions, c.d, gather("p", 0), element)},
            coarseRows(), "dispatch.yield %a1 : ROW", {s.ends, fine});
    expectRows(found, c.capacity, [&](int64_t b, int64_t m) {
      std::vector<double> row(c.d);
      if (s.isClosed(b, m)) {
        add(row, fine, b * c.positions + s.end(b, m), 1);
      }
      return row;
    });
  }

  /// For each position: the sum of the later rows of its segment.
  void checkSuffix() {
    Floats h = smallNumbers(c.batch * c.positions, 5);
    TextAccess ofRow = range("p + 1", -1, 1);
    ofRow.map = "p + 1";
    Floats found =
        run(c.positions, 1,
            {counts("p - 1"), found_("p"), runOnNumbers(c.batch, c.positions, ofRow, "f32")},
            {tensor({c.batch, c.positions}), TextAccess{}}, "dispatch.yield %a2 : f32",
            {s.counts, s.ends, h});
    for (int64_t b = 0; b < s.rows(); ++b) {
      for (int64_t t = 0; t < s.length; ++t) {
        double expected = 0;
        for (int64_t q = t + 1; q < s.length && s.count(b, q - 1) == s.count(b, t - 1); ++q) {
          expected += h[b * c.positions + q];
        }
        ASSERT_EQ(found[b * c.positions + t], expected) << "row " << b << " position " << t;
      }
    }
  }

private:
  /// Integers exact in bf16 too.
  static Floats smallNumbers(int64_t count, unsigned seed) {
    Floats numbers = randomIntegers(count, seed, 9);
    for (float &number : numbers) {
      number -= 4;
    }
    return numbers;
  }
  static void add(std::vector<double> &row, const Floats &rows, int64_t from, double factor) {
    for (size_t i = 0; i < row.size(); ++i) {
      row[i] += factor * rows[from * int64_t(row.size()) + int64_t(i)];
    }
  }

  static TextAccess gather(const std::string &map, int64_t index) {
    return {.kind = "gather", .map = map, .factor = 0, .index = index};
  }
  static TextAccess range(const std::string &map, int64_t index, int64_t last) {
    return {.kind = "range", .map = map, .index = index, .last = last};
  }
  Seen ends(const std::string &map) const {
    return runOnNumbers(c.batch, c.capacity, {.map = map, .factor = 0, .extended = true});
  }
  Seen counts(const std::string &map) const {
    return runOnNumbers(c.batch, c.positions, {.map = map, .factor = 0});
  }
  /// The end of the segment of operand 0's count.
  Seen found_(const std::string &map) const {
    TextAccess access = gather(map, 0);
    access.extended = true;
    return runOnNumbers(c.batch, c.capacity, access);
  }
  Seen coarseRows() const {
    return {tensor({c.batch, c.capacity, c.d}, element), TextAccess{.factor = 0}};
  }
  Seen fineRows() const { return {tensor({c.batch, c.positions, c.d}, element), TextAccess{}}; }

  Floats run(int64_t positions, int64_t factor, const std::vector<Seen> &operands,
             const Seen &result, const std::string &body, std::vector<Floats> values) {
    SegmentRun kernel =
        make(rowsText({c.batch, positions, factor}, operands, {result}, body, tensor({c.d})));
    if (!kernel) {
      ADD_FAILURE() << "no kernel";
      return Floats(c.batch * std::max(c.positions, c.capacity) * c.d);
    }
    return kernel({.operands = std::move(values), .length = s.length, .rows = s.rows()})[0];
  }

  /// Compares rows of positions if they are valid; rows of segments always.
  void expectRows(const Floats &found, int64_t rows,
                  const std::function<std::vector<double>(int64_t b, int64_t r)> &expected) {
    bool isFine = rows == c.positions;
    for (int64_t b = 0; b < (isFine ? s.rows() : c.batch); ++b) {
      for (int64_t r = 0; r < (isFine ? s.length : rows); ++r) {
        std::vector<double> row = expected(b, r);
        for (int64_t column = 0; column < c.d; ++column) {
          // Shares are rounded once each, and sums of them here, of numbers up to 4, too.
          double bound = (element == "bf16" ? 0x1p-8 : 0x1p-22) * std::abs(row[column]) + 0x1p-44;
          ASSERT_NEAR(found[(b * rows + r) * c.d + column], row[column], bound)
              << "batch row " << b << " row " << r << " column " << column;
        }
      }
    }
  }

  const SegmentMake &make;
  const SegmentCase c;
  const SegmentTables &s;
  const std::string element;
  Floats fine, coarse;
};

} // namespace

void sluice::test::checkSegmentScans(const SegmentMake &make) {
  for (SegmentCase c :
       {SegmentCase{3, 37, 12, 1}, SegmentCase{2, 300, 300, 1}, SegmentCase{4, 1, 1, 1}}) {
    for (const char *element : {"f32", "bf16"}) {
      bool dense = element[0] == 'f';
      SegmentRun kernel = make(scanText(c, dense, element));
      ASSERT_TRUE(kernel);
      for (int oneIn : {1, 2, 40}) {
        SegmentTables s(c, std::max<int64_t>(c.positions - 4, 1), oneIn, 2);
        std::vector<Floats> found =
            kernel({.operands = {s.bits}, .length = s.length, .rows = s.rows()});
        ASSERT_EQ(found[0], s.counts) << "positions " << c.positions << " one in " << oneIn;
        ASSERT_EQ(found[1], s.ends) << "positions " << c.positions << " one in " << oneIn;
        ASSERT_EQ(found[2], s.totals) << "positions " << c.positions << " one in " << oneIn;
      }
    }
  }
}

void sluice::test::checkSegmentRows(const SegmentMake &make) {
  // Some segments and a tail; rows of 40 columns in bf16; every bit set, and one end per bit.
  for (SegmentCase c :
       {SegmentCase{3, 37, 16, 7}, SegmentCase{2, 19, 12, 40}, SegmentCase{2, 5, 5, 3}}) {
    bool wide = c.d == 40, full = c.d == 3;
    SegmentTables segments(c, c.positions - (full ? 0 : 4), full ? 1 : 5, 6);
    RowCases rows(make, c, segments, wide ? "bf16" : "f32");
    rows.checkPool();
    rows.checkPoolBackward();
    rows.checkSpread(1);
    rows.checkSpread(2);
    rows.checkSpreadBackward(1);
    rows.checkSpreadBackward(2);
    rows.checkSelect();
    rows.checkSuffix();
  }
}

namespace {

/// Undirected edges of B graphs of N rows, as a dense matrix and as lists of E entries.
struct Graph {
  Graph(int64_t batch, int64_t rows, int64_t entries, int oneIn)
      : rows(rows), entries(entries), dense(batch * rows * rows), lists(batch * (rows + entries)) {
    std::mt19937 random(static_cast<unsigned>(rows));
    for (int64_t b = 0; b < batch; ++b) {
      for (int64_t p = 0; p < rows; ++p) {
        for (int64_t q = 0; q < p; ++q) {
          bool isEdge = random() % static_cast<unsigned>(oneIn) == 0;
          dense[(b * rows + p) * rows + q] = dense[(b * rows + q) * rows + p] = isEdge ? 1 : 0;
        }
      }
      int64_t count = 0;
      float *list = &lists[b * (rows + entries)];
      for (int64_t p = 0; p < rows; ++p) {
        for (int64_t q = 0; q < rows; ++q) {
          if (at(b, p, q) != 0) {
            list[rows + count++] = float(q);
          }
        }
        list[p] = float(count);
      }
      EXPECT_LE(count, entries);
    }
  }
  float at(int64_t b, int64_t p, int64_t q) const { return dense[(b * rows + p) * rows + q]; }
  int64_t rows, entries;
  Floats dense, lists;
};

struct ListCase {
  int64_t batch, rows, d, length;
  int oneIn;
  std::string element;
  bool isWeighted;
};

void checkListSum(const SegmentMake &make, const ListCase &c) {
  Graph graph(c.batch, c.rows, c.rows * (c.rows - 1) + 1, c.oneIn);
  std::string lists = tensor({c.batch, c.rows + graph.entries}, "i32");
  std::string weights = tensor({c.batch, c.rows});
  std::string x =
      c.d > 0 ? tensor({c.batch, c.rows, c.d}, c.element) : tensor({c.batch, c.rows}, c.element);
  std::string row = c.d > 0 ? tensor({c.d}) : "f32";
  TextAccess sum{.kind = "range",
                 .map = "p + " + std::to_string(c.rows),
                 .index = 0,
                 .last = 1,
                 .list = 0,
                 .weight = c.isWeighted ? 2 : -1};
  SegmentRun kernel = make(rowsText({c.batch, c.rows, 1},
                                    {{lists, TextAccess{.map = "p - 1", .factor = 0}, "i32"},
                                     {lists, TextAccess{.factor = 0}, "i32"},
                                     {weights, TextAccess{}, "f32"},
                                     {x, sum, row}},
                                    {{x, TextAccess{}}}, "dispatch.yield %a3 : ROW", row));
  ASSERT_TRUE(kernel);
  int64_t width = std::max<int64_t>(c.d, 1);
  Floats numbers = randomIntegers(c.batch * c.rows * width, 3, 9),
         factors = randomIntegers(c.batch * c.rows, 4, 5);
  Floats found = kernel({.operands = {graph.lists, graph.lists, factors, numbers},
                         .length = c.length,
                         .rows = c.batch})[0];
  for (int64_t b = 0; b < c.batch; ++b) {
    for (int64_t p = 0; p < c.length; ++p) {
      for (int64_t column = 0; column < width; ++column) {
        float expected = 0;                      // exact: integers
        for (int64_t q = 0; q < c.length; ++q) { // later rows are zeros
          expected += graph.at(b, p, q) * (c.isWeighted ? factors[b * c.rows + q] : 1) *
                      numbers[(b * c.rows + q) * width + column];
        }
        double bound = c.element == "bf16" ? 0x1p-8 * expected : 0;
        ASSERT_NEAR(found[(b * c.rows + p) * width + column], expected, bound)
            << "batch row " << b << " row " << p << " column " << column;
      }
    }
  }
}

/// Sums with the weights of graph attention, over entries of a list or over blocks of 3 rows.
struct SoftmaxCase {
  int64_t batch, rows, d, length;
  std::string element;
  bool isListed, isTransposed, isSloped;
};

void checkSoftmaxSum(const SegmentMake &make, const SoftmaxCase &c) {
  constexpr float leak = 0.25F;
  Graph graph(c.batch, c.rows, c.rows * (c.rows - 1) + 1, 3);
  std::string lists = tensor({c.batch, c.isListed ? c.rows + graph.entries : c.rows}, "i32");
  std::string numbers = tensor({c.batch, c.rows}), x = tensor({c.batch, c.rows, c.d}, c.element);
  std::string row = tensor({c.d});
  TextAccess sum{.kind = "range",
                 .map = c.isListed ? "p + " + std::to_string(c.rows) : "p",
                 .index = 0,
                 .last = 1,
                 .list = c.isListed ? 0 : -1,
                 .softmax = "source = 2, target = 3, norm = 4, leak = 0.25 : f32"};
  sum.softmax += c.isTransposed ? " transposed = true" : "";
  sum.softmax += c.isSloped ? " slope = true" : "";
  TextAccess first = c.isListed ? TextAccess{.map = "p - 1", .factor = 0} : TextAccess{},
             last = c.isListed ? TextAccess{.factor = 0} : TextAccess{};
  SegmentRun kernel = make(rowsText({c.batch, c.rows, 1},
                                    {{lists, first, "i32"},
                                     {lists, last, "i32"},
                                     {numbers, TextAccess{}, "f32"},
                                     {numbers, TextAccess{}, "f32"},
                                     {numbers, TextAccess{}, "f32"},
                                     {x, sum, row}},
                                    {{x, TextAccess{}}}, "dispatch.yield %a5 : ROW", row));
  ASSERT_TRUE(kernel);
  Floats starts(c.batch * c.rows), ends(c.batch * c.rows);
  for (int64_t i = 0; i < c.batch * c.rows; ++i) {
    starts[i] = float(i % c.rows / 3 * 3);
    ends[i] = starts[i] + 3;
  }
  Floats source = randomIntegers(c.batch * c.rows, 5, 5),
         norm = randomIntegers(c.batch * c.rows, 7, 3),
         target = randomIntegers(c.batch * c.rows, 6, 5),
         values = randomIntegers(c.batch * c.rows * c.d, 8, 9);
  for (float &number : source) { // scores of both signs
    number -= 4;
  }
  Floats found =
      kernel({.operands = {c.isListed ? graph.lists : starts, c.isListed ? graph.lists : ends,
                           source, target, norm, values},
              .length = c.length,
              .rows = c.batch})[0];
  for (int64_t b = 0; b < c.batch; ++b) {
    for (int64_t p = 0; p < c.length; ++p) {
      for (int64_t column = 0; column < c.d; ++column) {
        double expected = 0, size = 0;
        for (int64_t q = 0; q < c.length; ++q) {
          bool isRead = c.isListed ? graph.at(b, p, q) != 0 : p / 3 == q / 3;
          int64_t from = b * c.rows + (c.isTransposed ? q : p),
                  to = b * c.rows + (c.isTransposed ? p : q);
          double score = source[from] + target[to], slope = score > 0 ? 1 : leak;
          double weight = std::exp(score * slope - norm[from]) * (c.isSloped ? slope : 1);
          double term = isRead ? weight * values[(b * c.rows + q) * c.d + column] : 0;
          expected += term;
          size += std::abs(term);
        }
        // Per term the exponential is 2 ulp off and a product 1/2; the sum adds 1/2 for each.
        double bound = (c.element == "bf16" ? 0x1p-8 : 0) * std::abs(expected) +
                       double(c.length + 4) * 0x1p-23 * size;
        ASSERT_NEAR(found[(b * c.rows + p) * c.d + column], expected, bound)
            << "batch row " << b << " row " << p << " column " << column;
      }
    }
  }
}

} // namespace

void sluice::test::checkListSums(const SegmentMake &make) {
  // Odd widths, below and above a vector; rows that are not valid; both directions and slopes.
  for (const SoftmaxCase &c : {SoftmaxCase{2, 7, 5, 7, "f32", true, false, false},
                               SoftmaxCase{1, 10, 33, 8, "bf16", true, true, true},
                               SoftmaxCase{2, 8, 1, 8, "f32", false, true, false},
                               SoftmaxCase{1, 7, 17, 5, "f32", false, false, true}}) {
    checkSoftmaxSum(make, c);
  }
  // A few neighbours; rows that are not valid; all pairs; one row without edges; numbers of rows.
  for (const ListCase &c :
       {ListCase{3, 17, 16, 17, 5, "f32", true}, ListCase{2, 9, 40, 7, 2, "bf16", true},
        ListCase{2, 5, 3, 5, 1, "f32", false}, ListCase{1, 1, 8, 1, 1, "f32", true},
        ListCase{2, 11, 0, 8, 3, "f32", true}}) {
    checkListSum(make, c);
  }
}
