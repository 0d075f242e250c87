// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Terms of an attention score that depend on the distance of query and key.
#pragma once

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/ValueRange.h"

#include <algorithm>
#include <optional>

namespace sluice::dispatch {

/// The distance a p - b q + c of query p and key q, in steps of the finest scale that divides
/// both: a and b are the steps of a query and of a key.
struct Distance {
  int64_t query = 1, key = 1, offset = 0;

  /// The distance of an attribute `distance`: p - q where it is absent. None where it has another
  /// form, or a or b is below 1.
  static std::optional<Distance> of(std::optional<mlir::AffineMap> map);
  /// The attribute `distance`; null for p - q.
  mlir::AffineMapAttr attribute(mlir::MLIRContext *context) const;

  bool operator==(const Distance &) const = default;
  int64_t between(int64_t p, int64_t q) const { return query * p - key * q + offset; }
  /// The row of `rows` rows by distance that a pair has: 0 <= row < rows.
  int64_t row(int64_t p, int64_t q, int64_t rows) const {
    return std::clamp<int64_t>(between(p, q), 0, rows - 1);
  }
  /// The greatest distance of query p, whatever the key.
  mlir::AffineExpr greatest(mlir::AffineExpr p) const { return p * query + offset; }
};

/// Operands of an attention behind those that each has. Absent ones are null.
struct DistanceTerms {
  mlir::Value query; ///< Qv, rows of heads D columns; there where `rows` is
  mlir::Value rows;  ///< R: the row of p and q is multiplied by Qv's row p, head by head
  mlir::Value bias;  ///< [M, heads]: of the row of p and q, the head's number
  Distance distance; ///< which row of R, or of the table, p and q have

  DistanceTerms(mlir::ValueRange terms, bool hasBias, std::optional<mlir::AffineMap> map)
      : distance(Distance::of(map).value_or(Distance())) {
    if (hasBias && !terms.empty()) {
      bias = terms.back();
      terms = terms.drop_back();
    }
    if (terms.size() == 2) {
      query = terms.front();
      rows = terms.back();
    }
  }

  size_t count() const { return (rows ? 2 : 0) + (bias ? 1 : 0); }

  /// Their values in the score region, as arguments after (score, p, q, head): the product of Qv's
  /// row and R's, then the table's number. The derivative yields those by them behind that by the
  /// score.
  static constexpr unsigned firstArgument = 4;
  unsigned arguments() const { return (rows ? 1 : 0) + (bias ? 1 : 0); }
  unsigned biasArgument() const { return firstArgument + (rows ? 1 : 0); }
};

} // namespace sluice::dispatch
