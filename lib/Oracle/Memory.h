// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Stored tensors as numbers, and the comparison of results with their expected values.
#pragma once

#include "Number.h"
#include "sluice/Dialect/Dispatch/Dispatch.h"
#include "sluice/Oracle/Oracle.h"

#include <unordered_set>

namespace sluice::oracle {

/// A tensor in memory as rows: rank 3 [B, T, d] is B T padded rows of d; a lower rank has one dense
/// row for each index of all but the last dimension.
class TensorRows {
public:
  TensorRows(mlir::Value tensor, const void *data);

  int64_t rows() const { return rowCount; }
  int64_t width() const { return columnCount; }
  bool isBf16() const { return ofBf16; }
  /// Checks for numbers of i8.
  bool isWhole() const { return ofWholes; }
  /// Returns a stored number; it is exact, because only computed values have errors.
  Number at(int64_t row, int64_t column) const {
    return {numbers[size_t(row * columnCount + column)], 0};
  }

private:
  std::vector<double> numbers; ///< [rows][width]
  bool ofBf16, ofWholes;
  int64_t rowCount, columnCount;
};

/// Compares a result's elements.
class ValueComparison {
public:
  ValueComparison(mlir::Operation *dispatch, const OracleLaunch &launch, unsigned result,
                  Judgement &judgement);
  ~ValueComparison();

  const TensorRows &stored() const { return memory; }
  /// Checks that element (row, column) is `expected`, with one rounding if it is stored as
  /// bf16 or i8.
  void check(int64_t row, int64_t column, Number expected);
  /// Checks that the sum of a column over all rows is `expected`, in f32.
  void checkSum(int64_t column, Number expected);

private:
  void count(double found, Number expected);
  void judge(int64_t row, int64_t column, Number expected, double found, double bound);

  const OracleLaunch &launch;
  unsigned result;
  Judgement &judgement;
  TensorRows memory;
  double signedUlps = 0;
  std::unordered_set<double> counted; ///< rounded numbers
};

/// Rows of a dispatch's domain: row b * positions + j is at position j of row b of the batch or, if
/// the domain is scheduled, at the j-th position from the start of that row's run.
class DomainRows {
public:
  DomainRows(mlir::Operation *dispatch, const OracleLaunch &launch);

  int64_t positions() const { return positionCount; }
  int64_t count() const { return domain.getLaunchRows(); }
  int64_t batch(int64_t row) const { return row / positions(); }
  int64_t position(int64_t row) const;
  bool isValid(int64_t row) const;
  int64_t validRows() const;
  /// Returns ceil(length / factor) for the tokens of the row's sequence, or `all` if the factor is
  /// 0.
  int64_t length(int64_t row, int64_t factor, int64_t all) const;
  /// Returns the row in the memory of a tensor [B, extent, ...] that holds a row.
  int64_t inMemory(int64_t extent, int64_t row) const {
    return batch(row) * extent + position(row) % extent;
  }

private:
  /// Returns start, count and length of a row of the batch; null if the domain is not scheduled.
  const int64_t *getRun(int64_t row) const {
    return schedule ? schedule + 3 * batch(row) : nullptr;
  }

  dispatch::DomainAttr domain;
  /// Copies of fields of the domain, which is too slow to query for millions of rows.
  const int64_t positionCount, domainFactor;
  const OracleLaunch &launch;
  const int64_t *schedule = nullptr;
};
/// Returns ceil(length / factor) of a row of the batch, or `all` if the factor is 0.
int64_t validLength(const OracleLaunch &launch, int64_t batch, int64_t factor, int64_t all);

} // namespace sluice::oracle
