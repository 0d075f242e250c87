// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "StepCases.h"

#include <algorithm>

using namespace sluice;
using namespace sluice::test;

static Floats findSchedule(const std::vector<Due> &runs) {
  Floats numbers;
  for (const Due &run : runs) {
    numbers.insert(numbers.end(), {float(run.start), float(run.count), float(run.length)});
  }
  return numbers;
}

/// Memory that kernels do not write is unchanged.
static void expectUntouchedElsewhere(const Floats &result, const Ring &ring,
                                     const std::vector<Due> &runs) {
  std::vector<bool> due(result.size());
  for (int64_t b = 0; b < ring.batch; ++b) {
    for (int64_t j = 0; j < runs[b].count; ++j) {
      auto first = due.begin() + ring.at(b, runs[b].start + j);
      std::fill(first, first + ring.width, true);
    }
  }
  for (size_t i = 0; i < result.size(); ++i) {
    ASSERT_TRUE(due[i] || result[i] == untouched) << "element " << i << " was written";
  }
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

void test::checkGroups(int64_t d, const Make &make) {
  constexpr int64_t table = 9;
  const std::vector<std::vector<Due>> schedules = {
      {{0, 1, 1}, {0, 0, 1}, {3, 2, 9}},
      {{5, 1, 11}, {7, 2, 17}, {8, 0, 17}},
      {{0, 0, 0}, {0, 0, 0}, {0, 0, 0}},
      {{0, 2, 4}, {1, 2, 5}, {7, 1, 16}},
  };
  Ring fine{3, 7, d}, own{3, 2, d}, result{3, 3, d};
  std::string row = tensor({d});
  std::string text = rowsText(
      {3, 2, 2, true},
      {{fine.text(), TextAccess{.map = "2 * p + i - 3", .group = 2}, tensor({2, d})},
       {tensor({table, d}), TextAccess{.kind = "table", .factor = 0}, row},
       {own.text(), TextAccess{.factor = 2}, row}},
      {{result.text(), TextAccess{.factor = 2}}, {tensor({3, 3}), TextAccess{.factor = 2}}},
      "%sum = dispatch.reduce_group add %a0 : " + tensor({2, d}) + " -> ROW\n" +
          "%x = arith.addf %sum, %a1 : ROW\n%y = arith.addf %x, %a2 : ROW\n" +
          "%p = dispatch.position\n%f = arith.sitofp %p : i32 to f32\n" +
          "dispatch.yield %y, %f : ROW, f32",
      row);
  Floats x = randomFloats(fine.elements(), 1), angles = randomFloats(table * d, 2),
         residual = randomFloats(own.elements(), 3);
  KernelRunner run = make(text);
  ASSERT_TRUE(run);
  for (const std::vector<Due> &runs : schedules) {
    auto results = run({x, angles, residual, findSchedule(runs)});
    expectUntouchedElsewhere(results[0], result, runs);
    expectUntouchedElsewhere(results[1], {3, 3, 1}, runs);
    for (int64_t b = 0; b < 3; ++b) {
      for (int64_t p = runs[b].start; p < runs[b].start + runs[b].count; ++p) {
        EXPECT_EQ(results[1][b * 3 + p % 3], float(p));
        for (int64_t c = 0; c < d; ++c) {
          double sum = double(angles[p * d + c]) + residual[own.at(b, p) + c];
          for (int64_t q = 2 * p - 3; q < 2 * p - 1; ++q) {
            sum += q >= 0 && q < runs[b].length ? x[fine.at(b, q) + c] : 0;
          }
          ASSERT_NEAR(results[0][result.at(b, p) + c], sum, 4 * 4 * unit) << b << " " << p;
        }
      }
    }
  }
}

void test::checkSegmentRings(int64_t d, const Make &make) {
  const std::vector<std::vector<Due>> schedules = {
      {{0, 2, 2}, {9, 1, 10}, {30, 0, 30}},
      {{3, 1, 4}, {17, 2, 19}, {6, 2, 8}},
  };
  Ring found{3, 5, d}, before{3, 3, d}, result{3, 2, d};
  std::string row = tensor({d}), numbers = tensor({3, 4}, "i32");
  std::string text = rowsText(
      {3, 2, 1, true},
      {{numbers, TextAccess{.map = "p - 1", .factor = 0}, "i32"},
       {found.text(), TextAccess{.kind = "gather", .map = "p - 2", .factor = 0, .index = 0}, row},
       {before.text(), TextAccess{.map = "p - 4", .factor = 0}, row},
       {numbers, TextAccess{.map = "p - 3", .factor = 0, .extended = true}, "i32"}},
      {{result.text(), TextAccess{.factor = 0}}, {tensor({3, 2}, "i32"), TextAccess{.factor = 0}}},
      "%sum = arith.addf %a1, %a2 : ROW\ndispatch.yield %sum, %a3 : ROW, i32", row);
  Floats indices = randomIntegers(3 * 4, 1, 40), x = randomFloats(found.elements(), 2),
         y = randomFloats(before.elements(), 3), ends = randomIntegers(3 * 4, 4, 100);
  KernelRunner run = make(text);
  ASSERT_TRUE(run);
  for (const std::vector<Due> &runs : schedules) {
    auto results = run({indices, x, y, ends, findSchedule(runs)});
    expectUntouchedElsewhere(results[0], result, runs);
    for (int64_t b = 0; b < 3; ++b) {
      for (int64_t p = runs[b].start; p < runs[b].start + runs[b].count; ++p) {
        int64_t q = (p >= 1 ? int64_t(indices[b * 4 + (p - 1) % 4]) : 0) - 2;
        EXPECT_EQ(results[1][b * 2 + p % 2], p >= 3 ? ends[b * 4 + (p - 3) % 4] : float(p - 3));
        for (int64_t c = 0; c < d; ++c) {
          float sum =
              (q >= 0 ? x[found.at(b, q) + c] : 0) + (p >= 4 ? y[before.at(b, p - 4) + c] : 0);
          ASSERT_EQ(results[0][result.at(b, p) + c], sum) << b << " " << p;
        }
      }
    }
  }
}

void test::checkIntegers(const Make &make) {
  std::string row = tensor({3}, "i64"), flags = tensor({3}, "i1");
  std::string body = R"(%one = arith.constant 1 : i64
    %zero = arith.constant 0 : i64
    %four = arith.constant 4 : i64
    %next = arith.addi %a0, %one : i64
    %before = arith.floordivsi %a0, %four : i64
    %now = arith.floordivsi %next, %four : i64
    %difference = arith.subi %now, %before : i64
    %count = arith.muli %difference, %a1 : i64
    %starts = tensor.splat %before : tensor<3xi64>
    %counts = tensor.splat %count : tensor<3xi64>
    %lengths = tensor.splat %next : tensor<3xi64>
    %column = dispatch.column : tensor<3xi32>
    %zeros = arith.constant dense<0> : tensor<3xi32>
    %ones = arith.constant dense<1> : tensor<3xi32>
    %isStart = arith.cmpi eq, %column, %zeros : tensor<3xi32>
    %isCount = arith.cmpi eq, %column, %ones : tensor<3xi32>
    %rest = arith.select %isCount, %counts, %lengths : tensor<3xi1>, tensor<3xi64>
    %all = arith.select %isStart, %starts, %rest : tensor<3xi1>, tensor<3xi64>
    dispatch.yield %all : tensor<3xi64>)";
  TextAccess flat{.kind = "flat", .factor = 0};
  std::string text =
      rowsText({5, 1, 0}, {{tensor({5}, "i64"), flat, "i64"}, {tensor({5}, "i64"), flat, "i64"}},
               {{tensor({5, 3}, "i64"), flat}}, body);
  KernelRunner run = make(text);
  ASSERT_TRUE(run);
  EXPECT_EQ(run({{0, 3, 6, 7, 7}, {1, 1, 1, 1, 0}})[0],
            (Floats{0, 0, 1, 0, 1, 4, 1, 0, 7, 1, 1, 8, 1, 0, 8}));
  std::string numbers = tensor({40}, "i64");
  KernelRunner greatest = make(
      rowsText({1, 1, 0}, {{numbers, TextAccess{.kind = "vector", .factor = 0}, numbers}},
               {{"tensor<i64>", TextAccess{.kind = "scalar", .factor = 0}}},
               "%m = dispatch.reduce max %a0 : " + numbers + " -> i64\ndispatch.yield %m : i64"));
  ASSERT_TRUE(greatest);
  Floats sizes(40, -1e12f);
  EXPECT_EQ(greatest({sizes})[0], Floats{-1e12f});
  sizes[37] = 3e12f;
  EXPECT_EQ(greatest({sizes})[0], Floats{3e12f});
}

//===----------------------------------------------------------------------===//
// Contractions
//===----------------------------------------------------------------------===//

std::string StepProduct::text() const {
  std::string element = half ? "bf16" : "f32",
              matrix = weight == "i4" ? tensor({columns * groups(), 16}, "i8")
                                      : tensor({columns, inner}, weight.empty() ? element : weight),
              bias = tensor({columns}), angles = tensor({positions, head}),
              runs = tensor({batch, 3}, "i64");
  std::vector<std::string> types{input().text(element), matrix, bias, residual().text()};
  std::string accesses =
      std::string(TextAccess{.kind = "vector"}) + ", " + std::string(TextAccess{});
  if (heads > 0) {
    types.push_back(angles);
    accesses += ", " + std::string(TextAccess{.kind = "table", .factor = 0});
  }
  if (weight == "i4") {
    types.push_back(tensor({columns * groups()}));
    accesses += ", " + std::string(TextAccess{.kind = "vector"});
  }
  types.push_back(runs);
  std::string parameters, names, list;
  for (size_t i = 0; i < types.size(); ++i) {
    std::string comma = i ? ", " : "", name = "%x" + std::to_string(i);
    parameters += comma + name + ": " + types[i];
    names += comma + name;
    list += comma + types[i];
  }
  return "func.func @f(" + parameters + ") {\n%y = dispatch.contract " + names +
         " attributes {domain = #dispatch.domain<batch = " + std::to_string(batch) +
         ", positions = " + std::to_string(burst) +
         ", factor = 1, scheduled = true>, accesses = [" + accesses + "], result_accesses = [" +
         std::string(TextAccess{}) + "]" +
         (heads ? ", rotated_columns = " + std::to_string(heads * head) + " : i64" : "") +
         (weight == "i4" ? ", grouped" : "") +
         "} {\n^bb0(%acc: f32, %b: f32, %r: f32):\n%s = arith.addf %acc, %b : f32\n" +
         "%t = arith.addf %s, %r : f32\ndispatch.yield %t : f32\n} : (" + list + ") -> " +
         result().text() + "\nreturn\n}\n";
}

static Floats computeAngles(int64_t positions, int64_t head) {
  Floats table;
  for (int64_t i = 0; i < positions * head; ++i) {
    double angle = double(i / head) / std::pow(100.0, double(i % head / 2) / double(head));
    table.push_back(float(i % 2 == 0 ? std::cos(angle) : std::sin(angle)));
  }
  return table;
}

/// Runs that differ by batch row: none, one, all; `seed` rotates them.
static std::vector<Due> getRunList(int64_t batch, int64_t burst, int64_t seed) {
  std::vector<Due> runs;
  for (int64_t b = 0; b < batch; ++b) {
    int64_t count = (b + seed) % 3 == 0   ? burst
                    : (b + seed) % 3 == 1 ? 0
                                          : std::min<int64_t>(1, burst);
    int64_t start = (7 * b + 5 * seed) % (StepProduct::positions - burst);
    runs.push_back({start, count, start + count});
  }
  return runs;
}

/// Returns whole numbers of weights as a kernel reads them: one per number, or the bytes of groups.
static Floats packWeights(const StepProduct &c, const Floats &w) {
  if (c.weight != "i4") {
    return w;
  }
  Floats bytes;
  for (int64_t row = 0; row < c.columns * c.groups(); ++row) {
    auto at = [&](int64_t j) {
      int64_t k = row % c.groups() * 32 + j;
      return k < c.inner ? w[row / c.groups() * c.inner + k] : 0;
    };
    for (int64_t j = 0; j < 16; ++j) {
      bytes.push_back(at(j) + 8 + 16 * at(j + 16));
    }
  }
  return bytes;
}

void test::checkProduct(const StepProduct &c, const Make &make) {
  KernelRunner run = make(c.text());
  ASSERT_TRUE(run);
  Floats x = randomFloats(c.input().elements(), 1), w = randomFloats(c.columns * c.inner, 2),
         bias = randomFloats(c.columns, 3), residual = randomFloats(c.residual().elements(), 4),
         angles = computeAngles(StepProduct::positions, c.head),
         scales = randomFloats(c.columns * c.groups(), 5);
  if (c.isWhole()) {
    int64_t most = c.weight == "i8" ? 127 : 7;
    w = randomIntegers(c.columns * c.inner, -most, most);
  }
  Floats packed = packWeights(c, w);
  auto stored = [&](float number) { return double(c.half ? toBf16(number) : number); };
  auto storedWeight = [&](int64_t n, int64_t k) {
    float number = w[n * c.inner + k];
    return c.weight == "bf16" ? double(toBf16(number))
           : c.weight == "i8" ? double(number)
           : c.weight == "i4" ? double(number) * double(scales[n * c.groups() + k / 32])
                              : stored(number);
  };
  for (int64_t seed : {0, 1, 2}) {
    std::vector<Due> runs = getRunList(c.batch, c.burst, seed);
    std::vector<Floats> operands = {x, packed, bias, residual};
    if (c.heads > 0) {
      operands.push_back(angles);
    }
    if (c.weight == "i4") {
      operands.push_back(scales);
    }
    operands.push_back(findSchedule(runs));
    Floats y = run(operands)[0];
    expectUntouchedElsewhere(y, c.result(), runs);
    for (int64_t b = 0; b < c.batch; ++b) {
      for (int64_t p = runs[b].start; p < runs[b].start + runs[b].count; ++p) {
        std::vector<double> row(c.columns), bound(c.columns);
        double most = 0;
        for (int64_t k = 0; k < c.inner; ++k) {
          most = std::max(most, std::abs(stored(x[c.input().at(b, p) + k])));
        }
        double rounding = c.isWhole() ? most / 32767 / 2 + 4 * unit * most : 0;
        for (int64_t n = 0; n < c.columns; ++n) {
          double sum = 0, magnitude = 0, rounded = 0;
          for (int64_t k = 0; k < c.inner; ++k) {
            double factor = storedWeight(n, k);
            double term = stored(x[c.input().at(b, p) + k]) * factor;
            sum += term;
            magnitude += std::abs(term);
            rounded += std::abs(factor) * rounding;
          }
          row[n] = sum + bias[n] + residual[c.residual().at(b, p) + n];
          bound[n] = double(c.inner + 4) * unit * (magnitude + 2) + rounded;
        }
        for (int64_t n = 0; n < c.columns; ++n) {
          double expected = row[n], limit = bound[n];
          if (n < c.heads * c.head) {
            int64_t pair = n - n % 2, at = p * c.head + n % c.head / 2 * 2;
            double cosine = angles[at], sine = angles[at + 1];
            expected = n % 2 == 0 ? row[pair] * cosine - row[pair + 1] * sine
                                  : row[pair] * sine + row[pair + 1] * cosine;
            limit = bound[pair] + bound[pair + 1] +
                    4 * unit * (std::abs(row[pair]) + std::abs(row[pair + 1]));
          }
          ASSERT_NEAR(y[c.result().at(b, p) + n], expected, limit)
              << "batch " << c.batch << " burst " << c.burst << " K " << c.inner << " N "
              << c.columns << " at " << b << ", " << p << ", " << n;
        }
      }
      // Alone, a row gets the same bits.
      std::vector<Due> alone(c.batch, Due{0, 0, 0});
      alone[b] = runs[b];
      operands.back() = findSchedule(alone);
      Floats own = run(operands)[0];
      for (int64_t i = 0; i < runs[b].count * c.columns; ++i) {
        int64_t at = c.result().at(b, runs[b].start + i / c.columns) + i % c.columns;
        ASSERT_EQ(own[at], y[at]);
      }
    }
  }
}

void test::checkWholeProduct(const StepProduct &c, const Make &make) {
  KernelRunner run = make(c.text());
  ASSERT_TRUE(run);
  // Every row has the scale 1, and sums stay below 2^24.
  Floats x = randomIntegers(c.input().elements(), -3, 3),
         w = randomIntegers(c.columns * c.inner, c.weight == "i8" ? -127 : -7,
                            c.weight == "i8" ? 127 : 7),
         bias = randomIntegers(c.columns, -9, 9),
         residual = randomIntegers(c.residual().elements(), -9, 9);
  for (int64_t row = 0; row < c.input().elements() / c.inner; ++row) {
    x[row * c.inner + row * 5 % c.inner] = 32767;
  }
  std::vector<Due> runs = getRunList(c.batch, c.burst, 0);
  std::vector<Floats> operands{x, packWeights(c, w), bias, residual};
  if (c.weight == "i4") {
    operands.emplace_back(c.columns * c.groups(), 1.0F);
  }
  operands.push_back(findSchedule(runs));
  Floats y = run(operands)[0];
  for (int64_t b = 0; b < c.batch; ++b) {
    for (int64_t p = runs[b].start; p < runs[b].start + runs[b].count; ++p) {
      for (int64_t n = 0; n < c.columns; ++n) {
        double sum = double(bias[n]) + residual[c.residual().at(b, p) + n];
        for (int64_t k = 0; k < c.inner; ++k) {
          sum += double(x[c.input().at(b, p) + k]) * w[n * c.inner + k];
        }
        ASSERT_EQ(y[c.result().at(b, p) + n], sum) << c.inner << " " << b << " " << p << " " << n;
      }
    }
  }
}

void test::checkGreatestProduct(int64_t inner, const Make &make) {
  StepProduct c{.batch = 1, .burst = 1, .inner = inner, .columns = 3, .weight = "i8"};
  KernelRunner run = make(c.text());
  ASSERT_TRUE(run);
  Floats x(c.input().elements(), 2), w(3 * inner, 127), zeros(c.columns),
      residual(c.residual().elements());
  std::fill_n(w.begin() + inner, inner, -127.0F);
  Floats y = run({x, w, zeros, residual, findSchedule({{0, 1, 1}})})[0];
  for (int64_t n = 0; n < 3; ++n) {
    double sum = (n == 1 ? -254.0 : 254.0) * double(inner);
    EXPECT_NEAR(y[n], sum, 16 * unit * std::abs(sum)) << inner;
  }
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

/// The region names its arguments %s, %p, %q, %h.
static std::string scoreText(const Score &score) {
  std::string body = score.text;
  for (size_t at = 0; (at = body.find("%q", at)) != std::string::npos; at += 3) {
    body.replace(at, 2, "%q0");
  }
  return body + "\n";
}

std::string Decode::text() const {
  auto number = [](int64_t value) { return std::to_string(value) + " : i64"; };
  std::string element = half ? "bf16" : "f32", runs = tensor({batch, 3}, "i64"),
              types =
                  query().text(element) + ", " + key().text(element) + ", " + key().text(element),
              names, arguments;
  auto add = [&](const std::string &name, const std::string &type) {
    names += ", " + name;
    arguments += ", " + name + ": " + type;
    types += ", " + type;
  };
  if (distances) {
    add("%x", positionQuery().text(element));
    add("%d", distance().text(element));
  }
  if (biasRows > 0) {
    add("%b", tensor({biasRows, heads}));
  }
  if (!counts.empty()) {
    add("%n", tensor({batch}, "i64"));
  }
  if (!keyRows.empty()) {
    add("%rows", tensor({batch}, "i32"));
  }
  add("%runs", runs);
  return "func.func @f(%q: " + query().text(element) + ", %k: " + key().text(element) +
         ", %v: " + key().text(element) + arguments +
         ") {\n%o, %l = dispatch.attention %q, %k, %v" + names +
         " attributes {domain = "
         "#dispatch.domain<batch = " +
         std::to_string(batch) + ", positions = " + std::to_string(burst) +
         ", factor = " + std::to_string(factor) + ", scheduled = true>, heads = " + number(heads) +
         ", kv_heads = " + number(kvHeads) + ", head_size = " + number(head) +
         ", query_column = 0 : i64, key_column = " + number(heads * head) +
         ", value_column = " + number((heads + kvHeads) * head) + ", mask = " + relation.text +
         (biasRows > 0 ? ", distance_bias" : "") + "} {\n^bb0(" +
         (distances && !score.joint ? "%dot" : "%s") + ": f32, %p: i32, %q0: i32, %h: i32" +
         termArguments(score, distances, biasRows > 0) + "):\n" + sumOfTerms(score, distances) +
         scoreText(score) +
         (biasRows > 0 ? "%sum = arith.addf %r, %e : f32\ndispatch.yield %sum"
                       : "dispatch.yield %r") +
         " : f32\n} : (" + types + ") -> (" + output().text() + ", " + lse().text() +
         ")\nreturn\n}\n";
}
void test::checkDecode(const Decode &c, const Make &make) {
  KernelRunner run = make(c.text());
  ASSERT_TRUE(run);
  Floats query = randomFloats(c.query().elements(), 5), keys = randomFloats(c.key().elements(), 6),
         values = randomFloats(c.key().elements(), 7),
         positionQueries = randomFloats(c.positionQuery().elements(), 8),
         distances = randomFloats(c.distance().elements(), 9),
         biases = randomFloats(c.biasRows * c.heads, 10);
  auto stored = [&](float number) { return double(c.half ? toBf16(number) : number); };
  for (const std::vector<Due> &runs : c.schedules) {
    std::vector<Floats> operands = {query, keys, values};
    if (c.distances) {
      operands.insert(operands.end(), {positionQueries, distances});
    }
    if (c.biasRows > 0) {
      operands.push_back(biases);
    }
    if (!c.counts.empty()) {
      operands.push_back(c.counts);
    }
    if (!c.keyRows.empty()) {
      operands.push_back(c.keyRows);
    }
    operands.push_back(findSchedule(runs));
    auto results = run(operands);
    expectUntouchedElsewhere(results[0], c.output(), runs);
    expectUntouchedElsewhere(results[1], c.lse(), runs);
    for (int64_t b = 0; b < c.batch; ++b) {
      int64_t n = c.counts.empty() ? (runs[b].length + c.factor - 1) / c.factor
                                   : static_cast<int64_t>(c.counts[c.keyRow(b)]);
      for (int64_t i = 0; i < runs[b].count * c.heads; ++i) {
        int64_t p = runs[b].start + i / c.heads, h = i % c.heads, hk = h / (c.heads / c.kvHeads);
        std::vector<std::pair<int64_t, double>> scores;
        double greatest = -INFINITY, error = 0, total = 0;
        for (int64_t q = 0; q < n; ++q) {
          if (!c.relation.holds(p, q, n)) {
            continue;
          }
          double dot = 0, byDistance = 0, magnitude = 0;
          for (int64_t e = 0; e < c.head; ++e) {
            double term = stored(query[c.query().at(b, p) + h * c.head + e]) *
                          stored(keys[c.key().at(c.keyRow(b), q) + (c.heads + hk) * c.head + e]);
            dot += term;
            magnitude += std::abs(term);
          }
          for (int64_t e = 0; c.distances && e < c.head; ++e) {
            double term = stored(positionQueries[c.positionQuery().at(b, p) + h * c.head + e]) *
                          stored(distances[c.distance().at(b, p - q) + h * c.head + e]);
            byDistance += term;
            magnitude += std::abs(term);
          }
          double bias = c.biasRows > 0 ? biases[std::min(p - q, c.biasRows - 1) * c.heads + h] : 0;
          double score = c.score.joint ? c.score.joint(dot, byDistance)
                                       : c.score.value(dot + byDistance, p, q, h);
          scores.push_back({q, score + bias});
          greatest = std::max(greatest, scores.back().second);
          error = std::max(error, double(2 * c.head + 4) * unit * magnitude +
                                      8 * unit * (1 + std::abs(scores.back().second)));
        }
        for (auto &[q, score] : scores) {
          score = std::exp(score - greatest);
          total += score;
        }
        // Each probability is off by twice a score's error, and a sum by a rounding per term.
        double bound = 2 * error + double(n + 24) * unit;
        int64_t at = c.lse().at(b, p) + h;
        if (scores.empty()) {
          EXPECT_EQ(results[1][at], -INFINITY);
        } else {
          ASSERT_NEAR(results[1][at], greatest + std::log(total),
                      bound + 4 * unit * std::abs(greatest));
        }
        for (int64_t e = 0; e < c.head; ++e) {
          double sum = 0;
          for (auto [q, chance] : scores) {
            int64_t row = c.key().at(c.keyRow(b), q);
            sum += chance / total * stored(values[row + (c.heads + c.kvHeads + hk) * c.head + e]);
          }
          ASSERT_NEAR(results[0][c.output().at(b, p) + h * c.head + e], sum, bound)
              << "head size " << c.head << " keys " << c.keys << " row " << b << " position " << p
              << " head " << h;
        }
      }
    }
  }
}
