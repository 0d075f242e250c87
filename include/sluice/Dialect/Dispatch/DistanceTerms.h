// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Relative position terms of attention scores.
#pragma once

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/ValueRange.h"

#include <algorithm>
#include <optional>

namespace sluice::dispatch {

/// The distance a p - b q + c of query p and key q, in steps of the finest scale that divides
/// both: a and b are the steps of a query and of a key.
struct Distance {
  int64_t query = 1, key = 1, offset = 0;

  /// Returns the distance of an attribute `distance`: p - q if it is absent. std::nullopt for
  /// another form, or if a or b is below 1.
  static std::optional<Distance> of(std::optional<mlir::AffineMap> map);
  /// Returns the attribute `distance`; null for p - q.
  mlir::AffineMapAttr attribute(mlir::MLIRContext *context) const;

  bool operator==(const Distance &) const = default;
  int64_t between(int64_t p, int64_t q) const { return query * p - key * q + offset; }
  /// Returns the maximum distance of query p over all keys.
  mlir::AffineExpr greatest(mlir::AffineExpr p) const { return p * query + offset; }
};

/// Operands of the terms, after an attention's sequences. Absent ones are null.
struct DistanceTerms {
  mlir::Value query; ///< Qv, rows of heads D columns; present with `rows`
  mlir::Value rows;  ///< R: its row by distance is multiplied by Qv's row p, per head; or a table
                     ///< [M, head size] of rows that all heads share
  mlir::Value bias;  ///< [M, heads]: a number per distance and head
  Distance distance; ///< selects the row of R, or of the table, for p and q
  /// Tables have both directions: the middle row is for distance `offset`, where a p = b q.
  bool isCentered;

  DistanceTerms(mlir::ValueRange terms, bool hasBias, bool isCentered,
                std::optional<mlir::AffineMap> map)
      : distance(Distance::of(map).value_or(Distance())), isCentered(isCentered) {
    if (hasBias && !terms.empty()) {
      bias = terms.back();
      terms = terms.drop_back();
    }
    if (terms.size() == 2) {
      query = terms.front();
      rows = terms.back();
    }
  }

  /// Returns true if R is a table, the same for every row of the batch.
  bool hasRowTable() const { return rows && isTable(rows); }
  static bool isTable(mlir::Value term) {
    auto type = llvm::dyn_cast<mlir::RankedTensorType>(term.getType());
    return type && type.getRank() != 3;
  }
  /// Returns how many of `extras` are tables by distance, where each table is after the sequences.
  static size_t countTables(mlir::ValueRange extras, bool hasBias) {
    bool hasRowTable = extras.size() >= 2 && !isTable(extras[0]) && isTable(extras[1]);
    return (hasRowTable ? 1 : 0) + (hasBias ? 1 : 0);
  }

  /// Returns the distance of the first of a table's `rows` rows, which serves lower ones too.
  int64_t firstDistance(int64_t rows) const {
    return isCentered ? distance.offset - (rows - 1) / 2 : 0;
  }
  /// Returns the row of (p, q) among `rows` rows by distance: 0 <= row < rows.
  int64_t row(int64_t p, int64_t q, int64_t rows) const {
    return std::clamp<int64_t>(distance.between(p, q) - firstDistance(rows), 0, rows - 1);
  }
  /// Returns the number of distances of `queries` queries. Gradients of centered tables have a row
  /// for each of them, before those that share a row of the table are added up.
  int64_t countDistances(int64_t queries) const {
    return distance.query * (queries - 1) + distance.offset + 1;
  }

  size_t count() const { return (rows ? 2 : 0) + (bias ? 1 : 0); }

  /// Index of the terms' first value in the score region, after (score, p, q, head): the product of
  /// Qv's row and R's, then the table's number. The derivative yields the gradients of these values
  /// after the gradient of the score.
  static constexpr unsigned firstArgument = 4;
  unsigned arguments() const { return (rows ? 1 : 0) + (bias ? 1 : 0); }
  unsigned biasArgument() const { return firstArgument + (rows ? 1 : 0); }
};

} // namespace sluice::dispatch
