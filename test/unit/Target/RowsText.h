// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// Writes dispatch.rows as text, and checks the results of their kernels.
#pragma once

#include "KernelHarness.h"

#include "gtest/gtest.h"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <iomanip>
#include <random>
#include <sstream>

namespace sluice::test {

using Floats = std::vector<float>;

/// An operand (with the type of its body argument) or a result of dispatch.rows.
struct Seen {
  std::string tensor;
  std::string access;
  std::string argument = "";
};

struct TextAccess {
  std::string kind = "row", map = "p";
  int64_t group = 1, factor = 1;
  std::string column = "0";
  int64_t index = -1;
  std::string outside = {}; ///< a number; empty: zeros
  int64_t last = -1;
  bool extended = false;
  int64_t list = -1, weight = -1;
  std::string softmax = {}; ///< parameters of its attribute; empty: none
  operator std::string() const {
    bool isFound = kind == "gather" || kind == "range";
    std::string position = map;
    std::replace(position.begin(), position.end(), 'p', isFound ? 'v' : 'p');
    return "#dispatch.access<" + kind + "[" + position + "], group = " + std::to_string(group) +
           ", factor = " + std::to_string(factor) + ", column = " + column +
           ", index = " + std::to_string(index) + ", last = " + std::to_string(last) +
           ", list = " + std::to_string(list) + ", weight = " + std::to_string(weight) +
           (outside.empty() ? "" : ", outside = " + outside + " : f32") +
           (softmax.empty() ? "" : ", softmax = #dispatch.softmax<" + softmax + ">") +
           (extended ? ", extended>" : ">");
  }
};

struct Domain {
  int64_t batch = 1, positions = 1, factor = 0;
  bool scheduled = false; ///< the last operand, after the listed ones, is the schedule
};

/// tensor<AxBxTYPE>
inline std::string tensor(std::initializer_list<int64_t> shape,
                          const std::string &element = "f32") {
  std::string text = "tensor<";
  for (int64_t size : shape) {
    text += std::to_string(size) + "x";
  }
  return text + element + ">";
}

/// Body arguments are %a0, %a1 ...; in the body ROW stands for `row`.
inline std::string rowsText(const Domain &domain, const std::vector<Seen> &operands,
                            const std::vector<Seen> &results, std::string body,
                            const std::string &row = "", bool zeroInvalid = false) {
  for (size_t at; (at = body.find("ROW")) != std::string::npos;) {
    body.replace(at, 3, row);
  }
  std::string parameters, names, types, accesses, arguments, resultTypes, resultAccesses;
  for (size_t i = 0; i < operands.size(); ++i) {
    std::string comma = i ? ", " : "", number = std::to_string(i);
    parameters += comma + "%x" + number + ": " + operands[i].tensor;
    names += comma + "%x" + number;
    types += comma + operands[i].tensor;
    accesses += comma + operands[i].access;
    arguments += comma + "%a" + number + ": " + operands[i].argument;
  }
  if (domain.scheduled) {
    std::string comma = operands.empty() ? "" : ", ", type = tensor({domain.batch, 3}, "i64");
    parameters += comma + "%schedule: " + type;
    names += comma + "%schedule";
    types += comma + type;
  }
  for (size_t i = 0; i < results.size(); ++i) {
    resultTypes += (i ? ", " : "") + results[i].tensor;
    resultAccesses += (i ? ", " : "") + results[i].access;
  }
  return "func.func @f(" + parameters + ") {\n  %r:" + std::to_string(results.size()) +
         " = dispatch.rows " + names +
         " attributes {domain = #dispatch.domain<batch = " + std::to_string(domain.batch) +
         ", positions = " + std::to_string(domain.positions) +
         ", factor = " + std::to_string(domain.factor) +
         (domain.scheduled ? ", scheduled = true" : "") + ">, accesses = [" + accesses +
         "], result_accesses = [" + resultAccesses + "]" + (zeroInvalid ? ", zero_invalid" : "") +
         "} {\n^bb0(" + arguments + "):\n" + body + "\n} : (" + types + ") -> (" + resultTypes +
         ")\n  return\n}\n";
}

/// Results: the maximum of rows k p + i - shift of the first operand, zeros where there is none;
/// and, for k concatenated rows, the second operand at the first position of the maximum.
inline std::string maxText(int64_t batch, int64_t fine, int64_t d, int64_t k, int64_t shift,
                           const std::string &element = "f32") {
  int64_t coarse = (fine + k - 1) / k;
  std::string row = tensor({d}), group = tensor({k, d}), places = tensor({k, d}, "i32");
  std::string body = R"(%m = dispatch.reduce_group max %a0 : GROUP -> ROW
  %low = arith.constant dense<0xFF800000> : ROW
  %none = arith.cmpf oeq, %m, %low : ROW
  %zeros = arith.constant dense<0.0> : ROW
  %y = arith.select %none, %zeros, %m : BITS, ROW
  %ms = dispatch.spread %m : ROW -> GROUP
  %reached = arith.cmpf oeq, %a0, %ms : GROUP
  %column = dispatch.column : PLACES
  %zero = arith.constant dense<0> : PLACES
  %place = arith.subi %zero, %column : PLACES
  %beyond = arith.constant dense<-1000000> : PLACES
  %candidates = arith.select %reached, %place, %beyond : MANY, PLACES
  %best = dispatch.reduce_group max %candidates : PLACES -> PLACE
  %bests = dispatch.spread %best : PLACE -> PLACES
  %first = arith.cmpi eq, %place, %bests : PLACES
  %g = dispatch.spread %a1 : ROW -> GROUP
  %nothing = arith.constant dense<0.0> : GROUP
  %z = arith.select %first, %g, %nothing : MANY, GROUP
  dispatch.yield %y, %z : ROW, GROUP)";
  for (auto [name, type] : {std::pair<std::string, std::string>{"GROUP", group},
                            {"PLACES", places},
                            {"PLACE", tensor({d}, "i32")},
                            {"BITS", tensor({d}, "i1")},
                            {"MANY", tensor({k, d}, "i1")}}) {
    for (size_t at; (at = body.find(name)) != std::string::npos;) {
      body.replace(at, name.size(), type);
    }
  }
  std::string map = std::to_string(k) + " * p + i - " + std::to_string(shift);
  TextAccess own{.factor = k}, rows{.map = map, .group = k, .outside = "0xFF800000"};
  return rowsText(
      {batch, coarse, k},
      {{tensor({batch, fine, d}, element), rows, group},
       {tensor({batch, coarse, d}, element), own, row}},
      {{tensor({batch, coarse, d}, element), own}, {tensor({batch, coarse, k * d}, element), own}},
      body, row);
}

/// The product of rows k p + i - shift, and their minimum, in order: custom combiners.
inline std::string combinersText(int64_t batch, int64_t fine, int64_t d, int64_t k, int64_t shift) {
  int64_t coarse = (fine + k - 1) / k;
  std::string row = tensor({d}), group = tensor({k, d});
  auto combined = [&](const std::string &name, const std::string &rows, const std::string &op,
                      const std::string &identity) {
    return name + " = dispatch.reduce_group combine " + rows + " identity " + identity +
           " : f32 {\n^bb0(%s: f32, %l: f32):\n%n = " + op +
           " %s, %l : f32\ndispatch.yield %n : f32\n} : " + group + " -> " + row + "\n";
  };
  std::string map = std::to_string(k) + " * p + i - " + std::to_string(shift);
  TextAccess own{.factor = k}, ones{.map = map, .group = k, .outside = "1.0"},
      most{.map = map, .group = k, .outside = "0x7F800000"};
  return rowsText(
      {batch, coarse, k},
      {{tensor({batch, fine, d}), ones, group}, {tensor({batch, fine, d}), most, group}},
      {{tensor({batch, coarse, d}), own}, {tensor({batch, coarse, d}), own}},
      combined("%p", "%a0", "arith.mulf", "1.0") +
          combined("%m", "%a1", "arith.minimumf", "0x7F800000") +
          "dispatch.yield %p, %m : ROW, ROW",
      row);
}

inline Floats randomFloats(int64_t count, unsigned seed, float low = -1, float high = 1) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<float> distribution(low, high);
  Floats values(count);
  for (float &value : values) {
    value = distribution(engine);
  }
  return values;
}

inline Floats randomIntegers(int64_t count, unsigned seed, int limit) {
  std::mt19937 engine(seed);
  Floats values(count);
  for (float &value : values) {
    value = float(engine() % limit);
  }
  return values;
}

/// Runs in the natural order and in another one on three threads: the bits must agree.
inline std::vector<Floats> runTwice(const LoadedKernel &kernel, KernelInputs launch) {
  std::vector<Floats> first = kernel.run(launch);
  launch.shuffle = 7;
  launch.threads = 3;
  std::vector<Floats> second = kernel.run(launch);
  for (size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(std::memcmp(first[i].data(), second[i].data(), first[i].size() * sizeof(float)), 0)
        << "result " << i << " depends on the order of the items";
  }
  return first;
}

/// One rounding of f32, relative.
constexpr double unit = 0x1p-24;
constexpr float untouched = 1e30f;

/// Columns of a row of d, from `first` on: zeros before the first and after the last.
struct ColumnRange {
  int64_t d, first, width;
  /// The dispatch reads the row before its own, which row 0 lacks.
  std::string text(int64_t batch, int64_t positions) const {
    return rowsText({batch, positions, 1},
                    {{tensor({batch, positions, d}),
                      TextAccess{.map = "p - 1", .column = std::to_string(first), .outside = "0.0"},
                      tensor({width})}},
                    {{tensor({batch, positions, width}), TextAccess{}}}, "dispatch.yield %a0 : ROW",
                    tensor({width}));
  }
};
constexpr ColumnRange columnRanges[] = {{10, -10, 24}, {10, 0, 24}, {7, 1, 5},
                                        {16, -3, 40},  {5, -1, 3},  {33, 8, 17}};

} // namespace sluice::test
