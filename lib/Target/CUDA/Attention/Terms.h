// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Relative position scores on tensor cores.
//
// For fixed rows i = 0 ... 63 and streamed rows j = 0 ... n - 1, the differences i - j (or j - i)
// take 63 + n consecutive values. Their rows by distance form a *band*, one line per difference,
// which is streamed with the tile. The product with all lines that the 16 rows of a warp need is 16
// + n lines wide. Each score uses one of them, on a diagonal, and gets it from another lane by a
// shuffle ("relative shift", Dai et al. 2019, appendix B, within a warp).
//
// With g = lane / 4 and q = lane mod 4, a sum at row g and column 8 n + 2 q + e needs the line at
// offset g - 2 q - e (or its negative) from the first line of its fragment. That line is in one of
// two 8-column fragments, in the same quad, or in the lane of the same column of another quad.
#pragma once

#include "Results.h"
#include "Scores.h"
#include "Tiles.h"

#include <array>

namespace sluice::cuda::attention {

constexpr int64_t fixedRows = fragmentRows * warps; ///< per block

/// Geometry of one band: sizes, and the lines of the scores. Constructed at the top of a function.
class Band {
public:
  enum class Slope { FixedMinusStreamed, StreamedMinusFixed };
  Band(AttentionFrame &f, int64_t streamed, Slope slope);

  int64_t lines() const { return fixedRows + streamed; }
  /// Returns the distance of the first line, for tiles of queries and keys that start at p0 and q0.
  mlir::Value firstDistance(mlir::Value p0, mlir::Value q0);
  /// Number of lines before the line of the first fixed and first streamed row.
  int64_t linesBefore() const {
    return (slope == Slope::FixedMinusStreamed ? streamed : fixedRows) - 1;
  }

  /// Computes scores [fixed][streamed] from fixed rows times lines; slope FixedMinusStreamed.
  Values multiplyFixed(const Fixed &fixed, const Tile &band, mlir::Value offset);
  /// Computes scores [fixed][streamed] from lines times streamed rows; slope StreamedMinusFixed.
  Values multiplyStreamed(const Tile &band, const Tile &streamedRows, mlir::Value offset);
  /// Computes sums + weights x lines, each weight with the line of its position; slope
  /// FixedMinusStreamed.
  Values multiplyWeights(const Values &weights, const Tile &band, mlir::Value offset, Values sums);

  /// Starts copying one head's biases of the lines from `first` to byte `byte` + `offset`.
  void loadBiases(int64_t byte, mlir::Value offset, mlir::Value table, mlir::Value head,
                  mlir::Value first);
  mlir::Value bias(int64_t byte, mlir::Value offset, const ElementPlace &at);
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
  mlir::Value odd;                  ///< i1: g is odd
  std::array<mlir::Value, 2> lane;  ///< i32: the lane that holds the line, for e = 0 and 1
  std::array<mlir::Value, 2> later; ///< i1: the line is in the second fragment
};

/// Arguments of the score regions of a tile: products of queries with keys, and products with rows
/// by distance. The latter are absent without such rows, and if `raw` is the sum of both
/// (`AttentionShape::scoreFactor`).
struct Products {
  Values raw, byDistance;
  /// Product by distance of element `i`; null if there is none.
  mlir::Value at(size_t i) const { return byDistance.empty() ? mlir::Value() : byDistance[i]; }
};
/// `byDistance` is empty without rows by distance.
Products computeProducts(AttentionFrame &f, Values raw, Values byDistance);

/// Returns the row of a distance in the table of biases.
mlir::Value emitBiasRow(AttentionFrame &f, mlir::Value distance);

/// Returns the columns of one head of Qv (term 0) or R (term 1).
Source sourceOfTerm(AttentionFrame &f, unsigned term, mlir::Value headIndex);

/// Number of buffers of streamed tiles: bands of heads in two parts leave room for one.
inline int64_t getBuffers(const AttentionShape &shape) {
  return shape.hasTerms() && shape.parts > 1 ? 1 : 2;
}

} // namespace sluice::cuda::attention
