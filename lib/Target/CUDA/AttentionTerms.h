// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Scores by distance on tensor cores.
//
// Of fixed rows i = 0 ... 63 and streamed rows j = 0 ... n - 1 the differences i - j, or j - i, are
// those of 63 + n rows that follow one another: a *band*, a line each, streamed beside the tile.
// Products with all lines that a warp's 16 rows need are 16 + n lines wide. Of them each score
// wants one, on a diagonal: it comes from another lane by a shuffle ("relative shift", Dai et al.
// 2019, appendix B, within a warp).
//
// With g = lane / 4 and q = lane mod 4, a sum at row g and column 8 n + 2 q + e wants the line
// g - 2 q - e (or its negative) further than its fragment's first: lines of two fragments of 8, in
// the quad of the same row, or in the lane of the same column of another quad.
#pragma once

#include "Attention.h"

namespace sluice::cuda::attention {

constexpr int64_t fixedRows = fragmentRows * warps; ///< of a block

/// One band's geometry: sizes, and where scores' lines are. Constructed at the top of a function.
class Band {
public:
  enum class Slope { FixedMinusStreamed, StreamedMinusFixed };
  Band(AttentionFrame &f, int64_t streamed, Slope slope);

  int64_t lines() const { return fixedRows + streamed; }
  /// The distance of the first line, where tiles of queries and of keys start at these.
  mlir::Value firstDistance(mlir::Value p0, mlir::Value q0);
  /// Lines before that of the first fixed row and the first streamed one.
  int64_t linesBefore() const {
    return (slope == Slope::FixedMinusStreamed ? streamed : fixedRows) - 1;
  }

  /// Scores, [fixed][streamed]: fixed rows times lines, of slope FixedMinusStreamed.
  Values multiplyFixed(const Fixed &fixed, const Tile &band, mlir::Value offset);
  /// Scores, [fixed][streamed]: lines times streamed rows, of slope StreamedMinusFixed.
  Values multiplyStreamed(const Tile &band, const Tile &streamedRows, mlir::Value offset);
  /// sums + weights x the lines that they stand at, of slope FixedMinusStreamed.
  Values multiplyWeights(const Values &weights, const Tile &band, mlir::Value offset, Values sums);

  /// Starts copying one head's biases of the lines from `first` on to byte `byte` + `offset`.
  void loadBiases(int64_t byte, mlir::Value offset, mlir::Value table, mlir::Value head,
                  mlir::Value first);
  mlir::Value bias(int64_t byte, mlir::Value offset, const Place &at);
  int64_t biasBytes() const { return lines() * 4; }

private:
  Values reversed(const Values &from, int64_t columns);
  mlir::Value exchange(mlir::Value x, mlir::Value lane);
  mlir::Value atLeast(mlir::Value x, int64_t bound);

  AttentionFrame &f;
  Emitter &e;
  mlir::ImplicitLocOpBuilder &b;
  const int64_t streamed;
  const Slope slope;
  mlir::Value odd;                  ///< i1: whether g is
  std::array<mlir::Value, 2> lane;  ///< i32: of e = 0 and 1, who has the line
  std::array<mlir::Value, 2> later; ///< i1: whether the line is one of the second fragment
};

/// What a tile's score regions are given: products of queries with keys, and those with rows by
/// distance. There are none of the latter where no rows are, or where the former hold both's sums
/// (`Shape::scoreFactor`).
struct Products {
  Values raw, byDistance;
  /// That by distance of element `i`; null where there are none.
  mlir::Value at(size_t i) const { return byDistance.empty() ? mlir::Value() : byDistance[i]; }
};
/// `byDistance` is empty where there are no rows.
Products productsOf(AttentionFrame &f, Values raw, Values byDistance);

/// One head's columns of Qv (term 0) or R (term 1).
Source sourceOfTerm(AttentionFrame &f, unsigned term, mlir::Value headIndex);

/// Buffers of what is streamed: bands of heads in two parts leave room for one.
inline int64_t buffersOf(const Shape &shape) { return shape.hasTerms() && shape.parts > 1 ? 1 : 2; }

} // namespace sluice::cuda::attention
