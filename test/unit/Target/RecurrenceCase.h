// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Recurrences as dispatches, for every target's kernels.
#pragma once

#include "KernelHarness.h"
#include "RowsText.h"

namespace sluice::test {

/// A cell of one state s: s[p] = tanh(product + x[p]) + s[p - 1] / 2, and as a second result the
/// argument of tanh; `flags` are further attributes, "resets" with a last operand of numbers.
struct RecurrenceCase {
  int64_t columns;
  std::string flags;
  bool isScheduled = false;
  int64_t texts = 2;
  std::string weightType = "f32";

  /// Both directions; rows cut off by numbers and by places, their own or the previous row's.
  static std::vector<RecurrenceCase> list(int64_t columns) {
    return {{columns, ""},
            {columns, ", weighted"},
            {columns, ", weighted, by_input, reversed"},
            {columns, ", weighted, resets, reset_every = 4 : i64, reset_at = 3 : i64"},
            {columns, ", weighted, by_input, reversed, adjoint, resets"},
            {columns,
             ", weighted, by_input, reversed, adjoint, reset_every = 4 : i64, reset_at = 3 : i64"},
            {columns, ", reversed, reset_every = 3 : i64, reset_at = 1 : i64"},
            {columns, ", adjoint, reset_every = 4 : i64"},
            {columns, ", weighted, resets, reset_within = 1 : i64"},
            {columns, ", weighted, resets, reset_within = 3 : i64"},
            {columns, ", weighted, by_input, reversed, adjoint, resets, reset_within = 3 : i64"}};
  }
  bool has(const std::string &flag) const { return flags.find(flag) != std::string::npos; }
  /// Texts of 7 rows.
  KernelInputs launch() const {
    KernelInputs launch{.length = 7, .rows = texts};
    if (has("weighted")) {
      launch.operands.push_back(randomFloats(columns * columns, 1));
    }
    launch.operands.push_back(randomFloats(9 * texts * columns, 2));
    if (has("resets")) {
      launch.operands.push_back(randomIntegers(9 * texts, 3, 2));
    }
    int64_t within = has("reset_within = 1") ? 1 : 3;
    for (int64_t row = 0; row < 9 * texts && has("reset_within"); row += within) {
      launch.operands.back()[static_cast<size_t>(row)] = 1;
    }
    if (isScheduled) {
      launch.operands.push_back({0, 3, 3, 0, 1, 1}); // of two texts: first row, rows, length
    }
    return launch;
  }

  std::string text() const {
    bool isWeighted = has("weighted"), resets = has("resets");
    std::string rows = tensor({texts, 9, columns}), weight = tensor({columns, columns}, weightType),
                bits = tensor({texts, 9}, "i32"), schedule = tensor({texts, 3}, "i64");
    std::string types = (isWeighted ? weight + ", " : "") + rows + (resets ? ", " + bits : "") +
                        (isScheduled ? ", " + schedule : "");
    std::string values = std::string(isWeighted ? "%w, " : "") + "%x" + (resets ? ", %b" : "") +
                         (isScheduled ? ", %s" : "");
    return "func.func @f(%w: " + weight + ", %x: " + rows + ", %b: " + bits + ", %s: " + schedule +
           ") {\n%made:2 = dispatch.recurrence " + values +
           " attributes {domain = #dispatch.domain<batch = " + std::to_string(texts) +
           ", positions = 9, factor = 1" + (isScheduled ? ", scheduled = true" : "") +
           ">, accesses = [" + std::string(TextAccess{.factor = 1}) +
           "], columns = " + std::to_string(columns) + " : i64, carried = 1 : i64" + flags +
           "} {\n^bb0(" + (isWeighted ? "%product: f32, " : "") +
           "%input: f32, %before: f32):\n%half = arith.constant 0.5 : f32\n"
           "%kept = arith.mulf %before, %half : f32\n%sum = arith.addf %input, %" +
           (isWeighted ? "product" : "before") +
           " : f32\n%t = math.tanh %sum : f32\n%next = arith.addf %t, %kept : f32\n"
           "dispatch.yield %next, %sum : f32, f32\n} : (" +
           types + ") -> (" + rows + ", " + rows + ")\nreturn\n}";
  }
};

} // namespace sluice::test
