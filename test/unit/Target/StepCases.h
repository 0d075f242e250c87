// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Dispatches over scheduled domains with their expected numbers: rings that wrap, and batch rows at
// different positions. Applied to every target's kernels.
#pragma once

#include "AttentionReference.h"
#include "RowsText.h"

namespace sluice::test {

/// Start, count and length of one batch row.
struct Due {
  int64_t start, count, length;
};

/// Rows of a ring [B, extent, width]. `at` is the index of `position` of batch row b.
struct Ring {
  int64_t batch, extent, width;
  std::string text(const std::string &element = "f32") const {
    return tensor({batch, extent, width}, element);
  }
  int64_t elements() const { return batch * extent * width; }
  int64_t at(int64_t b, int64_t position) const { return (b * extent + position % extent) * width; }
};

/// Runs a kernel: operands and results are dense row-major; unwritten elements hold `untouched`.
using KernelRunner = std::function<std::vector<Floats>(const std::vector<Floats> &operands)>;
/// Compiles a kernel from its text; null, with a test failure, on error.
using Make = std::function<KernelRunner(const std::string &text)>;

/// A sum over a shifted group of another ring, a row of a table, the row itself and its position,
/// `width` columns each.
void checkGroups(int64_t width, const Make &make);
/// Rows of segments, which no length counts: at a distance, and found by an index, each in a ring
/// of fewer rows than the positions; nulls before the first.
void checkSegmentRings(int64_t width, const Make &make);
/// Computations of schedules: integers selected by column, and their maximum.
void checkIntegers(const Make &make);

/// A contraction with a bias and a residual.
struct StepProduct {
  int64_t batch, burst, inner, columns;
  int64_t heads = 0, head = 8; ///< rotated
  bool half = false;
  /// Type of the weight, if it differs from the type of the input. With i8, whole numbers from -127
  /// to 127; with i4, whole numbers from -7 to 7 with a scale for each group. The bound of an
  /// element has the rounding of its row to i16.
  std::string weight = "";
  static constexpr int64_t positions = 23;

  bool isWhole() const { return weight == "i8" || weight == "i4"; }
  /// Groups of a row of a weight of i4.
  int64_t groups() const { return (inner + 31) / 32; }
  Ring input() const { return {batch, burst + 1, inner}; }
  Ring residual() const { return {batch, positions, columns}; }
  Ring result() const { return {batch, burst + 2, columns}; }
  std::string text() const;
};

void checkProduct(const StepProduct &c, const Make &make);
/// A weight of i8 or i4 and rows of whole numbers: every result is exact.
void checkWholeProduct(const StepProduct &c, const Make &make);
/// A weight of i8 and rows whose numbers all have the greatest magnitude: no sum overflows.
void checkGreatestProduct(int64_t inner, const Make &make);

/// Attention of due queries.
struct Decode {
  int64_t batch, burst, heads, kvHeads, head, keys; ///< `keys`: rows of the ring
  int64_t factor;
  MaskRelation relation;
  Score score;
  bool half = false;
  std::vector<std::vector<Due>> schedules;
  bool distances = false; ///< scores have products with rows by distance, in a ring as the keys'
  int64_t biasRows = 0;   ///< of a table of biases by distance; 0: none
  Floats counts = {};     ///< of keys by row of the batch; empty: by the length
  Floats keyRows = {};    ///< rows of the batch with the keys; empty: each row has its own

  int64_t keyRow(int64_t b) const { return keyRows.empty() ? b : int64_t(keyRows[b]); }
  int64_t width() const { return (heads + 2 * kvHeads) * head; }
  Ring query() const { return {batch, burst, width()}; }
  Ring key() const { return {batch, keys, width()}; }
  Ring output() const { return {batch, burst, heads * head}; }
  Ring lse() const { return {batch, burst, heads}; }
  Ring positionQuery() const { return {batch, burst, heads * head}; }
  Ring distance() const { return {batch, keys, heads * head}; }
  std::string text() const;
};

void checkDecode(const Decode &c, const Make &make);

} // namespace sluice::test
