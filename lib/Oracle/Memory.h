// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Stored tensors read as numbers, and results compared with what they should be.
#pragma once

#include "Number.h"
#include "sluice/Dialect/Dispatch/Dispatch.h"
#include "sluice/Oracle/Oracle.h"

#include <unordered_set>

namespace sluice::oracle {

/// A tensor in memory, seen as rows: rank 3 [B, T, d] is B T padded rows of d, a lower rank one
/// dense row for all but the last dimension.
class Stored {
public:
  Stored(mlir::Value tensor, const void *data);

  int64_t rows() const { return rowCount; }
  int64_t width() const { return columnCount; }
  bool isBf16() const { return ofBf16; }
  /// Exact: errors are of what is computed, not of what was stored.
  Number at(int64_t row, int64_t column) const {
    return {numbers[size_t(row * columnCount + column)], 0};
  }

private:
  std::vector<double> numbers; ///< [rows][width]
  bool ofBf16;
  int64_t rowCount, columnCount;
};

/// Compares a result's elements.
class Comparison {
public:
  Comparison(mlir::Operation *dispatch, const Launch &launch, unsigned result,
             Judgement &judgement);
  ~Comparison();

  const Stored &stored() const { return memory; }
  /// Element (row, column) should be `expected`, stored with one rounding to bf16 where it is bf16.
  void check(int64_t row, int64_t column, Number expected);
  /// All rows of a column should add up to `expected`, in f32.
  void checkSum(int64_t column, Number expected);

private:
  void count(double found, Number expected);
  void judge(int64_t row, int64_t column, Number expected, double found, double bound);

  const Launch &launch;
  unsigned result;
  Judgement &judgement;
  Stored memory;
  double signedUlps = 0;
  std::unordered_set<double> counted; ///< rounded numbers
};

/// Rows of a dispatch's domain: row b * positions + j is at position j of row b of the batch, or,
/// where the domain is scheduled, at the j-th from where that row's run starts.
class Rows {
public:
  Rows(mlir::Operation *dispatch, const Launch &launch);

  int64_t positions() const { return positionCount; }
  int64_t count() const { return domain.getLaunchRows(); }
  int64_t batch(int64_t row) const { return row / positions(); }
  int64_t position(int64_t row) const;
  bool isValid(int64_t row) const;
  int64_t validRows() const;
  /// ceil(length / factor) of the tokens of the row's sequence, or `all` where the factor is 0.
  int64_t length(int64_t row, int64_t factor, int64_t all) const;
  /// The memory row of a tensor [B, extent, ...] that holds a row.
  int64_t inMemory(int64_t extent, int64_t row) const {
    return batch(row) * extent + position(row) % extent;
  }

private:
  /// Start, count and length by row of the batch; null where the domain is not scheduled.
  const int64_t *runOf(int64_t row) const { return schedule ? schedule + 3 * batch(row) : nullptr; }

  dispatch::DomainAttr domain;
  const int64_t positionCount, domainFactor; ///< of the domain, for rows by the million
  const Launch &launch;
  const int64_t *schedule = nullptr;
};
/// ceil(length / factor) of a row of the batch, or `all` where the factor is 0.
int64_t validLength(const Launch &launch, int64_t batch, int64_t factor, int64_t all);

} // namespace sluice::oracle
